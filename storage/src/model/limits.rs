//! The limits of the data model. Bigtable's own, where it has one (<https://cloud.google.com/bigtable/quotas#limits>),
//! so that a table fits either backend.

/// Bytes of a row key.
pub const ROW_KEY_BYTES_MAX: usize = 4 << 10;
/// Bytes of a qualifier.
pub const QUALIFIER_BYTES_MAX: usize = 16 << 10;
/// Bytes of a value above which the store logs a warning.
pub const CELL_BYTES_SOFT: usize = 10 << 20;
/// Bytes of a value.
pub const CELL_BYTES_MAX: usize = 100 << 20;
/// Bytes of a row above which the store logs a warning.
pub const ROW_BYTES_SOFT: usize = 100 << 20;
/// Bytes of a row, all versions counted.
pub const ROW_BYTES_MAX: usize = 256 << 20;
/// Families of a table.
pub const FAMILIES_MAX: usize = 100;
/// Columns of a table whose cells are erased, but not purged yet.
pub const ERASED_COLUMNS_MAX: usize = 10_000;
/// Tables of a store.
pub const TABLES_MAX: usize = 1_000;
/// Mutations in one request, over all its rows: three times Bigtable's. What SQL writes is held to Bigtable's 100,000
/// cells above the store; a commit of as many has a mutation for each row beside them, and for each row that it locks.
pub const MUTATIONS_MAX: usize = 300_000;
/// Nesting of a filter.
pub const FILTER_DEPTH_MAX: usize = 20;
/// Bytes of a serialised filter's patterns and values.
pub const FILTER_BYTES_MAX: usize = 20 << 10;
/// Maximum copies of one cell that a filter returns: interleaves in a chain multiply them.
pub const FILTER_COPIES_MAX: usize = 1_000;
/// Characters of a table name.
pub const TABLE_NAME_MAX: usize = 50;
/// Characters of a family name.
pub const FAMILY_NAME_MAX: usize = 64;
/// How far a client's timestamp may lie ahead of the store's clock, in microseconds.
pub const TIMESTAMP_AHEAD_MAX_MICROS: i64 = 86_400_000_000;
/// Minimum time for which a table keeps history, in microseconds.
pub const HISTORY_MICROS_MIN: i64 = 1_000;
