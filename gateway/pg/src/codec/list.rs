//! Arrays: `{1,2,NULL}` as text; in binary the dimensions, the type of the items and each item with its length
//! (`array_send`).
//!
//! `int2vector` and `oidvector` are arrays whose text is `1 2 3`. An array of arrays is written in nested braces as
//! text. In binary it is an array of such texts: its rows may differ in length, which PostgreSQL's arrays of two
//! dimensions cannot.

use crate::{
    codec::{
        column::{Column, Write},
        format::Format,
    },
    datetime::Style,
    error::{Result, SqlError},
};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::DataType,
};
use bytes::{BufMut, BytesMut};
use pgwire::api::Type;
use std::ops::Range;
use tokio_postgres::types::Kind;

/// A function that writes the arrays of a list column.
///
/// # Errors
/// 0A000 for items of a type that the protocol has no form for.
pub fn writer(array: &ArrayRef, kind: &Type, format: Format, style: &Style) -> Result<Write> {
    let (values, range) = parts(array)?;
    let nested = is_list(values.data_type());
    let (item_kind, item_format) = match kind.kind() {
        _ if nested => (Type::TEXT, Format::Text),
        Kind::Array(item) => (item.clone(), format),
        _ if *kind == Type::INT2_VECTOR => (Type::INT2, format),
        _ if *kind == Type::OID_VECTOR => (Type::OID, format),
        _ => (Type::TEXT, Format::Text),
    };
    let vector = matches!(*kind, Type::INT2_VECTOR | Type::OID_VECTOR);
    let items = Column::new(&values, &item_kind, item_format, style)?;
    Ok(match format {
        Format::Text if vector => Box::new(move |row, out| write_vector(&items, range(row), out)),
        Format::Text => Box::new(move |row, out| write_text(&items, range(row), nested, out)),
        Format::Binary => {
            // The items of a vector are counted from 0.
            let first = i32::from(!vector);
            Box::new(move |row, out| write_binary(&items, range(row), (item_kind.oid(), first), out))
        }
    })
}

fn is_list(data: &DataType) -> bool {
    matches!(
        data,
        DataType::List(_)
            | DataType::LargeList(_)
            | DataType::FixedSizeList(..)
            | DataType::ListView(_)
            | DataType::LargeListView(_)
    )
}

type Ranges = Box<dyn Fn(usize) -> Range<usize> + Send + Sync>;

/// The items of a list column, and which of them belong to a row.
pub(crate) fn parts(array: &ArrayRef) -> Result<(ArrayRef, Ranges)> {
    macro_rules! by_offsets {
        ($list:expr) => {{
            let list = $list;
            let offsets = list.offsets().clone();
            let range: Ranges = Box::new(move |row| offsets[row] as usize..offsets[row + 1] as usize);
            (list.values().clone(), range)
        }};
    }
    macro_rules! by_views {
        ($list:expr) => {{
            let list = $list;
            let (offsets, sizes) = (list.offsets().clone(), list.sizes().clone());
            let range: Ranges = Box::new(move |row| {
                let start = offsets[row] as usize;
                start..start + sizes[row] as usize
            });
            (list.values().clone(), range)
        }};
    }
    Ok(match array.data_type() {
        DataType::List(_) => by_offsets!(array.as_list::<i32>()),
        DataType::LargeList(_) => by_offsets!(array.as_list::<i64>()),
        DataType::ListView(_) => by_views!(array.as_list_view::<i32>()),
        DataType::LargeListView(_) => by_views!(array.as_list_view::<i64>()),
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            (array.as_fixed_size_list().values().clone(), Box::new(move |row| row * size..(row + 1) * size))
        }
        other => return Err(SqlError::unsupported(format!("a column of type {other} as an array"))),
    })
}

fn write_text(items: &Column, range: Range<usize>, nested: bool, out: &mut BytesMut) -> Result<()> {
    out.put_u8(b'{');
    let (start, mut item) = (range.start, BytesMut::new());
    for row in range {
        if row > start {
            out.put_u8(b',');
        }
        if items.is_null(row) {
            out.put_slice(b"NULL");
            continue;
        }
        item.clear();
        items.write(row, &mut item)?;
        if nested || !needs_quotes(&item) {
            out.put_slice(&item);
            continue;
        }
        out.put_u8(b'"');
        for byte in &item {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(b'\\');
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b'}');
    Ok(())
}

fn needs_quotes(item: &[u8]) -> bool {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',' | b' ' | b'\t'..=b'\r');
    item.is_empty() || item.eq_ignore_ascii_case(b"null") || item.iter().any(special)
}

fn write_vector(items: &Column, range: Range<usize>, out: &mut BytesMut) -> Result<()> {
    for (at, row) in range.enumerate() {
        if at > 0 {
            out.put_u8(b' ');
        }
        items.write(row, out)?;
    }
    Ok(())
}

fn write_binary(items: &Column, range: Range<usize>, (item_oid, first): (u32, i32), out: &mut BytesMut) -> Result<()> {
    // A vector has its one dimension even where it is empty.
    let shown = !range.is_empty() || first == 0;
    out.put_i32(i32::from(shown));
    out.put_i32(i32::from(range.clone().any(|row| items.is_null(row))));
    out.put_u32(item_oid);
    if shown {
        out.put_i32(range.len() as i32);
        out.put_i32(first);
    }
    range.into_iter().try_for_each(|row| items.write_sized(row, out))
}
