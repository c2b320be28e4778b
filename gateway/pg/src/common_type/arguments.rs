//! Types of a function's arguments, by types alone: DataFusion coerces them before it looks at values.

use crate::{
    numeric,
    types::{is_text, without_digits},
};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    error::Result,
    logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf},
};
use std::sync::Arc;

/// How the types of a function's arguments depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Relation {
    /// All are of one type.
    Same,
    /// All are arrays of one type.
    Arrays,
    /// An array, and then values of its items' type.
    ArrayFirst,
    /// A value, and then an array of such.
    ArrayLast,
}

/// The types in which a function takes arguments of these, as its own signature says.
///
/// # Errors
/// DataFusion's, where it takes no such arguments.
pub(crate) fn taken_by(function: &impl UDFCoercionExt, types: &[DataType]) -> Result<Vec<DataType>> {
    let fields: Vec<FieldRef> = types.iter().map(|data| Arc::new(Field::new("", data.clone(), true))).collect();
    let taken = fields_with_udf(&fields, function)?;
    Ok(taken.iter().map(|field| field.data_type().clone()).collect())
}

/// Whether a type is that of a quoted text or of NULL.
pub(crate) fn is_open(data: &DataType) -> bool {
    matches!(data, DataType::Utf8 | DataType::Null)
}

/// The types, with those that the others imply for [open](is_open) ones.
pub(crate) fn settled(relation: Relation, types: &[DataType]) -> Vec<DataType> {
    let mut types = types.to_vec();
    match relation {
        Relation::Same => same(&mut types),
        Relation::Arrays => {
            if let Some(list) = types.iter().find(|data| is_list(data)).cloned() {
                types.iter_mut().filter(|data| is_open(data)).for_each(|data| *data = list.clone());
            }
        }
        Relation::ArrayFirst => array_and_items(&mut types, 0),
        Relation::ArrayLast => {
            let last = types.len().saturating_sub(1);
            array_and_items(&mut types, last);
        }
    }
    types
}

fn is_list(data: &DataType) -> bool {
    matches!(data, DataType::List(_))
}

/// The first type that is not open, for all that are, unless it is text.
fn same(types: &mut [DataType]) {
    if let Some(common) = super::of_numbers(types.iter().filter(|data| !is_open(data)))
        && types.iter().any(numeric::is_numeric)
    {
        types.fill(common);
        return;
    }
    let Some(known) = types.iter().find(|data| !is_open(data)).cloned() else { return };
    if is_text(&known) {
        return;
    }
    let read = without_digits(&known);
    if types.contains(&DataType::Utf8) {
        // Numbers of different digits have no type together.
        types.iter_mut().for_each(|data| *data = without_digits(data));
    }
    types.iter_mut().filter(|data| matches!(data, DataType::Utf8)).for_each(|data| *data = read.clone());
    types.iter_mut().filter(|data| is_open(data)).for_each(|data| *data = known.clone());
}

/// An array at a position, and items. Quoted texts take the type of the array's items; an open type at the position
/// becomes an array of the items' type.
fn array_and_items(types: &mut [DataType], array: usize) {
    let item = (0..types.len()).find(|other| *other != array).map(|other| types[other].clone());
    match (types.get(array), item) {
        (Some(DataType::List(_)), _) => {
            // The first array counts, whether it stands at the position or not.
            let Some(DataType::List(field)) = types.iter().find(|data| is_list(data)).cloned() else { return };
            let item = field.data_type();
            let others = types.iter_mut().enumerate().filter(|(other, _)| *other != array).map(|(_, data)| data);
            let open = others.filter(|data| **data == DataType::Utf8 && !is_text(item));
            open.for_each(|data| *data = item.clone());
        }
        (Some(data), Some(item)) if is_open(data) && !is_open(&item) => {
            types[array] = DataType::List(Arc::new(Field::new_list_field(item, true)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn open_types_are_settled_by_the_others() {
        use DataType::{Int32, Null, Utf8, Utf8View};
        let check = |relation, types: &[DataType], expected: Expect| {
            let types: Vec<String> = settled(relation, types).iter().map(ToString::to_string).collect();
            expected.assert_eq(&types.join(" "));
        };
        let list = || DataType::List(Arc::new(Field::new_list_field(Int32, true)));
        check(Relation::Same, &[Utf8, Int32, Null], expect!["Int32 Int32 Int32"]);
        check(Relation::Same, &[Utf8, Utf8View], expect!["Utf8 Utf8View"]);
        check(Relation::Same, &[DataType::Decimal128(4, 2), Utf8], expect!["LargeBinary LargeBinary"]);
        check(Relation::Arrays, &[Utf8, list()], expect!["List(Int32) List(Int32)"]);
        check(Relation::ArrayFirst, &[list(), Utf8], expect!["List(Int32) Int32"]);
        check(Relation::ArrayLast, &[Int32, Null], expect!["Int32 List(Int32)"]);
    }
}
