//! Rows that grow towards their limit, and cells that are larger than cells should be.

use super::{
    Advice, Kind, Remedy,
    remake::{Remake, free_column, named, parts},
};
use crate::{
    pg::ident::quote_ident,
    resources::Size,
    shares::access::{LargestCell, Seen},
};
use keyspan_catalog::{Column, ColumnPlace, PartOrder, SqlType, Table, table::TENANT_COLUMN};
use keyspan_storage::model::limits::{CELL_BYTES_SOFT, ROW_BYTES_MAX, ROW_BYTES_SOFT};

/// Cells of a row from which on it is said to grow.
const CELLS_MIN: u64 = 10_000;
/// Bytes from which on: a tenth of what rows should have at most.
const ROW_BYTES_MIN: u64 = ROW_BYTES_SOFT as u64 / 10;
/// Bytes of a part of a value that is cut.
const PART_BYTES: u64 = 1 << 20;

/// A row that grows with each event, each member, each day.
pub(super) fn wide_row(table: &Table, seen: &Seen) -> Option<Advice> {
    let (cells, bytes) = (seen.row_cells, seen.row_bytes);
    if cells < CELLS_MIN && bytes < ROW_BYTES_MIN {
        return None;
    }
    let text = format!(
        "A row was read with {cells} cells; the largest had {}. A row is read, written and kept as a whole, should have \
         at most {} and can have {}. What grows without end is many rows, with one part of the key more.",
        Size(bytes),
        Size(ROW_BYTES_SOFT as u64),
        Size(ROW_BYTES_MAX as u64)
    );
    let open = table.columns.iter().find(|column| matches!(column.place, ColumnPlace::Open { .. }));
    let remake = open.and_then(|open| rows_of_qualifiers(table, open));
    Some(Advice { kind: Kind::WideRow, text, seen: cells, bytes: None, remedy: Remedy::remake(remake) })
}

/// The table with a row for each qualifier of an open family. Other columns stay in the table.
fn rows_of_qualifiers(table: &Table, open: &Column) -> Option<Remake> {
    let mut remake = Remake::of(table, open.name.as_str())?;
    let key = parts(table);
    let others: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let gone: Vec<&str> = others.into_iter().filter(|name| key.iter().all(|(part, _)| part != name)).collect();
    remake = remake.without(&gone);
    let family = open.place.family()?;
    remake.table.families.retain(|known| known.name == *family);
    let (name, value) = (free_column(&remake.table, "name"), free_column(&remake.table, "value"));
    remake = remake.with_cell(&name, SqlType::Text)?.with_cell(&value, SqlType::Text)?;
    let each = format!("jsonb_each_text({})", quote_ident(&open.name));
    remake.from = format!("{}, {each} AS of_row(of_name, of_value)", remake.from);
    remake.values.push((name.clone(), "of_name".to_owned()));
    remake.values.push((value, "of_value".to_owned()));
    let parts: Vec<_> = key.into_iter().chain([(name.as_str(), PartOrder::Ascending)]).collect();
    remake.keyed(&parts)
}

/// A cell above what cells should have.
pub(super) fn large_cell(table: &Table, seen: &Seen) -> Option<Advice> {
    let cell = seen.cell.as_ref().filter(|cell| cell.bytes > CELL_BYTES_SOFT as u64)?;
    let column = column_of(table, cell);
    let name = column.map_or_else(|| cell.qualifier.escape_ascii().to_string(), |column| column.name.clone());
    let text = format!(
        "A value of {name} has {}. Cells should have at most {}: a value is read and written as a whole, and so is the \
         row that it is in. Keep it in parts, or in an object store with its address here.",
        Size(cell.bytes),
        Size(CELL_BYTES_SOFT as u64)
    );
    let remedy = column.and_then(|column| in_parts(table, column)).map_or(Remedy::Words, Remedy::Statement);
    Some(Advice { kind: Kind::LargeCell, text, seen: 1, bytes: Some(cell.bytes), remedy })
}

fn column_of<'a>(table: &'a Table, cell: &LargestCell) -> Option<&'a Column> {
    let is = |column: &&Column| match &column.place {
        ColumnPlace::Cell { family, qualifier, .. } => {
            *family == cell.family && qualifier.as_bytes() == cell.qualifier.as_slice()
        }
        _ => false,
    };
    table.columns.iter().find(is)
}

/// A table of the parts of a column's values.
fn in_parts(table: &Table, column: &Column) -> Option<String> {
    let key = parts(table);
    if key.is_empty() || table.is_found() || !matches!(column.kind, SqlType::Text | SqlType::Bytea) {
        return None;
    }
    let (new, part) = (named(&table.name, &column.name), free_column(table, "part"));
    let of_key =
        |(name, _): &(&str, _)| table.column(name).map(|column| format!("{} {}", quote_ident(name), column.kind));
    let columns = key.iter().map(of_key).collect::<Option<Vec<_>>>()?.join(", ");
    let tenant = (!table.is_private()).then_some(TENANT_COLUMN);
    let names = tenant.into_iter().map(str::to_owned).chain(key.iter().map(|(name, _)| quote_ident(name)));
    let names = names.collect::<Vec<_>>().join(", ");
    let parts = key.iter().map(|(name, order)| format!("{}{}", quote_ident(name), order.clause()));
    let parts = parts.collect::<Vec<_>>().join(", ");
    let (new, old, part, value) =
        (quote_ident(&new), quote_ident(&table.name), quote_ident(&part), quote_ident(&column.name));
    let kind = column.kind;
    Some(format!(
        "CREATE TABLE {new} (\n    {columns}, {part} integer, {value} {kind},\n    PRIMARY KEY ({parts}, {part})\n);\n\
         INSERT INTO {new} ({names}, {part}, {value})\nSELECT {names}, n, substr({value}, n * {PART_BYTES} + 1, \
         {PART_BYTES})\nFROM {old}, generate_series(0, (length({value}) - 1) / {PART_BYTES}) AS n;"
    ))
}
