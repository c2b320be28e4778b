//! `SHOW`: settings as rows.

use crate::{
    execute::Outcome,
    pg::error::{Result, SqlError, SqlState},
    session::Session,
    settings::{Settings, postgres, unknown},
};
use arrow::{
    array::{ArrayRef, RecordBatch, StringViewArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use std::sync::Arc;

/// The columns of `SHOW name`, and of `SHOW ALL`.
///
/// # Errors
/// 42704 for an unknown setting.
pub(crate) fn columns(name: Option<&str>) -> Result<SchemaRef> {
    match name {
        None => Ok(texts(&["name", "setting", "description"])),
        Some(name) => {
            let described = Settings::describe(name).ok_or_else(|| unknown(name))?;
            Ok(texts(&[&described.0]))
        }
    }
}

/// The rows of `SHOW`.
pub(crate) fn show(session: &Session, name: Option<&str>) -> Result<Outcome> {
    let mut settings = session.settings();
    if session.writes_on_server() {
        settings.insert("keyspan.transactions".into(), "row".into());
    }
    let rows = match name {
        Some(name) => {
            let lower = name.to_lowercase();
            let value = settings.remove(&lower).or_else(|| Settings::at_start(&lower));
            vec![vec![Some(value.ok_or_else(|| unknown(name))?)]]
        }
        None => {
            for parameter in postgres::all() {
                settings.entry(parameter.name.to_owned()).or_insert_with(|| parameter.shown_start());
            }
            let describe = |(name, value): (String, String)| {
                let (shown, text) = Settings::describe(&name).unwrap_or_default();
                vec![Some(shown.into_owned()), Some(value), Some(text.to_owned())]
            };
            settings.into_iter().map(describe).collect()
        }
    };
    text_rows("SHOW", columns(name)?, &rows)
}

/// Columns of text.
pub(crate) fn texts(names: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::Utf8View, true);
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

/// Rows of text, with NULLs, as an outcome.
///
/// # Errors
/// A fault of ours.
pub(crate) fn text_rows(tag: &'static str, schema: SchemaRef, rows: &[Vec<Option<String>>]) -> Result<Outcome> {
    let column =
        |at: usize| -> ArrayRef { Arc::new(StringViewArray::from_iter(rows.iter().map(|row| row[at].as_deref()))) };
    let columns = (0..schema.fields().len()).map(column).collect();
    let batch = RecordBatch::try_new(schema.clone(), columns)
        .map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
    let rows = futures::stream::iter([Ok(batch)]);
    let rows = Box::pin(RecordBatchStreamAdapter::new(schema, rows));
    Ok(Outcome::Rows { tag, rows, needs: Arc::default() })
}
