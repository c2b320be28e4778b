//! Functions of DataFusion's whose arguments are to be of one type, as PostgreSQL finds it: a quoted text takes the type of what stands beside it.
//!
//! A literal whose type is open is `Utf8`, all other text `Utf8View`. So [`Beside`] looks at the types alone, settles those that are open by the
//! others, and leaves the rest to the function inside. What DataFusion compares otherwise than PostgreSQL, intervals and arrays, `greatest`, `least`
//! and `nullif` compare here.

use super::arrays::{comparator, has_length};
use crate::types::without_digits;
use arrow::{
    array::{Array, ArrayRef, BooleanArray},
    compute::{kernels::zip::zip, nullif},
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    error::Result,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
        type_coercion::functions::fields_with_udf,
    },
    scalar::ScalarValue,
};
use std::{cmp::Ordering, sync::Arc};

/// How the arguments of a function belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// All are of one type.
    Alike,
    Greatest,
    Least,
    NullIf,
    /// Arrays of one type.
    Arrays,
    /// An array, and values as its items are.
    ArrayFirst,
    /// An item, and an array of such.
    ArrayLast,
}

const WRAPPED: [(&str, Kind); 7] = [
    ("coalesce", Kind::Alike),
    ("greatest", Kind::Greatest),
    ("least", Kind::Least),
    ("nullif", Kind::NullIf),
    ("array_append", Kind::ArrayFirst),
    ("array_prepend", Kind::ArrayLast),
    ("array_concat", Kind::Arrays),
];

/// Puts them in the place of DataFusion's.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let wrapped = WRAPPED.into_iter().filter_map(|(name, kind)| {
        let inner = state.udf(name).ok()?;
        let signature = Signature::user_defined(Volatility::Immutable);
        Some(Arc::new(ScalarUDF::from(Beside { kind, inner, signature })))
    });
    wrapped.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Beside {
    kind: Kind,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

/// Whether a type is that of a literal whose type is open.
fn is_open(data: &DataType) -> bool {
    matches!(data, DataType::Utf8 | DataType::Null)
}

fn is_text(data: &DataType) -> bool {
    matches!(data, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Types without those that are open, where others say what these are.
fn settled(kind: Kind, types: &[DataType]) -> Vec<DataType> {
    let mut types = types.to_vec();
    let list = types.iter().find(|data| matches!(data, DataType::List(_))).cloned();
    match (kind, list) {
        (Kind::Alike | Kind::Greatest | Kind::Least | Kind::NullIf, _) => {
            let Some(known) = types.iter().find(|data| !is_open(data)).cloned() else { return types };
            if !is_text(&known) {
                let read = without_digits(&known);
                let is_quoted = |data: &&mut DataType| matches!(data, DataType::Utf8);
                if types.contains(&DataType::Utf8) {
                    // Numbers of different digits have no type together.
                    types.iter_mut().for_each(|data| *data = without_digits(data));
                }
                types.iter_mut().filter(is_quoted).for_each(|data| *data = read.clone());
                types.iter_mut().filter(|data| is_open(data)).for_each(|data| *data = known.clone());
            }
        }
        (Kind::Arrays, Some(list)) => {
            types.iter_mut().filter(|data| is_open(data)).for_each(|data| *data = list.clone())
        }
        (Kind::ArrayFirst | Kind::ArrayLast, list) => {
            let at = if kind == Kind::ArrayFirst { 0 } else { types.len().saturating_sub(1) };
            let item = (0..types.len()).find(|other| *other != at).map(|other| types[other].clone());
            match (types.get(at), list, item) {
                (Some(DataType::List(_)), Some(DataType::List(field)), _) => {
                    let item = field.data_type();
                    let others = types.iter_mut().enumerate().filter(|(other, _)| *other != at);
                    let open = others.map(|(_, data)| data).filter(|data| **data == DataType::Utf8 && !is_text(item));
                    open.for_each(|data| *data = item.clone());
                }
                (Some(data), _, Some(item)) if is_open(data) && !is_open(&item) => {
                    types[at] = DataType::List(Arc::new(Field::new_list_field(item, true)));
                }
                _ => {}
            }
        }
        (Kind::Arrays, None) => {}
    }
    types
}

impl ScalarUDFImpl for Beside {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let fields: Vec<FieldRef> =
            settled(self.kind, types).into_iter().map(|data| Arc::new(Field::new("", data, true))).collect();
        let alike = matches!(self.kind, Kind::Alike | Kind::Greatest | Kind::Least | Kind::NullIf);
        if alike && fields.iter().all(|field| field.data_type() == fields[0].data_type() && !is_open(field.data_type()))
        {
            let types = fields.iter().zip(types);
            // DataFusion coerces no text to a uuid: `semantics` casts it.
            let stays =
                |to: &DataType, from: &DataType| matches!((to, from), (DataType::FixedSizeBinary(_), DataType::Utf8));
            let coerced = types.map(|(field, from)| (field.data_type(), from));
            return Ok(coerced.map(|(to, from)| if stays(to, from) { from } else { to }.clone()).collect());
        }
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(&settled(self.kind, types))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let typed = arguments.arg_fields.iter().zip(settled(self.kind, &types)).map(|(field, data)| {
            if *field.data_type() == data {
                Arc::clone(field)
            } else {
                Arc::new(field.as_ref().clone().with_data_type(data))
            }
        });
        let arg_fields: Vec<FieldRef> = typed.collect();
        self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &arg_fields, ..arguments })
    }

    fn simplify(&self, arguments: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(arguments, info)
    }

    fn conditional_arguments<'a>(&self, arguments: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(arguments)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let data = arguments.args.first().map(ColumnarValue::data_type);
        let ours = data.is_some_and(|data| matches!(data, DataType::List(_)) || has_length(&data));
        match self.kind {
            Kind::Greatest | Kind::Least | Kind::NullIf if ours => chosen(self.kind, &arguments),
            _ => self.inner.invoke_with_args(arguments),
        }
    }
}

/// One of several intervals or arrays.
fn chosen(kind: Kind, arguments: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { arguments.number_rows };
    let mut all = arguments.args.iter().map(|argument| argument.clone().into_array(rows));
    let Some(first) = all.next() else { return Ok(ColumnarValue::Scalar(ScalarValue::Null)) };
    let mut best: ArrayRef = first?;
    for next in all {
        let next = next?;
        let order = comparator(&best, &next)?;
        best = if kind == Kind::NullIf {
            let same = |row: usize| best.is_valid(row) && next.is_valid(row) && order(row).is_eq();
            nullif(&best, &BooleanArray::from_iter((0..rows).map(|row| Some(same(row)))))?
        } else {
            // The first of equal ones, as PostgreSQL.
            let wanted = if kind == Kind::Greatest { Ordering::Less } else { Ordering::Greater };
            let keeps = |row: usize| next.is_null(row) || (best.is_valid(row) && order(row) != wanted);
            zip(&BooleanArray::from_iter((0..rows).map(|row| Some(keeps(row)))), &best, &next)?
        };
    }
    if constant {
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&best, 0)?))
    } else {
        Ok(ColumnarValue::Array(best))
    }
}
