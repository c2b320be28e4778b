//! `EXCLUDE CURRENT ROW`, `GROUP` and `TIES` in the frame of a window, which DataFusion's frames do not have.
//!
//! The parser does not know them either: the reader of tokens puts a [marker](Exclusion::marker) behind the arguments
//! of the function, which [`planned`] takes off again. The function becomes [`Excluding`], a window function of the same
//! frame. It is computed over a whole partition, for each row over what is left of its frame, so that a frame of many
//! rows costs its length for every row. Functions that look at no frame (`rank`, `lag` …) stay what they are.

use crate::{common_type::arguments::taken_by, error::SqlError, functions::scalar_function::external};
use arrow::{
    array::ArrayRef,
    datatypes::{DataType, FieldRef, Int64Type, Schema},
};
use datafusion::{
    arrow::array::AsArray,
    error::Result,
    logical_expr::{
        Accumulator, AggregateUDF, Expr, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, Volatility,
        WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
        expr::{WindowFunction, WindowFunctionParams},
        function::{AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs},
        planner::{PlannerResult, RawWindowExpr},
    },
    physical_expr::PhysicalExpr,
    prelude::lit,
    scalar::ScalarValue,
};
use std::{ops::Range, sync::Arc};

/// How a marker begins: nobody writes it.
const MARKER: &str = "\u{1}exclude ";

/// Which rows a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exclusion {
    /// The row itself.
    CurrentRow,
    /// The row and its peers.
    Group,
    /// Its peers.
    Ties,
}

impl Exclusion {
    /// Of the words behind `EXCLUDE`.
    pub fn of_words(words: &str) -> Option<Self> {
        Some(match words {
            "current row" => Self::CurrentRow,
            "group" => Self::Group,
            "ties" => Self::Ties,
            _ => return None,
        })
    }

    fn words(self) -> &'static str {
        match self {
            Self::CurrentRow => "current row",
            Self::Group => "group",
            Self::Ties => "ties",
        }
    }

    /// The text of the argument that says it.
    pub fn marker(self) -> String {
        format!("{MARKER}{}", self.words())
    }

    /// What is left of a frame: rows before, the row itself, and rows behind.
    fn left(self, frame: &Range<usize>, row: usize, peers: &Range<usize>) -> [Range<usize>; 3] {
        let none = frame.end..frame.end;
        let within = |range: Range<usize>| {
            let (start, end) = (range.start.max(frame.start), range.end.min(frame.end));
            if start < end { start..end } else { none.clone() }
        };
        match self {
            Self::CurrentRow => [within(frame.start..row), none.clone(), within(row + 1..frame.end)],
            Self::Group => [within(frame.start..peers.start), none.clone(), within(peers.end..frame.end)],
            Self::Ties => [within(frame.start..peers.start), within(row..row + 1), within(peers.end..frame.end)],
        }
    }
}

/// Whether a text has a marker in it, which a view would keep.
pub fn has_marker(sql: &str) -> bool {
    sql.contains(MARKER)
}

fn exclusion(argument: Option<&Expr>) -> Option<Exclusion> {
    match argument? {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Exclusion::of_words(text.strip_prefix(MARKER)?),
        _ => None,
    }
}

