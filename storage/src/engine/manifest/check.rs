//! Validates the content of a manifest. Pure.
//!
//! The checksum verifies that a manifest is what was written; this verifies that it describes a possible store. It is
//! called before a manifest is written, so that a bug of this program stops there, and when one is read.

use super::{Manifest, TableMeta, TabletMeta};
use std::collections::{BTreeMap, BTreeSet};

impl Manifest {
    /// Checks that names, numbers, ranges and segments are consistent; returns what is not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut segments = BTreeMap::new();
        for tablet in self.tables.iter().flat_map(|table| &table.tablets) {
            for segment in &tablet.segments {
                if *segments.entry(segment.id).or_insert(segment) != segment {
                    return Err(format!("segment {} is there in two forms", segment.id));
                }
            }
        }
        for (id, dead) in &self.deletion_vectors {
            let Some(segment) = segments.get(id) else {
                return Err(format!("segment {id} has dead positions, and is not there"));
            };
            if dead.count > u64::from(segment.rows) || dead.version > self.version {
                return Err(format!("the dead positions of segment {id} contradict it"));
            }
        }
        let mut numbers = BTreeSet::new();
        let mut names = BTreeMap::new();
        for table in &self.tables {
            let Some((name, descriptor)) = table.descriptor.clone().into_descriptor() else {
                return Err("the families of a table contradict each other".into());
            };
            if !numbers.insert(descriptor.number) || descriptor.number >= self.next_table {
                return Err(format!("the number {} of table {name:?} is another's", descriptor.number));
            }
            table.check().map_err(|detail| format!("table {name:?}: {detail}"))?;
            if names.insert(name.clone(), descriptor.schema.history.is_some()).is_some() {
                return Err(format!("table {name:?} is there twice"));
            }
        }
        for (name, keeps_history) in &names {
            let agrees = match name.of_history() {
                Some(table) => names.get(&table) == Some(&true),
                None => names.contains_key(&name.history_table()) == *keeps_history,
            };
            if !agrees {
                return Err(format!("table {name:?} and the past of the table contradict each other"));
            }
        }
        Ok(())
    }
}

impl TableMeta {
    fn check(&self) -> Result<(), String> {
        for pair in self.tablets.windows(2) {
            if pair[0].range.end.as_ref().is_none_or(|end| *end > pair[1].range.start) {
                return Err("tablets overlap, or are not in order".into());
            }
        }
        self.tablets.iter().try_for_each(TabletMeta::check)
    }
}

impl TabletMeta {
    fn check(&self) -> Result<(), String> {
        if !self.segments.is_sorted_by_key(|segment| !segment.base) {
            return Err("a base comes after a delta".into());
        }
        for segment in &self.segments {
            let id = segment.id;
            if segment.rows == 0 {
                return Err(format!("segment {id} has no rows"));
            }
            if segment.first > segment.last {
                return Err(format!("segment {id} ends before it begins"));
            }
            let ends_before = segment.last[..] < self.range.start[..];
            if ends_before || self.range.end.as_ref().is_some_and(|end| segment.first[..] >= end[..]) {
                return Err(format!("segment {id} lies outside of its tablet"));
            }
        }
        Ok(())
    }
}
