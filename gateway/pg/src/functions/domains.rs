//! Values of domains: the function that a cast to one becomes, its conditions, and its errors.

use crate::{
    error::{Result, SqlError, SqlState},
    ident::fold,
    syntax::dialect::parse_text,
};
use arrow::{
    array::{Array, AsArray, RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Field, FieldRef, SchemaRef},
};
use datafusion::{
    common::{DataFusionError, not_impl_err},
    error::Result as PlanResult,
    logical_expr::{
        ColumnarValue, Expr as PlanExpr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
    },
    physical_expr::PhysicalExpr,
    sql::sqlparser::ast::{Expr, Ident, VisitMut, VisitorMut},
};
use keyspan_catalog::{Domain, domain::VALUE};
use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::ControlFlow,
    sync::Arc,
};

/// The name of a domain's function, as EXPLAIN shows it.
pub fn function_name(domain: &Domain) -> String {
    format!("domain {} {}", domain.name, domain.id)
}

/// A domain's condition of something else than `VALUE`.
///
/// # Errors
/// For one that cannot be read any more: a fault of ours.
pub fn condition_of(sql: &str, value: &Ident) -> Result<Expr> {
    struct Replace<'a>(&'a Ident);
    impl VisitorMut for Replace<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(name) = expr
                && fold(name) == VALUE
            {
                *name = self.0.clone();
            }
            ControlFlow::Continue(())
        }
    }
    let parsed = parse_text(sql, |parser| parser.parse_expr());
    let internal = |error| SqlError::new(SqlState::INTERNAL_ERROR, format!("condition {sql}: {error}"));
    let mut expr = parsed.map_err(internal)?;
    let _ = VisitMut::visit(&mut expr, &mut Replace(value));
    Ok(expr)
}

/// 23502 for NULL in a domain of this name.
pub fn null_refused(domain: &str) -> SqlError {
    SqlError::new(SqlState::NOT_NULL_VIOLATION, format!("domain {domain} does not allow null values"))
}

/// 23514 for a value of a domain of this name.
pub fn violated(domain: &str, check: &str) -> SqlError {
    let message = format!("value for domain {domain} violates check constraint \"{check}\"");
    SqlError::new(SqlState::CHECK_VIOLATION, message)
}

/// The function of a domain.
pub struct DomainValue {
    /// Named after the last of them; functions of the same chain are the same.
    chain: Vec<Arc<Domain>>,
    name: String,
    not_null: bool,
    /// The names of conditions, and what they say.
    checks: Vec<(String, Arc<dyn PhysicalExpr>)>,
    /// The one column of what they are about.
    schema: SchemaRef,
    signature: Signature,
}

impl DomainValue {
    /// Of a domain that is the last of a chain. `conditions` are those of the chain, in its order, over the column of
    /// `schema`; with one that is not immutable a plan of the function is of one moment only.
    pub fn new(
        chain: Vec<Arc<Domain>>,
        conditions: Vec<Arc<dyn PhysicalExpr>>,
        schema: SchemaRef,
        volatility: Volatility,
    ) -> Self {
        let names = chain.iter().flat_map(|domain| &domain.checks).map(|check| check.name.clone());
        Self {
            name: chain.last().map(|domain| function_name(domain)).unwrap_or_default(),
            not_null: chain.iter().any(|domain| domain.not_null),
            checks: names.zip(conditions).collect(),
            schema,
            signature: Signature::any(1, volatility),
            chain,
        }
    }

    /// The name that errors have.
    fn shown(&self) -> &str {
        self.chain.last().map_or("", |domain| &domain.name)
    }

    fn check(&self, value: &ColumnarValue) -> Result<()> {
        let array = value.to_array(1)?;
        if self.not_null && array.logical_null_count() > 0 {
            return Err(null_refused(self.shown()));
        }
        if self.checks.is_empty() || array.is_empty() {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(array.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), vec![array], &options)?;
        for (name, check) in &self.checks {
            let holds = check.evaluate(&batch)?.to_array(batch.num_rows())?;
            // NULL contradicts nothing.
            if holds.as_boolean_opt().is_some_and(|holds| holds.iter().flatten().any(|holds| !holds)) {
                return Err(violated(self.shown(), name));
            }
        }
        Ok(())
    }
}

impl ScalarUDFImpl for DomainValue {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn display_name(&self, args: &[PlanExpr]) -> PlanResult<String> {
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        Ok(format!("{}({})", self.shown(), args.join(", ")))
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        not_impl_err!("the type of a domain's value is that of its field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> PlanResult<FieldRef> {
        let field = Field::clone(&args.arg_fields[0]);
        Ok(Arc::new(field.with_name(&self.name).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let value = args.args.into_iter().next();
        let value = value.ok_or_else(|| DataFusionError::Internal("a domain of no value".to_owned()))?;
        self.check(&value).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(value)
    }
}

impl fmt::Debug for DomainValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DomainValue").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl PartialEq for DomainValue {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

impl Eq for DomainValue {}

impl Hash for DomainValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