/// A window function whose frame leaves rows out, without its marker.
///
/// # Errors
/// 0A000 for one with FILTER.
pub(crate) fn planned(mut raw: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
    let Some(exclusion) = exclusion(raw.args.last()) else { return Ok(PlannerResult::Original(raw)) };
    raw.args.pop();
    let of = match &raw.func_def {
        WindowFunctionDefinition::AggregateUDF(aggregate) => Of::Aggregate(Arc::clone(aggregate)),
        WindowFunctionDefinition::WindowUDF(function) => match function.name() {
            "first_value" => Of::Value(Place::First, Arc::clone(function)),
            "last_value" => Of::Value(Place::Last, Arc::clone(function)),
            "nth_value" => Of::Value(Place::Nth, Arc::clone(function)),
            _ => return Ok(PlannerResult::Original(raw)),
        },
    };
    if raw.filter.is_some() || raw.distinct {
        return Err(external(SqlError::unsupported("EXCLUDE in the frame of an aggregate with FILTER or DISTINCT")));
    }
    #[expect(deprecated, reason = "what count(*) is planned with")]
    let args = match raw.args.as_slice() {
        [Expr::Wildcard { .. }] => vec![lit(1_i64)],
        _ => raw.args,
    };
    let name = match &of {
        Of::Aggregate(aggregate) => aggregate.name(),
        Of::Value(_, function) => function.name(),
    };
    // The planner tells window functions apart by what they are called.
    let name = format!("{name} EXCLUDE {}", exclusion.words().to_uppercase());
    let function = Excluding { name, of, exclusion, signature: Signature::user_defined(Volatility::Immutable) };
    let params = WindowFunctionParams {
        args,
        partition_by: raw.partition_by,
        order_by: raw.order_by,
        window_frame: raw.window_frame,
        filter: None,
        null_treatment: raw.null_treatment,
        distinct: false,
    };
    let fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(function)));
    Ok(PlannerResult::Planned(Expr::WindowFunction(Box::new(WindowFunction { fun, params }))))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    First,
    Last,
    Nth,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Of {
    Aggregate(Arc<AggregateUDF>),
    Value(Place, Arc<WindowUDF>),
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Excluding {
    name: String,
    of: Of,
    exclusion: Exclusion,
    signature: Signature,
}

impl WindowUDFImpl for Excluding {
    fn name(&self) -> &str {
        &self.name
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match &self.of {
            Of::Aggregate(aggregate) => taken_by(aggregate.as_ref(), types),
            Of::Value(_, function) => taken_by(function.as_ref(), types),
        }
    }
    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        let name = arguments.name().to_owned();
        let field = match &self.of {
            Of::Aggregate(aggregate) => aggregate.return_field(arguments.input_fields())?,
            Of::Value(_, function) => function.field(arguments)?,
        };
        Ok(Arc::new(field.as_ref().clone().with_name(name).with_nullable(true)))
    }
    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        let fields = arguments.input_fields().to_vec();
        let reads = match &self.of {
            Of::Value(place, _) => Reads::Value(*place),
            Of::Aggregate(aggregate) => Reads::Aggregate(Aggregate {
                returns: aggregate.return_field(&fields)?,
                aggregate: Arc::clone(aggregate),
                schema: Schema::new(fields.clone()),
                arguments: arguments.input_exprs().to_vec(),
                ignores_nulls: arguments.ignore_nulls(),
                fields,
            }),
        };
        Ok(Box::new(Evaluator {
            reads,
            exclusion: self.exclusion,
            count: arguments.input_exprs().len(),
            row: 0,
            peers: None,
        }))
    }
    fn reverse_expr(&self) -> ReversedUDWF {
        ReversedUDWF::NotSupported
    }
    fn limit_effect(&self, _: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        LimitEffect::Unknown
    }
}

/// An aggregate, and what its accumulators are made of.
#[derive(Debug)]
struct Aggregate {
    aggregate: Arc<AggregateUDF>,
    returns: FieldRef,
    schema: Schema,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
    ignores_nulls: bool,
}

impl Aggregate {
    fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        self.aggregate.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.returns),
            schema: &self.schema,
            ignore_nulls: self.ignores_nulls,
            order_bys: &[],
            is_reversed: false,
            name: self.aggregate.name(),
            is_distinct: false,
            exprs: &self.arguments,
            expr_fields: &self.fields,
        })
    }
}

#[derive(Debug)]
enum Reads {
    Aggregate(Aggregate),
    Value(Place),
}

