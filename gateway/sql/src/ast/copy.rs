//! `COPY`: its statements and their options.

use datafusion::sql::sqlparser::ast;
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    names::RelationName,
};

/// `COPY … TO 'file'`
#[derive(Clone, Debug, PartialEq)]
pub struct CopyTo {
    /// The rows: always [`ast::Statement::Query`].
    pub query: Box<ast::Statement>,
    /// The path as the statement has it.
    pub path: String,
    /// The compression of pages.
    pub compression: Compression,
}

/// The compression of the pages of a Parquet file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// No compression: `none`, `uncompressed`.
    None,
    /// `snappy`
    Snappy,
    /// `lz4_raw`
    Lz4,
    /// `zstd`
    #[default]
    Zstd,
}

/// `COPY … TO STDOUT`
#[derive(Clone, Debug, PartialEq)]
pub struct CopyOut {
    /// The rows: always [`ast::Statement::Query`].
    pub query: Box<ast::Statement>,
    /// The format of the rows.
    pub options: CopyOptions,
}

/// `COPY table FROM STDIN`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFrom {
    /// The table.
    pub table: RelationName,
    /// The columns of the data, in order; empty for all.
    pub columns: Vec<String>,
    /// The format of the data.
    pub options: CopyOptions,
}

/// The format of rows and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Whether the first line has the names of the columns.
    pub header: Header,
    /// The byte between two fields.
    pub delimiter: u8,
    /// The text of NULL.
    pub null: String,
    /// The quote of CSV.
    pub quote: u8,
    /// The byte before a quote within a quoted field of CSV.
    pub escape: u8,
    /// `FORCE_QUOTE`: columns that `COPY TO` writes in quotes always, in CSV.
    pub force_quote: Forced,
    /// `FORCE_NOT_NULL`: columns whose unquoted fields are never NULL, in CSV.
    pub force_not_null: Forced,
    /// `FORCE_NULL`: columns whose quoted fields may be NULL, in CSV.
    pub force_null: Forced,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            format: CopyFormat::Text,
            header: Header::No,
            delimiter: b'\t',
            null: "\\N".to_owned(),
            quote: b'"',
            escape: b'"',
            force_quote: Forced::None,
            force_not_null: Forced::None,
            force_null: Forced::None,
        }
    }
}

/// A format of `COPY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyFormat {
    /// `text`: lines of fields, with backslash escapes.
    #[default]
    Text,
    /// `csv`: lines of fields, with quotes.
    Csv,
    /// `binary`: fields with their lengths.
    Binary,
}

/// The meaning of the first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// It is a row.
    #[default]
    No,
    /// It has names, which `COPY FROM` skips.
    Yes,
    /// It has names, which must equal those of the columns.
    Match,
}

/// The columns that an option applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Forced {
    /// No column.
    #[default]
    None,
    /// `*`
    All,
    /// The named columns.
    Of(Vec<String>),
}

impl Forced {
    /// Whether the option applies, for each of the statement's columns.
    ///
    /// # Errors
    /// 42P10 if the option names a column that the statement does not copy.
    pub fn among(&self, names: &[&str], option: &str) -> Result<Vec<bool>> {
        let named = match self {
            Self::None => return Ok(vec![false; names.len()]),
            Self::All => return Ok(vec![true; names.len()]),
            Self::Of(named) => named,
        };
        if let Some(other) = named.iter().find(|name| !names.contains(&name.as_str())) {
            let message = format!("{option} column \"{other}\" not referenced by COPY");
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(names.iter().map(|name| named.iter().any(|of| of == name)).collect())
    }
}
