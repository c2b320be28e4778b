//! A bound on what functions make of values: `repeat`, `lpad`, `array_repeat` and others give results far larger than
//! their arguments, outside of the memory that queries account for, and a failed allocation ends the process.
//!
//! [`Bounded`] wraps DataFusion's functions. It computes the bytes of the results from the arguments first, and refuses
//! the call with 54000 if those of a batch of rows exceed [`ResultBytes`]. Functions of one row ([`RowFunction`]) count
//! their results as they come. PostgreSQL bounds each value by a gigabyte (`MaxAllocSize`); it computes row by row,
//! while a batch here has thousands of rows at once.
//!
//! [`RowFunction`]: super::RowFunction

use super::{
    scalar_function::external,
    values::{int_of, text_of},
};
use crate::error::{SqlError, SqlState};
use arrow::{
    array::{Array, ArrayRef},
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    config::ConfigOptions,
    error::Result,
    execution::{FunctionRegistry, SessionState},
    logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature},
    scalar::ScalarValue,
};
use std::sync::Arc;

/// The most bytes that a call may give for a batch of rows, as a statement's configuration carries it. Nothing of it
/// can be set by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultBytes(pub u64);

impl ResultBytes {
    /// PostgreSQL's `MaxAllocSize`.
    pub const MAX: u64 = (1 << 30) - 1;

    /// The bound of a configuration; [`MAX`](Self::MAX) without one.
    pub fn within(options: &ConfigOptions) -> Self {
        options.extensions.get::<Self>().copied().unwrap_or(Self(Self::MAX))
    }

    /// Checks a number of bytes.
    ///
    /// # Errors
    /// 54000.
    pub fn check(self, name: &str, bytes: u64) -> Result<()> {
        if bytes <= self.0 {
            return Ok(());
        }
        let message = format!("the results of {name}() take more than {} MiB", self.0 >> 20);
        let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
        Err(external(error.with_hint("The bound is for a batch of rows, and follows the server's memory.")))
    }
}

crate::extension::carried!(ResultBytes, "keyspan_results");

/// The arguments of one row.
struct Row<'a> {
    arguments: &'a [ColumnarValue],
    row: usize,
}

impl Row<'_> {
    fn value(&self, at: usize) -> ScalarValue {
        match self.arguments.get(at) {
            Some(ColumnarValue::Scalar(value)) => value.clone(),
            Some(ColumnarValue::Array(array)) => {
                ScalarValue::try_from_array(array, self.row).unwrap_or(ScalarValue::Null)
            }
            None => ScalarValue::Null,
        }
    }

    /// Bytes of a value.
    fn bytes(&self, at: usize) -> u64 {
        match self.arguments.get(at) {
            Some(ColumnarValue::Scalar(value)) => bytes_of(value),
            Some(ColumnarValue::Array(array)) => bytes_at(array, self.row),
            None => 0,
        }
    }

    /// A count; negative ones and NULL are 0.
    fn count(&self, at: usize) -> u64 {
        int_of(&self.value(at)).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
    }
}

fn bytes_of(value: &ScalarValue) -> u64 {
    match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
            text.len() as u64
        }
        value => value.size() as u64,
    }
}

fn bytes_at(array: &ArrayRef, row: usize) -> u64 {
    use arrow::array::AsArray;
    match array.data_type() {
        _ if array.is_null(row) => 0,
        DataType::Utf8 => array.as_string::<i32>().value_length(row) as u64,
        DataType::LargeUtf8 => array.as_string::<i64>().value_length(row) as u64,
        DataType::Utf8View => array.as_string_view().value(row).len() as u64,
        // On the average of the rows.
        _ => (array.get_array_memory_size() / array.len().max(1)) as u64,
    }
}

/// The bytes of one row's result, at most; or an error of the arguments.
type Estimate = fn(&Row<'_>) -> Result<u64>;

/// Characters of an argument of `levenshtein()`: PostgreSQL's `MAX_LEVENSHTEIN_STRLEN`. Its time is their product.
const LEVENSHTEIN_CHARACTERS_MAX: usize = 255;

/// Bytes of the longest character.
const CHARACTER_BYTES: u64 = 4;

/// DataFusion's functions whose results outgrow their arguments.
const BOUNDED: [(&str, Estimate); 9] = [
    ("repeat", |row| Ok(row.bytes(0).saturating_mul(row.count(1)))),
    ("lpad", padded),
    ("rpad", padded),
    ("replace", replaced),
    ("regexp_replace", |row| {
        let (subject, replacement) = (row.bytes(0), text_of(&row.value(2)).unwrap_or_default());
        let is_global = row.arguments.len() > 3 && text_of(&row.value(3)).is_some_and(|flags| flags.contains('g'));
        let matches = if is_global { subject + 1 } else { 1 };
        // A reference adds what a group has matched, and matches do not overlap.
        let references = replacement.matches('\\').count() as u64;
        let added = matches.saturating_mul(replacement.len() as u64);
        Ok(subject.saturating_mul(references + 1).saturating_add(added))
    }),
    ("concat", |row| Ok((0..row.arguments.len()).map(|at| row.bytes(at)).sum())),
    ("array_repeat", |row| Ok(row.bytes(0).max(8).saturating_mul(row.count(1)))),
    ("array_resize", |row| Ok(row.bytes(2).max(8).saturating_mul(row.count(1)))),
    ("levenshtein", |row| {
        let too_long =
            |at| text_of(&row.value(at)).is_some_and(|text| text.chars().count() > LEVENSHTEIN_CHARACTERS_MAX);
        if too_long(0) || too_long(1) {
            let message =
                format!("levenshtein argument exceeds maximum length of {LEVENSHTEIN_CHARACTERS_MAX} characters");
            return Err(external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)));
        }
        Ok(0)
    }),
];

