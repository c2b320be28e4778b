//! Selects the cells of a stored row that a scan reads.

use super::merge::Body;
use crate::{
    Cell, Columns, FamilyName, Result, Scan, TimestampRange,
    engine::{
        cells,
        segment::{DecodedRow, SelectedColumns, SelectedFamily},
        state::Table,
    },
    row::RowReader,
};
use bytes::Bytes;

/// Cells of a row that room is made for at once: rows of families with many columns have few of them.
const CELLS_MAX: usize = 16;

/// The selection for each family, by number; `None` if no family has the number.
#[derive(Debug)]
pub(super) struct CellSelection {
    families: Vec<Option<FamilySelection>>,
    /// Whether versions older than the newest are needed.
    pub(super) older: bool,
}

/// The selection for a family.
#[derive(Debug)]
struct FamilySelection {
    name: FamilyName,
    columns: ColumnSet,
    /// How its cells of other columns prove the row's existence.
    other: Witness,
}

#[derive(Clone, Debug)]
enum ColumnSet {
    None,
    All,
    These(Vec<Bytes>),
}

/// What an unselected cell proves about the existence of its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// Existence need not be proved.
    Unneeded,
    /// The row exists, unless the cell is condemned.
    Doubtful,
    /// The row exists, if the cell is the newest of its column.
    Sure,
}

impl CellSelection {
    pub(super) fn new(table: &Table, scan: &Scan, reader: &RowReader) -> Self {
        // Past rules may have condemned a cell even if the current rule condemns nothing.
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

    /// The columns to read of a segment. `sure` is a column that all of its rows have, of a family whose newest cells
    /// are always live.
    pub(super) fn of_segment(&self, sure: Option<(u32, Bytes)>) -> Vec<SelectedFamily> {
        let families = self.families.iter().zip(0..);
        let families = families.filter_map(|(wanted, number)| {
            let wanted = wanted.as_ref()?;
            let witness = sure.as_ref().filter(|(family, _)| *family == number).map(|(_, qualifier)| qualifier);
            let columns = match (&wanted.columns, wanted.other) {
                (ColumnSet::All, _) => SelectedColumns::All,
                // Without a sure column, any cell may be the proof that the row exists.
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

    /// Whether only the existence of rows is asked for.
    pub(super) fn is_existence(&self) -> bool {
        let nothing =
            |wanted: &FamilySelection| matches!(wanted.columns, ColumnSet::None) && wanted.other != Witness::Unneeded;
        !self.older && self.families.iter().flatten().all(nothing)
    }

    /// The families whose newest cells prove that a row exists, at any time; empty if existence need not be proved.
    pub(super) fn sure_families(&self) -> Vec<u32> {
        let families = self.families.iter().zip(0..);
        let sure = families.filter(|(wanted, _)| wanted.as_ref().is_some_and(|wanted| wanted.other == Witness::Sure));
        sure.map(|(_, number)| number).collect()
    }

    /// Whether unselected cells are needed as proof that a row exists.
    pub(super) fn needs_witness(&self) -> bool {
        self.families.iter().flatten().any(|wanted| wanted.other != Witness::Unneeded)
    }

    /// The selected cells of a row, in whole columns. If rows without selected cells count, also enough other cells to
    /// prove that the row exists.
    ///
    /// # Errors
    /// Errors of reading files.
    pub(super) fn cells(&self, table: &Table, body: Body) -> Result<Vec<Cell>> {
        Ok(match body {
            Body::Encoded(row, as_of) => table.without_condemned(self.of_encoded(&row), as_of),
            Body::Decoded(row, stamp) => table.without_condemned(self.of_decoded(&row)?, Some(stamp)),
            Body::Witness(family, qualifier, timestamp) => {
                let cell = |name: &FamilyName| Cell { family: name.clone(), qualifier, timestamp, value: Bytes::new() };
                table.without_condemned(self.name(family).map(cell).into_iter().collect(), Some(timestamp))
            }
        })
    }

    fn of_decoded(&self, row: &DecodedRow) -> Result<Vec<Cell>> {
        let mut cells = Vec::with_capacity(row.columns().min(CELLS_MAX));
        row.cells(|cell| {
            let Some(family) = self.name(cell.family) else { return };
            let (qualifier, value) = (cell.qualifier(), cell.value());
            cells.push(Cell { family: family.clone(), qualifier, timestamp: cell.timestamp, value });
        })?;
        Ok(cells)
    }

    fn name(&self, family: u32) -> Option<&FamilyName> {
        self.families.get(family as usize)?.as_ref().map(|wanted| &wanted.name)
    }

    fn of_encoded(&self, row: &Bytes) -> Vec<Cell> {
        let mut cells = Vec::new();
        let mut chosen = None;
        let mut exists = false;
        // Columns are in order, selected ones too: both lists are only walked forward.
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
