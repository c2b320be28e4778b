//! `sum` and `avg` with PostgreSQL's result types: `sum(bigint)` and `avg` of any integer are numeric, so that neither
//! overflows.
//!
//! `min` and `max` of floating point numbers have PostgreSQL's order ([`min_max`]), and statistics its algorithm
//! ([`statistics`]). Sums of [`intervals`], of [`floats`] in a window's frame and of numerics with many digits, and
//! averages and statistics of integers and numerics ([`exact`]) are ours; all others are DataFusion's own, and only
//! their arguments are widened to decimals first.
//!
//! DataFusion settles the types in a scalar subquery more than once. So what an argument becomes stays what it is when
//! it is widened again, and integers, whose sum is no numeric as a bigint's is, are widened where they are summed
//! ([`wrapped`]).

use crate::{error::SqlError, numeric, types::INTERVAL};
use arrow::{
    array::{Array, BooleanArray},
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::DataFusionError,
    error::Result,
    execution::{FunctionRegistry, SessionState},
    functions_aggregate::{
        average::Avg,
        min_max::{Max, Min},
        sum::Sum,
    },
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
        Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::AggregateOrderSensitivity,
    },
};
use exact::{ExactAggregate, Kind};
use min_max::MinMax;
use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

mod array_agg;
mod bits;
pub(crate) mod exact;
pub mod floats;
mod intervals;
mod min_max;
mod ordered;
mod statistics;
mod string_agg;
mod wrapped;

/// Aggregates whose state does not grow with the rows.
pub const FIXED_STATE: [&str; 5] = ["avg", "count", "max", "min", "sum"];
/// How `sum` sees a bigint: 28 digits leave 10 more for the count of rows.
const SUMMED_BIGINT: DataType = DataType::Decimal128(28, 0);

/// Registers `sum`, `avg`, `min`, `max` and statistics, which replace DataFusion's.
pub fn register(state: &mut SessionState) {
    let (sum, avg) = (AggregateUDF::from(Sum::new()), AggregateUDF::from(Avg::new()));
    let (min, max) = (AggregateUDF::from(Min::new()), AggregateUDF::from(Max::new()));
    let listed = AggregateUDF::from(datafusion::functions_aggregate::array_agg::ArrayAgg::default());
    let (texts, values) = (state.udaf("string_agg"), Arc::new(listed.clone()));
    let joined = texts.map(|texts| AggregateUDF::from(string_agg::StringAgg::new(texts, values)));
    let of_bits: Vec<_> = bits::AGGREGATES
        .iter()
        .filter_map(|(name, joins)| Some(AggregateUDF::from(bits::OfBits::new(*joins, state.udaf(name).ok()?))))
        .collect();
    let all = [
        AggregateUDF::from(SumAndAvg { inner: Arc::new(sum), averages: false, signature: open() }),
        AggregateUDF::from(SumAndAvg { inner: Arc::new(avg), averages: true, signature: open() }),
        AggregateUDF::from(array_agg::ArrayAgg { inner: Arc::new(listed) }),
        AggregateUDF::from(MinMax { inner: Arc::new(min), is_max: false }),
        AggregateUDF::from(MinMax { inner: Arc::new(max), is_max: true }),
    ];
    for function in all.into_iter().chain(joined).chain(of_bits).chain(statistics::functions()) {
        for name in std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)) {
            let removed = state.deregister_udaf(name);
            debug_assert!(removed.is_ok(), "a session's state gives functions up");
        }
        let registered = state.register_udaf(Arc::new(function));
        debug_assert!(registered.is_ok(), "a session's state takes functions");
    }
}

/// Whether PostgreSQL or DataFusion has an aggregate of this name, in lower case.
pub fn is_aggregate(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let defaults = datafusion::functions_aggregate::all_default_aggregate_functions();
        let ours = statistics::functions().map(Arc::new);
        let names = |function: Arc<AggregateUDF>| {
            std::iter::once(function.name().to_owned()).chain(function.aliases().to_vec()).collect::<Vec<_>>()
        };
        defaults.into_iter().chain(ours).flat_map(names).collect()
    });
    NAMES.contains(name)
}

/// Whether FILTER lets a row pass.
fn passes(filter: Option<&BooleanArray>, at: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at))
}

fn open() -> Signature {
    Signature::user_defined(Volatility::Immutable)
}

fn sum_argument(data: &DataType) -> Option<DataType> {
    Some(match data {
        DataType::Int8 | DataType::Int16 | DataType::Int32 => DataType::Int32,
        DataType::Int64 => SUMMED_BIGINT,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => DataType::UInt64,
        // Summed as doubles, and shown as what they are.
        DataType::Float16 | DataType::Float32 => DataType::Float32,
        DataType::Float64 | DataType::Null => DataType::Float64,
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Duration(_) | DataType::Interval(_) => {
            data.clone()
        }
        DataType::Time64(_) | DataType::LargeBinary => data.clone(),
        _ => return None,
    })
}

fn avg_argument(data: &DataType) -> Option<DataType> {
    Some(match data {
        data if Kind::Avg.takes(data) => data.clone(),
        DataType::Float16 | DataType::Float32 | DataType::Float64 | DataType::Null => DataType::Float64,
        DataType::Duration(_) | DataType::Interval(_) => data.clone(),
        DataType::Time64(_) => data.clone(),
        _ => return None,
    })
}

/// Whether intervals are summed; a time of day is one, too.
fn of_intervals(arguments: &[FieldRef]) -> bool {
    matches!(arguments, [argument] if matches!(argument.data_type(), DataType::Interval(_) | DataType::Time64(_)))
}

/// DataFusion's aggregate over widened arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SumAndAvg {
    inner: Arc<AggregateUDF>,
    averages: bool,
    signature: Signature,
}

