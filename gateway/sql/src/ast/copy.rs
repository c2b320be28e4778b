//! `COPY` as it was written.

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
    /// The file as it was written.
    pub path: String,
    /// How pages are compressed.
    pub compression: Compression,
}

/// How the pages of a Parquet file are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not.
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
    /// How they are written.
    pub options: CopyOptions,
}

/// `COPY table FROM STDIN`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyFrom {
    /// The table.
    pub table: RelationName,
    /// The columns that the data has; none for all.
    pub columns: Vec<String>,
    /// How the data is written.
    pub options: CopyOptions,
}

/// How rows are written as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Whether there is a first line with the names of the columns.
    pub header: Header,
    /// What stands between two fields.
    pub delimiter: u8,
    /// What stands for NULL.
    pub null: String,
    /// What stands around fields, in CSV.
    pub quote: u8,
    /// What stands before a quote in a field, in CSV.
    pub escape: u8,
    /// Fields that always stand in quotes, in CSV.
    pub force_quote: Forced,
    /// Fields that are never NULL, in CSV.
    pub force_not_null: Forced,
    /// Fields that are NULL in quotes too, in CSV.
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
    /// Lines of fields, with backslashes.
    #[default]
    Text,
    /// Lines of fields, with quotes.
    Csv,
    /// Fields with their lengths.
    Binary,
}

/// The first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Header {
    /// A row.
    #[default]
    No,
    /// Names, passed over on the way in.
    Yes,
    /// Names, which have to be those of the columns.
    Match,
}

/// Columns that an option names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Forced {
    /// None.
    #[default]
    None,
    /// `*`
    All,
    /// These.
    Of(Vec<String>),
}

impl Forced {
    /// Whether the option holds for each of the columns.
    ///
    /// # Errors
    /// 42P10 for a column that the statement does not copy.
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
