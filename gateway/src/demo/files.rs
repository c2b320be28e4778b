//! The Parquet files of `gateway/demo`, which are part of the program, as rows of values.

use super::tenant_id;
use crate::pg::{
    error::{Result, SqlError, SqlState},
    types::value_of_scalar,
};
use arrow::{array::RecordBatch, error::ArrowError};
use bytes::Bytes;
use datafusion::scalar::ScalarValue;
use keyspan_catalog::{TenantId, Value};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

/// The column of every file that names the tenant.
const TENANT: &str = "carrier";
/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1_024;

/// A file that holds the rows of a table, for all tenants.
pub(super) struct File {
    /// The table.
    pub(super) table: &'static str,
    bytes: &'static [u8],
}

/// The files, in the order in which they are loaded: the small ones first, so that whoever looks in finds something to
/// join.
pub(super) const FILES: [File; 3] = [
    File { table: "airports", bytes: include_bytes!("../../demo/airports.parquet") },
    File { table: "weather", bytes: include_bytes!("../../demo/weather.parquet") },
    File { table: "flights", bytes: include_bytes!("../../demo/flights.parquet") },
];
const AIRLINES: File = File { table: "", bytes: include_bytes!("../../demo/airlines.parquet") };

/// The tenants: every airline.
pub(super) fn tenants() -> Result<Vec<TenantId>> {
    AIRLINES.read()?.map(|row| Ok(row?.0)).collect()
}

impl File {
    fn metadata(&self) -> Result<ArrowReaderMetadata> {
        ArrowReaderMetadata::load(&Bytes::from_static(self.bytes), Default::default()).map_err(|error| damaged(&error))
    }

    /// How many rows it has.
    pub(super) fn rows(&self) -> Result<u64> {
        Ok(self.metadata()?.metadata().file_metadata().num_rows().unsigned_abs())
    }

    /// The columns that [`read`](Self::read) gives: all but the tenant's.
    pub(super) fn columns(&self) -> Result<Vec<String>> {
        let metadata = self.metadata()?;
        let names = metadata.schema().fields().iter().map(|field| field.name());
        Ok(names.filter(|name| *name != TENANT).cloned().collect())
    }

    /// The rows, in the file's order, a batch in memory at a time.
    pub(super) fn read(&self) -> Result<impl Iterator<Item = Result<(TenantId, Vec<Value>)>> + use<>> {
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(Bytes::from_static(self.bytes), self.metadata()?);
        let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(|error| damaged(&error))?;
        Ok(batches.flat_map(|batch| match batch {
            Ok(batch) => rows_of(&batch),
            Err(error) => vec![Err(damaged(&error))],
        }))
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<Result<(TenantId, Vec<Value>)>> {
    (0..batch.num_rows()).map(|row| row_of(batch, row)).collect()
}

fn row_of(batch: &RecordBatch, row: usize) -> Result<(TenantId, Vec<Value>)> {
    let mut tenant = None;
    let mut values = Vec::with_capacity(batch.num_columns());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let scalar = ScalarValue::try_from_array(array, row).map_err(|error| damaged(&error))?;
        match value_of_scalar(&scalar)? {
            Value::Text(id) if field.name() == TENANT => tenant = Some(tenant_id(&id)?),
            value => values.push(value),
        }
    }
    let tenant = tenant.ok_or_else(|| damaged(&ArrowError::SchemaError(format!("no column {TENANT}"))))?;
    Ok((tenant, values))
}

fn damaged(error: &dyn std::error::Error) -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, format!("the demo's data in this program is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn airlines_are_tenants() {
        let tenants: Vec<_> = tenants().unwrap().iter().map(TenantId::to_string).collect();
        assert_eq!(tenants.len(), 16);
        assert!(tenants.iter().any(|tenant| tenant == "vx") && tenants.iter().any(|tenant| tenant == "9e"));
    }

    #[test]
    fn files_hold_what_their_readme_says() {
        let rows: Vec<_> = FILES.iter().map(|file| (file.table, file.rows().unwrap())).collect();
        assert_eq!(rows, [("airports", 338), ("weather", 23_875), ("flights", 336_776)]);
    }

    #[test]
    fn a_row_has_a_value_for_each_column() {
        for file in FILES {
            let columns = file.columns().unwrap();
            let (tenant, values) = file.read().unwrap().next().unwrap().unwrap();
            assert_eq!((tenant.as_str(), values.len()), ("9e", columns.len()), "{}", file.table);
            assert!(!columns.iter().any(|column| column == TENANT));
        }
    }
}
