//! Composite values: `(1,a,)` as text (`record_out`); in binary the number of fields, and each with its type's OID and
//! its length (`record_send`).

use crate::{
    codec::{
        column::{Column, Write},
        format::Format,
    },
    datetime::Style,
    error::Result,
    types,
};
use arrow::array::{ArrayRef, AsArray};
use bytes::{BufMut, BytesMut};

/// A function that writes the values of a column of structs.
///
/// # Errors
/// 0A000 for a field of a type that the protocol has no form for.
pub fn writer(array: &ArrayRef, format: Format, style: &Style) -> Result<Write> {
    let array = array.as_struct();
    let fields = array.columns().iter().zip(array.fields()).map(|(column, field)| {
        let kind = types::pg_type(field);
        Ok((kind.oid(), Column::new(column, &kind, format, style)?.padded(field)))
    });
    let fields: Vec<(u32, Column)> = fields.collect::<Result<_>>()?;
    Ok(match format {
        Format::Text => Box::new(move |row, out| write_text(&fields, row, out)),
        Format::Binary => Box::new(move |row, out| {
            out.put_i32(i32::try_from(fields.len()).unwrap_or(i32::MAX));
            fields.iter().try_for_each(|(oid, column)| {
                out.put_u32(*oid);
                column.write_sized(row, out)
            })
        }),
    })
}

fn write_text(fields: &[(u32, Column)], row: usize, out: &mut BytesMut) -> Result<()> {
    let mut item = BytesMut::new();
    out.put_u8(b'(');
    for (at, (_, column)) in fields.iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        if column.is_null(row) {
            continue;
        }
        item.clear();
        column.write(row, &mut item)?;
        if !needs_quotes(&item) {
            out.put_slice(&item);
            continue;
        }
        out.put_u8(b'"');
        for byte in &item {
            if matches!(byte, b'"' | b'\\') {
                out.put_u8(*byte);
            }
            out.put_u8(*byte);
        }
        out.put_u8(b'"');
    }
    out.put_u8(b')');
    Ok(())
}

/// Whether a field's text stands in quotes: empty, or with what separates fields.
fn needs_quotes(item: &[u8]) -> bool {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',' | b' ' | b'\t'..=b'\r');
    item.is_empty() || item.iter().any(special)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{
        array::{Array, Int32Array, StringViewArray, StructArray},
        datatypes::{DataType, Field},
    };
    use std::sync::Arc;

    fn written(format: Format) -> Vec<Vec<u8>> {
        let texts = StringViewArray::from(vec![Some("a"), None, Some("a \"b\""), Some(""), Some("\\")]);
        let numbers = Int32Array::from(vec![Some(1), Some(2), None, Some(-4), None]);
        let fields = vec![Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8View, true)];
        let array: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![Arc::new(numbers), Arc::new(texts)], None));
        let write = writer(&array, format, Style::initial()).expect("every field has a form");
        let row = |row| {
            let mut out = BytesMut::new();
            write(row, &mut out).expect("every value has a form");
            out.to_vec()
        };
        (0..array.len()).map(row).collect()
    }

    #[test]
    fn fields_are_quoted_as_record_out_does() {
        let texts: Vec<String> =
            written(Format::Text).into_iter().map(|row| String::from_utf8_lossy(&row).into()).collect();
        assert_eq!(texts, ["(1,a)", "(2,)", r#"(,"a ""b""")"#, r#"(-4,"")"#, r#"(,"\\")"#]);
    }

    #[test]
    fn binary_fields_have_type_and_length() {
        let rows = written(Format::Binary);
        assert_eq!(
            rows[0],
            [&[0, 0, 0, 2, 0, 0, 0, 23, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 25, 0, 0, 0, 1][..], b"a"].concat()
        );
        assert_eq!(rows[1][16..], [0, 0, 0, 25, 255, 255, 255, 255]);
    }
}
