//! Which cells of a stored row a scan looks at.

use super::merge::Body;
use crate::{
    Cell, Columns, FamilyName, Scan, TimestampRange,
    engine::{
        cells,
        segment::{SelectedColumns, SelectedFamily, StoredCell},
        state::Table,
    },
    row::RowReader,
};
use bytes::Bytes;

/// What is wanted of each family, by number; `None` where no family has the number.
#[derive(Debug)]
pub(super) struct CellSelection {
    families: Vec<Option<FamilySelection>>,
    /// Whether versions older than the newest matter.
    pub(super) older: bool,
}

/// What is wanted of a family.
#[derive(Debug)]
struct FamilySelection {
    name: FamilyName,
    columns: ColumnSet,
    /// What its cells of other columns are to the row's existence.
    other: Witness,
}

#[derive(Clone, Debug)]
enum ColumnSet {
    None,
    All,
    These(Vec<Bytes>),
}

/// What an unwanted cell says of the existence of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// Nothing that is asked for.
    Unneeded,
    /// That the row exists, unless the cell is condemned.
    Doubtful,
    /// That the row exists, if it is the newest of its column.
    Sure,
}

impl CellSelection {
    pub(super) fn new(table: &Table, scan: &Scan, reader: &RowReader) -> Self {
        // What a past rule may have condemned shows nothing, though the rule of today condemns nothing.
        let condemned = |number: u32| {
            let of_family = table.past_rules.iter().filter(|past| past.family == number);
            of_family.into_iter().any(|past| past.rule.condemns(0, i64::MIN, i64::MAX))
        };
        let names = table.descriptor.names().zip(0..);
        let families =
            names.map(|(name, number)| Some(FamilySelection::new(name?, scan, reader, condemned(number)))).collect();
        let older = scan.versions_max != Some(1) || scan.timestamps != TimestampRange::all() || scan.filter.is_some();
        Self { families, older }
    }

    /// What is to be read of a segment; `sure` is a column that every one of its rows has, of a family whose newest cells always live.
    pub(super) fn of_segment(&self, sure: Option<(u32, Bytes)>) -> Vec<SelectedFamily> {
        let families = self.families.iter().zip(0..);
        let families = families.filter_map(|(wanted, number)| {
            let wanted = wanted.as_ref()?;
            let witness = sure.as_ref().filter(|(family, _)| *family == number).map(|(_, qualifier)| qualifier);
            let columns = match (&wanted.columns, wanted.other) {
                (ColumnSet::All, _) => SelectedColumns::All,
                // Without a sure column every cell is one that may show that the row exists.
                (_, Witness::Doubtful | Witness::Sure) if sure.is_none() => SelectedColumns::All,
                (ColumnSet::None, _) => SelectedColumns::These(witness.into_iter().cloned().collect()),
                (ColumnSet::These(qualifiers), _) => {
                    let mut qualifiers = qualifiers.clone();
                    if let Some(witness) = witness
                        && let Err(at) = qualifiers.binary_search(witness)
                    {
                        qualifiers.insert(at, witness.clone());
                    }
                    SelectedColumns::These(qualifiers)
                }
            };
            let is_empty = matches!(&columns, SelectedColumns::These(qualifiers) if qualifiers.is_empty());
            (!is_empty).then_some(SelectedFamily { family: number, columns })
        });
        families.collect()
    }

    /// Whether nothing is asked of a row but that it exists.
    pub(super) fn is_existence(&self) -> bool {
        let nothing =
            |wanted: &FamilySelection| matches!(wanted.columns, ColumnSet::None) && wanted.other != Witness::Unneeded;
        !self.older && self.families.iter().flatten().all(nothing)
    }

    /// The families whose newest cells show that a row exists, whatever the time; none when that is not asked for.
    pub(super) fn sure_families(&self) -> Vec<u32> {
        let families = self.families.iter().zip(0..);
        let sure = families.filter(|(wanted, _)| wanted.as_ref().is_some_and(|wanted| wanted.other == Witness::Sure));
        sure.map(|(_, number)| number).collect()
    }

    /// Whether cells that are not wanted show that a row exists.
    pub(super) fn needs_witness(&self) -> bool {
        self.families.iter().flatten().any(|wanted| wanted.other != Witness::Unneeded)
    }

    /// The wanted cells of a row: whole columns. Where rows of unwanted cells count, also as many of these as it takes to see that the
    /// row exists.
    pub(super) fn cells(&self, table: &Table, body: Body) -> Vec<Cell> {
        match body {
            Body::Encoded(row, as_of) => table.without_condemned(self.of_encoded(&row), as_of),
            Body::Cells(cells, stamp) => table.without_condemned(self.of_stored(cells), Some(stamp)),
        }
    }

    fn of_stored(&self, cells: Vec<StoredCell>) -> Vec<Cell> {
        let mut wanted_cells = Vec::with_capacity(cells.len());
        wanted_cells.extend(cells.into_iter().filter_map(|StoredCell { family, qualifier, timestamp, value }| {
            let wanted = self.families.get(family as usize)?.as_ref()?;
            Some(Cell { family: wanted.name.clone(), qualifier, timestamp, value })
        }));
        wanted_cells
    }

    fn of_encoded(&self, row: &Bytes) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut chosen = None;
        let mut exists = false;
        // Columns come in order, wanted ones too: a step forward in the one list is never a step back in the other.
        let (mut family, mut passed) = (None, 0);
        for cell in cells::decode(row) {
            let Some(Some(wanted)) = self.families.get(cell.family as usize) else { continue };
            if cell.new_column {
                if family != Some(cell.family) {
                    (family, passed) = (Some(cell.family), 0);
                }
                let is_wanted = match &wanted.columns {
                    ColumnSet::None => false,
                    ColumnSet::All => true,
                    ColumnSet::These(qualifiers) => {
                        passed += qualifiers[passed..].iter().take_while(|wanted| ***wanted < *cell.qualifier).count();
                        qualifiers.get(passed).is_some_and(|wanted| **wanted == *cell.qualifier)
                    }
                };
                let is_witness = !exists && wanted.other != Witness::Unneeded;
                chosen = (is_wanted || is_witness).then(|| (&wanted.name, row.slice_ref(cell.qualifier)));
                exists |= wanted.other == Witness::Sure;
            }
            if let Some((name, qualifier)) = &chosen {
                cells.push(Cell {
                    family: FamilyName::clone(name),
                    qualifier: qualifier.clone(),
                    timestamp: cell.timestamp,
                    value: row.slice_ref(cell.value),
                });
            }
        }
        cells
    }
}

impl FamilySelection {
    fn new(name: &FamilyName, scan: &Scan, reader: &RowReader, condemned: bool) -> Self {
        let columns = match &scan.columns {
            Columns::All => ColumnSet::All,
            Columns::Of(columns) => match columns.iter().find(|of| of.family == *name) {
                None => ColumnSet::None,
                Some(of) => of.qualifiers.clone().map_or(ColumnSet::All, ColumnSet::These),
            },
        };
        let other = match scan.keep_empty {
            false => Witness::Unneeded,
            true if reader.newest_always_lives(name) && !condemned => Witness::Sure,
            true => Witness::Doubtful,
        };
        Self { name: name.clone(), columns, other }
    }
}
