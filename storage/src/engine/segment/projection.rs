//! Which columns of a row group are read for a selection of cells. Pure.

use super::{
    footer::Footer,
    open::{ColumnIndexes, Loaded},
    rows::{SelectedColumns, SelectedFamily},
};
use bytes::Bytes;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

/// The columns of the file to read of a row group, and their use.
#[derive(Clone, Debug, Default)]
pub(super) struct Projection {
    /// Indexes in the file, ascending.
    pub(super) columns: Vec<usize>,
    pub(super) key: bool,
    pub(super) families: Vec<ProjectedFamily>,
    /// Whether rows may have their overflow in the side file.
    pub(super) side: bool,
}

/// The columns to read of a family.
#[derive(Clone, Debug)]
pub(super) struct ProjectedFamily {
    pub(super) number: u32,
    pub(super) shredded: Vec<ProjectedColumn>,
    pub(super) overflow: bool,
    /// The selected columns of the overflow.
    pub(super) wanted: SelectedColumns,
}

/// A shredded column that is read.
#[derive(Clone, Debug)]
pub(super) struct ProjectedColumn {
    pub(super) qualifier: Bytes,
    /// Whether its timestamps are read too, because some differ from those of the rows.
    pub(super) timestamps: bool,
}

impl Projection {
    /// The columns needed for the selected cells of the rows of a row group; columns without cells are left out.
    pub(super) fn new(loaded: &Loaded, group: usize, wanted: &[SelectedFamily], older: bool, key: bool) -> Self {
        let (footer, indexes) = (&loaded.footer, loaded.column_indexes());
        let found = &footer.groups[group];
        let mut projection = Self { key, ..Self::default() };
        projection.columns.extend(key.then_some(ColumnIndexes::KEY));
        let (mut values, mut overflows) = (Vec::new(), Vec::new());
        for (at, family) in footer.families.iter().enumerate() {
            let Some(of) = wanted.iter().find(|of| of.family == family.number) else { continue };
            let columns = footer.columns_of(family.number);
            let overflow = found.overflow[at] > 0 && overflow_is_needed(footer, group, of, older);
            let is_wanted = |qualifier: &Bytes| of.columns.contains(qualifier);
            let chosen =
                columns.filter(|&column| found.values[column] > 0 && is_wanted(&footer.columns[column].qualifier.0));
            let shredded = chosen.map(|column| {
                let timestamps = found.timestamps[column] > 0;
                values.push(indexes.values(column));
                values.extend(timestamps.then_some(indexes.values(column) + 1));
                ProjectedColumn { qualifier: footer.columns[column].qualifier.0.clone(), timestamps }
            });
            let shredded: Vec<_> = shredded.collect();
            overflows.extend(overflow.then_some(indexes.overflow(at)));
            projection.side |= overflow && found.side > 0;
            if overflow || !shredded.is_empty() {
                let (number, wanted) = (family.number, of.columns.clone());
                projection.families.push(ProjectedFamily { number, shredded, overflow, wanted });
            }
        }
        if !values.is_empty() {
            projection.columns.push(ColumnIndexes::TIMESTAMP);
        }
        projection.columns.extend(values);
        projection.columns.extend(overflows);
        projection.columns.extend(projection.side.then_some(indexes.side));
        projection
    }

    /// Whether nothing is read.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Rows of a row group that take about `bytes` bytes when decoded, at least one.
    pub(super) fn rows_of_bytes(&self, loaded: &Loaded, group: usize, bytes: usize) -> usize {
        let row_bytes: usize = self.columns.iter().map(|&column| loaded.value_bytes[group][column] as usize).sum();
        (bytes / row_bytes.max(1)).max(1)
    }
}

impl Projection {
    /// Rows of a row group that take about `bytes` bytes of the file, at least one.
    pub(super) fn rows_of_file_bytes(&self, loaded: &Loaded, group: usize, bytes: u64) -> usize {
        let group = loaded.metadata.metadata().row_group(group);
        let all: u64 = self.columns.iter().map(|&column| group.column(column).byte_range().1).sum();
        let rows = u64::try_from(group.num_rows()).unwrap_or_default() * bytes / all.max(1);
        usize::try_from(rows).unwrap_or(usize::MAX).max(1)
    }
}

/// Whether the overflow of a family may hold selected cells.
fn overflow_is_needed(footer: &Footer, group: usize, wanted: &SelectedFamily, older: bool) -> bool {
    match &wanted.columns {
        SelectedColumns::These(qualifiers) => {
            qualifiers.iter().any(|qualifier| footer.overflow_may_hold(group, wanted.family, qualifier, older))
        }
        SelectedColumns::All => {
            let found = &footer.groups[group];
            let mut columns = footer.columns_of(wanted.family);
            let newest = columns.any(|column| found.residual[column] > 0);
            let other = footer.family(wanted.family).is_some_and(|at| !footer.families[at].qualifiers.is_empty());
            older || newest || other
        }
    }
}

/// By row group and column of the file: average bytes of a value in the page with the largest average.
pub(super) type ValueBytes = Vec<Vec<u32>>;

/// See [`ValueBytes`].
pub(super) fn value_bytes_max(metadata: &ParquetMetaData) -> ValueBytes {
    let groups = metadata.row_groups().iter().enumerate();
    let of_group = |(at, group): (usize, &RowGroupMetaData)| {
        let columns = 0..group.num_columns();
        columns.map(|column| u32::try_from(of_column(metadata, at, column)).unwrap_or(u32::MAX)).collect()
    };
    groups.map(of_group).collect()
}

fn of_column(metadata: &ParquetMetaData, group: usize, column: usize) -> usize {
    const FIXED_BYTES: usize = 16;
    let rows = metadata.row_group(group).num_rows();
    let Some(index) = metadata.offset_index().and_then(|groups| groups.get(group)?.get(column)) else {
        return FIXED_BYTES;
    };
    let Some(bytes) = index.unencoded_byte_array_data_bytes() else { return FIXED_BYTES };
    let pages = index.page_locations();
    let of_page = pages.iter().zip(bytes).enumerate().map(|(at, (page, bytes))| {
        let end = pages.get(at + 1).map_or(rows, |next| next.first_row_index);
        bytes / (end - page.first_row_index).max(1)
    });
    FIXED_BYTES + usize::try_from(of_page.max().unwrap_or_default()).unwrap_or_default()
}
