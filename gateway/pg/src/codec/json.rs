//! Maps, structures and what is in them, as PostgreSQL prints jsonb.
//!
//! Numbers and booleans stay what they are; what JSON does not know (bytes, timestamps, NaN) becomes a string as the
//! value's own text; a NULL key of a map cannot be.

use crate::{
    codec::{
        column::{Column, Write},
        format::Format,
        list,
    },
    datetime::Style,
    error::Result,
    types,
};
use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Field},
};
use bytes::{BufMut, BytesMut};
use pgwire::api::Type;

/// A function that writes values as JSON, NULL as `null`.
///
/// # Errors
/// 0A000 for a type that the protocol has no form for.
pub fn writer(array: &ArrayRef, field: Option<&Field>, style: &Style) -> Result<Write> {
    let nulls = array.logical_nulls();
    let write = not_null(array, field, style)?;
    Ok(Box::new(move |row, out| {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.put_slice(b"null");
            return Ok(());
        }
        write(row, out)
    }))
}

fn not_null(array: &ArrayRef, field: Option<&Field>, style: &Style) -> Result<Write> {
    match array.data_type() {
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().zip(fields);
            let members: Vec<(Vec<u8>, Write)> = columns
                .map(|(column, field)| Ok((quoted(field.name()), writer(column, Some(field), style)?)))
                .collect::<Result<_>>()?;
            Ok(Box::new(move |row, out| write_object(members.iter().map(|(name, write)| (name, write)), row, out)))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (keys, values) = (text_of(map.keys(), style)?, writer(map.values(), None, style)?);
            let offsets = map.offsets().clone();
            Ok(Box::new(move |row, out| {
                out.put_u8(b'{');
                for (at, entry) in (offsets[row] as usize..offsets[row + 1] as usize).enumerate() {
                    separate(at, out);
                    keys(entry, out)?;
                    out.put_slice(b": ");
                    values(entry, out)?;
                }
                out.put_u8(b'}');
                Ok(())
            }))
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => {
            let (items, range) = list::parts(array)?;
            let items = writer(&items, Some(item), style)?;
            Ok(Box::new(move |row, out| {
                out.put_u8(b'[');
                for (at, item) in range(row).enumerate() {
                    separate(at, out);
                    items(item, out)?;
                }
                out.put_u8(b']');
                Ok(())
            }))
        }
        data => {
            let kind = field.map_or_else(|| types::pg_type(&Field::new("", data.clone(), true)), types::pg_type);
            scalar(array, &kind, style)
        }
    }
}

fn scalar(array: &ArrayRef, kind: &Type, style: &Style) -> Result<Write> {
    let column = Column::new(array, kind, Format::Text, style)?;
    Ok(match *kind {
        Type::BOOL => Box::new(move |row, out| {
            let at = out.len();
            column.write(row, out)?;
            let is_true = out[at] == b't';
            out.truncate(at);
            out.put_slice(if is_true { b"true" } else { b"false" });
            Ok(())
        }),
        Type::JSON | Type::JSONB | Type::INT2 | Type::INT4 | Type::INT8 | Type::OID => {
            Box::new(move |row, out| column.write(row, out))
        }
        Type::FLOAT4 | Type::FLOAT8 | Type::NUMERIC => Box::new(move |row, out| {
            let at = out.len();
            column.write(row, out)?;
            // NaN and the infinities have letters that no other number has.
            if out[at..].iter().any(|byte| matches!(byte, b'N' | b'I')) {
                let text = out.split_off(at);
                write_quoted(&text, out);
            }
            Ok(())
        }),
        _ => text_of_column(column),
    })
}

/// Values as JSON strings, whatever their type.
fn text_of(array: &ArrayRef, style: &Style) -> Result<Write> {
    let kind = types::pg_type(&Field::new("", array.data_type().clone(), true));
    Ok(text_of_column(Column::new(array, &kind, Format::Text, style)?))
}

fn text_of_column(column: Column) -> Write {
    Box::new(move |row, out| {
        let mut text = BytesMut::new();
        column.write(row, &mut text)?;
        write_quoted(&text, out);
        Ok(())
    })
}

fn write_object<'a>(
    members: impl Iterator<Item = (&'a Vec<u8>, &'a Write)>,
    row: usize,
    out: &mut BytesMut,
) -> Result<()> {
    out.put_u8(b'{');
    for (at, (name, write)) in members.enumerate() {
        separate(at, out);
        out.put_slice(name);
        out.put_slice(b": ");
        write(row, out)?;
    }
    out.put_u8(b'}');
    Ok(())
}

fn separate(at: usize, out: &mut BytesMut) {
    if at > 0 {
        out.put_slice(b", ");
    }
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    write_quoted(text.as_bytes(), &mut out);
    out.to_vec()
}

/// A JSON string. Bytes beyond ASCII go as they are: text is UTF-8.
fn write_quoted(text: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    for byte in text {
        match byte {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            8 => out.put_slice(b"\\b"),
            12 => out.put_slice(b"\\f"),
            0..=31 => out.put_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.put_u8(*byte),
        }
    }
    out.put_u8(b'"');
}