/// Goes through the rows of a partition.
#[derive(Debug)]
struct Evaluator {
    reads: Reads,
    exclusion: Exclusion,
    /// Arguments of the function: behind them come the values of ORDER BY.
    count: usize,
    /// The row that comes next.
    row: usize,
    /// The rows that ORDER BY does not tell apart, in their order, and which of these the row is in.
    peers: Option<(Vec<Range<usize>>, usize)>,
}

impl Evaluator {
    fn peers(&mut self, values: &[ArrayRef]) -> Result<Range<usize>> {
        let row = self.row;
        if self.peers.is_none() {
            let order = &values[self.count..];
            let groups = if order.is_empty() {
                std::iter::once(0..values.first().map_or(usize::MAX, |values| values.len())).collect()
            } else {
                arrow::compute::partition(order)?.ranges()
            };
            self.peers = Some((groups, 0));
        }
        let Some((groups, at)) = &mut self.peers else { return Ok(0..0) };
        while groups.get(*at).is_some_and(|group| group.end <= row) {
            *at += 1;
        }
        Ok(groups.get(*at).cloned().unwrap_or(row..row + 1))
    }
}

impl PartitionEvaluator for Evaluator {
    fn uses_window_frame(&self) -> bool {
        true
    }
    fn supports_bounded_execution(&self) -> bool {
        false
    }
    fn evaluate(&mut self, values: &[ArrayRef], frame: &Range<usize>) -> Result<ScalarValue> {
        let peers = self.peers(values)?;
        let row = self.row;
        self.row += 1;
        let left = self.exclusion.left(frame, row, &peers);
        let kept = || left.iter().filter(|rows| !rows.is_empty());
        match &self.reads {
            Reads::Aggregate(aggregate) => {
                let mut accumulator = aggregate.accumulator()?;
                for rows in kept() {
                    let part: Vec<ArrayRef> =
                        values[..self.count].iter().map(|values| values.slice(rows.start, rows.len())).collect();
                    accumulator.update_batch(&part)?;
                }
                accumulator.evaluate()
            }
            Reads::Value(place) => {
                let sought = match place {
                    Place::First => kept().next().map(|rows| rows.start),
                    Place::Last => kept().next_back().map(|rows| rows.end - 1),
                    Place::Nth => {
                        let nth = arrow::compute::cast(&values[1], &DataType::Int64)?;
                        let nth = usize::try_from(nth.as_primitive::<Int64Type>().value(row) - 1).unwrap_or(usize::MAX);
                        kept().flat_map(Clone::clone).nth(nth)
                    }
                };
                match sought {
                    Some(at) => ScalarValue::try_from_array(&values[0], at),
                    None => ScalarValue::try_from(values[0].data_type()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_frame() {
        let left = |exclusion: Exclusion, frame: Range<usize>| -> Vec<usize> {
            exclusion.left(&frame, 4, &(3..6)).into_iter().flatten().collect()
        };
        assert_eq!(left(Exclusion::CurrentRow, 2..8), [2, 3, 5, 6, 7]);
        assert_eq!(left(Exclusion::Group, 2..8), [2, 6, 7]);
        assert_eq!(left(Exclusion::Ties, 2..8), [2, 4, 6, 7]);
        // A frame that does not hold the row itself.
        assert_eq!(left(Exclusion::CurrentRow, 0..3), [0, 1, 2]);
        assert_eq!(left(Exclusion::Ties, 5..8), [6, 7]);
        assert_eq!(left(Exclusion::Group, 0..4), [0, 1, 2]);
        assert_eq!(left(Exclusion::Ties, 7..7), [0; 0]);
    }

    #[test]
    fn markers_are_read_again() {
        for exclusion in [Exclusion::CurrentRow, Exclusion::Group, Exclusion::Ties] {
            assert!(has_marker(&exclusion.marker()));
            assert_eq!(super::exclusion(Some(&lit(exclusion.marker()))), Some(exclusion));
        }
        assert_eq!(super::exclusion(Some(&lit("exclude ties"))), None);
    }
}