fn padded(row: &Row<'_>) -> Result<u64> {
    let characters = row.count(1);
    let is_ascii = (0..row.arguments.len())
        .filter(|at| *at != 1)
        .all(|at| text_of(&row.value(at)).is_none_or(|text| text.is_ascii()));
    Ok(characters.saturating_mul(if is_ascii { 1 } else { CHARACTER_BYTES }))
}

fn replaced(row: &Row<'_>) -> Result<u64> {
    let (subject, from, to) = (row.bytes(0), row.bytes(1).max(1), row.bytes(2));
    let most = subject.saturating_add((subject / from).saturating_mul(to));
    if most <= (1 << 20) {
        return Ok(most);
    }
    let (text, from) = (text_of(&row.value(0)).unwrap_or_default(), text_of(&row.value(1)).unwrap_or_default());
    let found = if from.is_empty() { 0 } else { text.matches(&from).count() as u64 };
    Ok(subject.saturating_add(found.saturating_mul(to)))
}

/// DataFusion's functions with the bound, as far as the state has them.
pub(crate) fn functions(state: &SessionState) -> Vec<Arc<ScalarUDF>> {
    let made = |(name, estimate): (&str, Estimate)| {
        let inner = state.udf(name).ok()?;
        Some(Arc::new(ScalarUDF::from(Bounded { inner, estimate: Estimated(estimate) })))
    };
    BOUNDED.into_iter().filter_map(made).collect()
}

/// An estimate, which is one with its function.
#[derive(Clone, Copy, Debug)]
struct Estimated(Estimate);

impl PartialEq for Estimated {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Estimated {}
impl std::hash::Hash for Estimated {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// A function of DataFusion's whose results are bounded.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    estimate: Estimated,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        self.inner.signature()
    }
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }
    fn simplify(
        &self,
        arguments: Vec<datafusion::logical_expr::Expr>,
        info: &datafusion::logical_expr::simplify::SimplifyContext,
    ) -> Result<datafusion::logical_expr::simplify::ExprSimplifyResult> {
        self.inner.simplify(arguments, info)
    }
    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bound = ResultBytes::within(&arguments.config_options);
        let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { arguments.number_rows };
        let mut bytes = 0_u64;
        for row in 0..rows {
            bytes = bytes.saturating_add((self.estimate.0)(&Row { arguments: &arguments.args, row })?);
            bound.check(self.name(), bytes)?;
        }
        self.inner.invoke_with_args(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(name: &str, arguments: &[ScalarValue]) -> u64 {
        let arguments: Vec<_> = arguments.iter().cloned().map(ColumnarValue::Scalar).collect();
        let (_, estimate) = BOUNDED.into_iter().find(|(of, _)| *of == name).unwrap();
        estimate(&Row { arguments: &arguments, row: 0 }).unwrap()
    }

    fn text(text: &str) -> ScalarValue {
        ScalarValue::Utf8View(Some(text.to_owned()))
    }

    fn int(int: i64) -> ScalarValue {
        ScalarValue::Int64(Some(int))
    }

    #[test]
    fn estimates_are_at_least_the_results() {
        assert_eq!(estimate("repeat", &[text("ab"), int(5)]), 10);
        assert_eq!(estimate("repeat", &[text("ab"), int(-5)]), 0);
        assert_eq!(estimate("repeat", &[text("abc"), int(i64::MAX)]), u64::MAX);
        assert_eq!(estimate("lpad", &[text("ab"), int(5)]), 5);
        assert_eq!(estimate("rpad", &[text("ab"), int(5), text("é")]), 20);
        assert_eq!(estimate("replace", &[text("aaa"), text("a"), text("xyz")]), 12);
        let (long, longer) = (text(&"ab".repeat(1 << 20)), text(&"x".repeat(1 << 10)));
        assert_eq!(estimate("replace", &[long.clone(), text("c"), longer.clone()]), 2 << 20);
        assert_eq!(estimate("replace", &[long.clone(), text("a"), longer]), (2 << 20) + (1 << 30));
        assert!(estimate("regexp_replace", &[long, text("(.*)"), text(r"\1\1\1")]) >= 3 * (2 << 20));
        assert!(estimate("array_repeat", &[int(0), int(1 << 31)]) >= 8 << 31);
    }
}
