//! Moves tablet boundaries that are keys of purged rows.
//!
//! A boundary is the first key of a base that once began there. When the row is purged, its key must go too: from the
//! manifest, and from what operators see of tablets. So the boundary moves up to a key at which no row changes its
//! tablet ([`Tablets::without_boundaries_in`]).

use super::{Maintenance, tablet_meta};
use crate::{
    KeyRange, Result, RowSet, TableName,
    engine::{install::Installable, manifest::SegmentId, segment::Segment, tablet::Tablets},
};
use std::collections::BTreeMap;

impl Maintenance {
    /// A segment id greater than that of every segment begun before this call, and less than that of every later one.
    pub(crate) fn segments_from_now_on(&self) -> SegmentId {
        let _one = self.compactions.hold();
        self.next_id()
    }

    /// Moves boundaries out of ranges that hold only recently written rows.
    ///
    /// # Errors
    /// Errors of reading segments and of writing a manifest.
    pub(crate) fn move_boundaries(&self, ranges: &[(TableName, KeyRange)]) -> Result<()> {
        // Compactions identify their tablet by its boundaries.
        let _one = self.compactions.hold();
        let mut in_force = self.manifest_as_published()?;
        let state = self.shared.published.load_full();
        let mut moved: BTreeMap<u32, Tablets<Segment>> = BTreeMap::new();
        for (name, table) in &state.tables {
            let of_table = ranges.iter().filter(|(of, _)| of == name).map(|(_, range)| range.clone());
            let next = |segment: &Segment, key: &[u8]| segment.next_key(key);
            if let Some(tablets) = table.tablets.without_boundaries_in(RowSet::new(of_table).ranges(), next)? {
                moved.insert(table.descriptor.number, tablets);
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        let (mut manifest, mut dead) = (in_force.manifest.clone(), in_force.deletion_vectors.clone());
        for table in &mut manifest.tables {
            let Some(tablets) = moved.get(&table.descriptor.number()) else { continue };
            for id in table.tablets.iter().flat_map(|tablet| &tablet.segments).map(|meta| meta.id) {
                if !tablets.names(id) {
                    dead.remove(&id);
                }
            }
            table.tablets = tablets.iter().map(tablet_meta).collect();
        }
        self.commit(&mut in_force, manifest, dead)?;
        self.install(Installable::BoundariesMoved(moved))
    }
}