impl SumAndAvg {
    /// Has DataFusion's own aggregate make something, with the arguments and the result that it knows.
    fn within<T>(
        &self,
        arguments: AccumulatorArgs<'_>,
        make: impl FnOnce(&AggregateUDF, AccumulatorArgs<'_>) -> Result<T>,
    ) -> Result<T> {
        let fields = arguments.expr_fields.iter();
        let fields: Vec<FieldRef> = fields
            .map(|field| Arc::new(field.as_ref().clone().with_data_type(wrapped::summed(field.data_type()))))
            .collect();
        let types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
        let returns = self.inner.return_type(&types)?;
        let return_field = Arc::new(arguments.return_field.as_ref().clone().with_data_type(returns));
        make(&self.inner, AccumulatorArgs { return_field, expr_fields: &fields, ..arguments })
    }

    /// One group's accumulator around DataFusion's.
    fn around(
        &self,
        arguments: &AccumulatorArgs<'_>,
    ) -> impl FnOnce(Box<dyn Accumulator>) -> Box<dyn Accumulator> + use<> {
        let types = self.types(arguments);
        move |inner| if types.is_none() { inner } else { Box::new(wrapped::One::new(inner, types)) }
    }

    fn kind(&self) -> Kind {
        if self.averages { Kind::Avg } else { Kind::Sum }
    }

    /// The aggregate of numbers that are summed exactly here; `None` for others.
    fn exact(&self, arguments: &[FieldRef], distinct: bool) -> Option<ExactAggregate> {
        let [argument] = arguments else { return None };
        let data = argument.data_type();
        self.kind().takes(data).then(|| ExactAggregate::new(self.kind(), distinct, data))
    }

    /// The types of DataFusion's accumulator: of its argument and of its result.
    fn types(&self, arguments: &AccumulatorArgs<'_>) -> wrapped::Types {
        let mut given =
            arguments.expr_fields.iter().map(|field| (field.data_type(), wrapped::summed(field.data_type())));
        let given = given.find(|(before, after)| *before != after).map(|(_, after)| after);
        let returns = arguments.return_field.data_type();
        let output = (*returns == DataType::Float32).then(|| returns.clone());
        wrapped::Types { given, output, floats: returns.is_floating() }
    }
}

impl AggregateUDFImpl for SumAndAvg {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let widened = match arguments {
            [argument] if self.averages => avg_argument(argument),
            [argument] => sum_argument(argument),
            _ => None,
        };
        match widened {
            Some(widened) => Ok(vec![widened]),
            None => Err(DataFusionError::External(Box::new(super::functions::undefined(self.name(), arguments)))),
        }
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        if matches!(arguments, [DataType::Interval(_) | DataType::Time64(_)]) {
            return Ok(INTERVAL);
        }
        if matches!(arguments, [argument] if self.kind().takes(argument)) {
            return Ok(numeric::EXACT);
        }
        let inner = self.inner.return_type(&arguments.iter().map(wrapped::summed).collect::<Vec<_>>())?;
        Ok(match arguments {
            [DataType::Float32] if !self.averages => DataType::Float32,
            _ => inner,
        })
    }
    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }
    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if of_intervals(arguments.expr_fields) {
            if arguments.is_distinct {
                let error = SqlError::unsupported(format!("{}(DISTINCT …) of intervals", self.name()));
                return Err(DataFusionError::External(Box::new(error)));
            }
            return Ok(Box::new(intervals::Intervals::new(self.averages)));
        }
        if let Some(exact) = self.exact(arguments.expr_fields, arguments.is_distinct) {
            return Ok(exact.one());
        }
        let around = self.around(&arguments);
        Ok(around(self.within(arguments, AggregateUDF::accumulator)?))
    }
    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if of_intervals(arguments.input_fields) {
            return Ok(intervals::state(arguments.name));
        }
        if let Some(exact) = self.exact(arguments.input_fields, arguments.is_distinct) {
            return Ok(exact.state_fields(arguments.name));
        }
        if *arguments.return_field.data_type() == DataType::Float32 {
            let as_doubles = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(DataType::Float64));
            let fields: Vec<FieldRef> = arguments.input_fields.iter().map(as_doubles).collect();
            let return_field = as_doubles(&arguments.return_field);
            return self.inner.state_fields(StateFieldsArgs { input_fields: &fields, return_field, ..arguments });
        }
        self.inner.state_fields(arguments)
    }
    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        if let Some(exact) = self.exact(arguments.expr_fields, arguments.is_distinct) {
            return !exact.is_distinct();
        }
        !of_intervals(arguments.expr_fields)
            && self
                .within(arguments, |inner, arguments| Ok(inner.groups_accumulator_supported(arguments)))
                .unwrap_or(false)
    }
    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(exact) = self.exact(arguments.expr_fields, arguments.is_distinct) {
            return Ok(exact.many());
        }
        let types = self.types(&arguments);
        let inner = self.within(arguments, AggregateUDF::create_groups_accumulator)?;
        Ok(if types.is_none() { inner } else { Box::new(wrapped::Many::new(inner, types)) })
    }
    fn create_sliding_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if of_intervals(arguments.expr_fields) || self.exact(arguments.expr_fields, arguments.is_distinct).is_some() {
            return self.accumulator(arguments);
        }
        let around = self.around(&arguments);
        if arguments.return_field.data_type().is_floating() && !arguments.is_distinct {
            return Ok(around(Box::new(floats::Sum::new(self.averages))));
        }
        Ok(around(self.within(arguments, AggregateUDF::create_sliding_accumulator)?))
    }
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }
    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
    fn set_monotonicity(&self, data: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data)
    }
}
