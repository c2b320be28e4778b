//! Functions of DataFusion whose arguments are of one type: `coalesce`, `greatest`, `least`, `nullif`, and those that
//! put arrays together.
//!
//! [`SameType`] settles the types of quoted texts and NULLs by those of the other arguments
//! ([`common_type::arguments`](crate::common_type::arguments)), and leaves the rest to the function inside. Intervals
//! and arrays, which DataFusion compares otherwise than PostgreSQL, are compared here.

use super::arrays::{comparator, has_length, with_empty_nulls};
use crate::{
    common_type::arguments::{Relation, is_open, settled, taken_by},
    numeric,
};
use arrow::{
    array::{Array, ArrayRef, BooleanArray},
    compute::{kernels::zip::zip, nullif},
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    error::Result,
    execution::{FunctionRegistry, SessionState},
    functions_nested::concat::{array_append_udf, array_prepend_udf},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    scalar::ScalarValue,
};
use std::{
    cmp::Ordering,
    sync::{Arc, LazyLock},
};

/// A function of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Coalesce,
    Greatest,
    Least,
    NullIf,
    ArrayAppend,
    ArrayPrepend,
    ArrayConcat,
}

impl Kind {
    fn relation(self) -> Relation {
        match self {
            Self::Coalesce | Self::Greatest | Self::Least | Self::NullIf => Relation::Same,
            Self::ArrayAppend => Relation::ArrayFirst,
            Self::ArrayPrepend => Relation::ArrayLast,
            Self::ArrayConcat => Relation::Arrays,
        }
    }
}

const WRAPPED: [(&str, Kind); 7] = [
    ("coalesce", Kind::Coalesce),
    ("greatest", Kind::Greatest),
    ("least", Kind::Least),
    ("nullif", Kind::NullIf),
    ("array_append", Kind::ArrayAppend),
    ("array_prepend", Kind::ArrayPrepend),
    ("array_concat", Kind::ArrayConcat),
];

/// The functions, each around DataFusion's of its name.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let wrapped = WRAPPED.into_iter().filter_map(|(name, kind)| Some(around(kind, state.udf(name).ok()?)));
    wrapped.collect()
}

/// `array_append` and `array_prepend`, of which `||` of an array and an item is one.
pub(crate) fn array_append() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| around(Kind::ArrayAppend, array_append_udf()));
    Arc::clone(&FUNCTION)
}

pub(crate) fn array_prepend() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| around(Kind::ArrayPrepend, array_prepend_udf()));
    Arc::clone(&FUNCTION)
}

fn around(kind: Kind, inner: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(SameType { kind, inner, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SameType {
    kind: Kind,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for SameType {
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
        let settled_types = settled(self.kind.relation(), types);
        // Arrow knows no cast of numbers to the exact form; a rule puts ours around the arguments.
        if settled_types.iter().chain(types).any(numeric::is_exact) {
            let typed = settled_types.iter().zip(types);
            let open = |(to, from): (&DataType, &DataType)| if is_open(from) { to.clone() } else { from.clone() };
            return Ok(typed.map(open).collect());
        }
        let agrees = |data: &DataType| *data == settled_types[0] && !is_open(data);
        if self.kind.relation() == Relation::Same && settled_types.iter().all(agrees) {
            // DataFusion coerces no text to a uuid: the rule of literals casts it.
            let stays =
                |to: &DataType, from: &DataType| matches!((to, from), (DataType::FixedSizeBinary(_), DataType::Utf8));
            let coerced = settled_types.iter().zip(types);
            return Ok(coerced.map(|(to, from)| if stays(to, from) { from } else { to }.clone()).collect());
        }
        taken_by(self.inner.as_ref(), &settled_types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(&settled(self.kind.relation(), types))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let typed = arguments.arg_fields.iter().zip(settled(self.kind.relation(), &types)).map(|(field, data)| {
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
            Kind::Greatest | Kind::Least | Kind::NullIf if ours => selected(self.kind, &arguments),
            Kind::ArrayAppend | Kind::ArrayPrepend => {
                let args = arguments.args.into_iter().map(with_empty_nulls).collect::<Result<_>>()?;
                self.inner.invoke_with_args(ScalarFunctionArgs { args, ..arguments })
            }
            _ => self.inner.invoke_with_args(arguments),
        }
    }
}

/// `greatest`, `least` or `nullif` of intervals or arrays.
fn selected(kind: Kind, arguments: &ScalarFunctionArgs) -> Result<ColumnarValue> {
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
