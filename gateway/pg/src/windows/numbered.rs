//! `row_number`, `rank` and `dense_rank`, which are bigint in PostgreSQL: DataFusion's have no sign, so that their
//! arithmetic would be another (`row_number() OVER () / 2` had digits, and there was no `- rank()`).

use arrow::{
    array::ArrayRef,
    compute::cast,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    error::Result,
    functions_window::{
        rank::{dense_rank_udwf, rank_udwf},
        row_number::row_number_udwf,
    },
    logical_expr::{
        LimitEffect, PartitionEvaluator, Signature, WindowUDF, WindowUDFImpl,
        function::{PartitionEvaluatorArgs, WindowUDFFieldArgs},
        window_state::WindowAggState,
    },
    physical_expr::PhysicalExpr,
    scalar::ScalarValue,
};
use std::{ops::Range, sync::Arc};

/// The functions, which replace DataFusion's.
pub(super) fn functions() -> impl Iterator<Item = Arc<WindowUDF>> {
    let inner = [row_number_udwf(), rank_udwf(), dense_rank_udwf()];
    inner.into_iter().map(|inner| Arc::new(WindowUDF::from(Numbered { inner })))
}

#[derive(Debug, PartialEq, Eq, Hash, Clone)]
struct Numbered {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Numbered {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn partition_evaluator(&self, arguments: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Numbers(self.inner.partition_evaluator_factory(arguments)?)))
    }

    fn field(&self, arguments: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.field(arguments)?;
        Ok(Arc::new(field.as_ref().clone().with_data_type(DataType::Int64)))
    }

    fn sort_options(&self) -> Option<arrow::compute::SortOptions> {
        self.inner.sort_options()
    }

    fn limit_effect(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(arguments)
    }
}

/// The numbers with a sign.
#[derive(Debug)]
struct Numbers(Box<dyn PartitionEvaluator>);

impl PartitionEvaluator for Numbers {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.0.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> Result<Range<usize>> {
        self.0.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.0.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all(values, rows)?, &DataType::Int64)?)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.0.evaluate(values, range)?.cast_to(&DataType::Int64)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate_all_with_rank(rows, ranks)?, &DataType::Int64)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.0.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.0.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.0.include_rank()
    }
}
