//! Tables as DataFusion sees them: rows of typed columns, or what `cells` and `raw` show of them.
//!
//! DataFusion asks twice about filters: what the table promises, and for the scan. Both answers come from one [`Pushdown`]. Should a
//! scan be given filters with which a promise cannot be kept (more ranges than there may be), it keeps it by a filter of its own: a
//! promise is remembered as long as the statement's table.

use super::{
    cells, columnar,
    decode::{self, CellColumn, Layout, RowLayout},
    exec::{About, Order, Read, ScanExec},
    keys::Keys,
    pushdown::{Pushdown, Shape},
    raw,
};
use crate::{
    pg::{plan::placeholders::has_placeholder, types},
    view::View,
};
use arrow::{
    compute::SortOptions,
    datatypes::{Field, Schema, SchemaRef},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::{Constraint, Constraints, DFSchema, Result, ScalarValue},
    datasource::TableType,
    logical_expr::{Expr, TableProviderFilterPushDown, utils::conjunction},
    physical_expr::{AcrossPartitions, ConstExpr, PhysicalSortExpr, expressions},
    physical_plan::{
        ExecutionPlan,
        filter::{FilterExec, FilterExecBuilder},
    },
};
use keyspan_catalog::{
    SqlType, Table, Value,
    table::{ColumnPlace, OnBadKey, TENANT_COLUMN},
};
use keyspan_storage::{Columns, KeyRange, TimestampRange, scan::FamilyColumns};
use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

/// What is shown of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A row for each row, typed.
    Rows,
    /// The same with the hidden key as the last column.
    Keyed,
    /// A row for each cell.
    Cells,
    /// A row for each row, a map for each family.
    Raw,
}

/// In a session's configuration: all scans are by rows, in the order of keys.
#[derive(Debug)]
pub(crate) struct InKeyOrder;

/// A table for one statement.
pub struct KeyspanTable {
    table: Arc<Table>,
    view: View,
    form: Form,
    schema: SchemaRef,
    constraints: Constraints,
    keys: Keys,
    told: Mutex<Told>,
}

/// What was promised of filters.
#[derive(Clone, Default)]
struct Told {
    exact: HashSet<Expr>,
    inexact: HashSet<Expr>,
}

/// What a scan of some filters reads.
pub(super) struct Planned {
    pub(super) pushdown: Pushdown,
    pub(super) columns: Option<Columns>,
    pub(super) timestamps: TimestampRange,
}

impl fmt::Debug for KeyspanTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyspanTable({:?} of {})", self.form, self.table.name)
    }
}

/// Whether a view is the operator's.
pub(super) fn is_operator(view: &View) -> bool {
    view.rows.tenant().is_none()
}

/// The columns of a table as its owner or the operator sees them. Only key parts are never NULL: garbage collection forgets cells
/// of other columns.
pub fn schema_of(table: &Table, operator: bool) -> SchemaRef {
    let tenant = operator.then(|| Field::new(TENANT_COLUMN, types::data_type(SqlType::Text), key_is_nullable(table)));
    let columns = table.columns.iter().map(|column| {
        let nullable = !matches!(column.place, ColumnPlace::Key(_)) || key_is_nullable(table);
        types::field_of(&column.name, column.kind, nullable)
    });
    Arc::new(Schema::new(tenant.into_iter().chain(columns).collect::<Vec<_>>()))
}

/// The columns, and the hidden key behind them.
fn with_hidden_key(table: &Table, columns: &Schema) -> SchemaRef {
    let hidden = table.has_hidden_key().then(|| &table.key.parts[0]);
    let hidden = hidden.map(|part| Arc::new(types::field_of(&part.name, part.kind, false)));
    Arc::new(Schema::new(columns.fields().iter().cloned().chain(hidden).collect::<Vec<_>>()))
}

fn key_is_nullable(table: &Table) -> bool {
    table.on_bad_key == OnBadKey::Null
}

/// The one range of keys that holds exactly the rows that satisfy the predicate, and whether there is one. The predicate is one that
/// the planner has simplified; a predicate that no row satisfies has none.
pub fn exact_range(table: &Table, view: &View, predicate: &Expr) -> Option<KeyRange> {
    let filters: Vec<Expr> =
        datafusion::logical_expr::utils::split_conjunction(predicate).into_iter().cloned().collect();
    let plan = Pushdown::plan(&filters, &Keys::of_table(table, is_operator(view)));
    match plan.rows.ranges() {
        [only] if plan.is_exact() && view.pushdown => Some(only.clone()),
        _ => None,
    }
}

impl KeyspanTable {
    /// The table's rows.
    pub fn new(table: Arc<Table>, view: View) -> Self {
        Self::of(table, view, Form::Rows)
    }

    /// The table's rows with their hidden key.
    pub fn keyed(table: Arc<Table>, view: View) -> Self {
        Self::of(table, view, Form::Keyed)
    }

    pub(super) fn of(table: Arc<Table>, view: View, form: Form) -> Self {
        let operator = is_operator(&view);
        let keys = Keys::of_table(&table, operator);
        let (schema, keys) = match form {
            Form::Rows => (schema_of(&table, operator), keys),
            Form::Keyed => (with_hidden_key(&table, &schema_of(&table, operator)), keys),
            Form::Cells => (cells::schema_of(&table, &keys), keys.with_nulls()),
            Form::Raw => (raw::schema_of(&table, &keys), keys.with_nulls()),
        };
        let key = keys.columns().iter().filter_map(|part| schema.index_of(&part.name).ok()).collect();
        let unique = form == Form::Rows && !key_is_nullable(&table) && !table.has_hidden_key();
        let constraints = if unique { vec![Constraint::PrimaryKey(key)] } else { Vec::new() };
        let constraints = Constraints::new_unverified(constraints);
        Self { table, view, form, schema, constraints, keys, told: Mutex::default() }
    }

    /// Whether its rows are read as they are, not as they were.
    pub(crate) fn is_present(&self) -> bool {
        self.view.as_of.is_none()
    }

    /// The same table over the rows that another view of the same catalog sees. `told` are filters that came to the scan, as they were
    /// promised and as they are now.
    pub(crate) fn seen_by<'a>(&self, view: &View, told: impl Iterator<Item = (&'a Expr, &'a Expr)>) -> Self {
        let known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Told::default();
        for (then, filter) in told {
            let (then, filter) = (unqualified(then), unqualified(filter));
            if known.exact.contains(&then) {
                now.exact.insert(filter);
            } else if known.inexact.contains(&then) {
                now.inexact.insert(filter);
            }
        }
        self.over(view.clone(), now)
    }

    /// The same table without rows, for a plan that is kept: it holds nothing of the store, and is [seen](Self::seen_by) by another view before it
    /// is read.
    pub(crate) fn released(&self) -> Self {
        let known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.over(self.view.released(), known.clone())
    }

    /// The same table, of whose key the planner knows nothing.
    pub(crate) fn without_key(&self) -> Self {
        let known = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let constraints = Constraints::default();
        Self { constraints, ..self.over(self.view.clone(), known.clone()) }
    }

    fn over(&self, view: View, told: Told) -> Self {
        Self {
            table: Arc::clone(&self.table),
            view,
            form: self.form,
            schema: Arc::clone(&self.schema),
            constraints: self.constraints.clone(),
            keys: self.keys.clone(),
            told: Mutex::new(told),
        }
    }

    fn plan(&self, filters: &[Expr]) -> Planned {
        if !self.view.pushdown {
            return Planned { pushdown: Pushdown::none(filters), columns: None, timestamps: TimestampRange::all() };
        }
        let by_parts = Pushdown::plan(filters, &self.keys);
        if matches!(self.form, Form::Rows | Form::Keyed) {
            return Planned { pushdown: by_parts, columns: None, timestamps: TimestampRange::all() };
        }
        let pushdown = by_parts.and(Pushdown::plan(filters, &Keys::as_bytes()));
        match self.form {
            Form::Cells => cells::plan(filters, pushdown, &self.table),
            _ => Planned { pushdown, columns: None, timestamps: TimestampRange::all() },
        }
    }

    /// Filters that nobody else looks at, although the plan leaves something of them.
    fn unmet(&self, plan: &Pushdown) -> Vec<Expr> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let left = plan.residual.iter();
        left.filter(|filter| told.exact.contains(filter) || !told.inexact.contains(filter)).cloned().collect()
    }

    fn layout(&self, projection: &[usize], schema: SchemaRef) -> (Arc<dyn Layout>, Columns) {
        match self.form {
            Form::Rows | Form::Keyed => row_layout(&self.table, is_operator(&self.view), projection, schema),
            Form::Cells => cells::layout(&self.table, &self.keys, is_operator(&self.view), schema),
            Form::Raw => raw::layout(&self.table, &self.keys, is_operator(&self.view), schema),
        }
    }

    /// The order of keys over the columns of a batch, and the columns that have one value.
    fn order(&self, plan: &Pushdown, schema: &Schema) -> Order {
        let (mut order, mut constants) = (Vec::new(), Vec::new());
        if self.keys.nullable {
            return Order::default();
        }
        let directions = is_operator(&self.view).then_some(false).into_iter();
        let directions: Vec<bool> = directions.chain(self.table.key.parts.iter().map(|part| part.descending)).collect();
        for (part, column) in self.keys.columns().iter().enumerate() {
            let constant = plan.constants.iter().find(|(constant, _)| *constant == part).map(|(_, value)| value);
            let Ok(place) = schema.index_of(&column.name) else {
                // A part that is the same everywhere does not disturb the order of those behind it.
                if constant.is_some() { continue } else { break }
            };
            let expr: Arc<dyn datafusion::physical_expr::PhysicalExpr> =
                Arc::new(expressions::Column::new(&column.name, place));
            if let Some(value) = constant {
                let value: ScalarValue = types::scalar_of_value(value, column.kind);
                constants.push(ConstExpr::new(Arc::clone(&expr), AcrossPartitions::Uniform(Some(value))));
            }
            // PostgreSQL's defaults: NULL is greater than any value. Parts of keys are never NULL here.
            let descending = directions[part];
            order.push(PhysicalSortExpr::new(expr, SortOptions { descending, nulls_first: descending }));
        }
        let key = &self.table.key;
        if key.salt > 0 && self.table.on_bad_key == OnBadKey::Error {
            // A row that is in no bucket is to be told, and a merge of buckets would not come upon it.
            return Order { by: Vec::new(), constants, buckets: Vec::new() };
        }
        let of = |tenant: Option<&str>| (0..key.salt).map(|bucket| key.bucket_range(tenant, bucket)).collect();
        let buckets = match plan.constants.iter().find(|(part, _)| *part == 0) {
            _ if !is_operator(&self.view) => of(None),
            Some((_, Value::Text(tenant))) => of(Some(tenant)),
            _ if key.salt == 0 => Vec::new(),
            // Keys of several tenants are in the order of tenants, then of buckets.
            _ => return Order { by: Vec::new(), constants, buckets: Vec::new() },
        };
        Order { by: order, constants, buckets }
    }

    /// The node that reads `projection` under the plan.
    fn exec(&self, planned: &Planned, projection: &[usize], limit: Option<usize>) -> Result<ScanExec> {
        let schema: SchemaRef = Arc::new(self.schema.project(projection)?);
        let (layout, columns) = self.layout(projection, Arc::clone(&schema));
        let plan = &planned.pushdown;
        let read = Read {
            rows: plan.rows.clone(),
            columns: planned.columns.clone().unwrap_or(columns),
            timestamps: planned.timestamps,
            versions_max: (self.form != Form::Cells).then_some(1),
            keep_empty: self.form != Form::Cells,
            reversed: false,
            limit,
        };
        let name = match self.form {
            Form::Rows | Form::Keyed => self.table.name.clone(),
            Form::Cells => format!("cells('{}')", self.table.name),
            Form::Raw => format!("raw('{}')", self.table.name),
        };
        let about = About {
            name,
            shape: plan.shape,
            coalesced: plan.coalesced,
            pushed: plan.pushed.iter().map(|filter| filter.human_display().to_string()).collect(),
            columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
            constants: plan.constants.clone(),
            rows: None,
        };
        let door = (self.view.clone(), Arc::clone(&self.table));
        ScanExec::new(door, (read, about), layout, self.order(plan, &schema))
    }

    /// The plan that reads `projection`: by row groups where they serve, else by rows.
    async fn read(
        &self,
        state: &dyn Session,
        planned: &Planned,
        projection: &[usize],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Arc::new(self.exec(planned, projection, limit)?);
        if self.form == Form::Rows && state.config().get_extension::<InKeyOrder>().is_none() {
            let spread = (state.config().target_partitions(), state.config().batch_size());
            let door = (&self.view, &self.table);
            match columnar::plan(door, projection, &scan, spread).await? {
                columnar::Way::Groups(plan) => return Ok(plan),
                columnar::Way::Rows(Some(rows)) => return Ok(Arc::new(scan.of_rows(rows)?)),
                columnar::Way::Rows(None) => {}
            }
        }
        Ok(scan)
    }
}

#[async_trait]
impl TableProvider for KeyspanTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let filters: Vec<Expr> = filters.iter().map(|filter| unqualified(filter)).collect();
        let mut promises = self.plan(&filters).pushdown.promises;
        // What filters are worth together is known when all of them have their values: the scan answers for them until then.
        let is_unknown = self.view.pushdown && filters.iter().any(has_placeholder);
        for (filter, promise) in filters.iter().zip(&mut promises) {
            if is_unknown && (has_placeholder(filter) || *promise == TableProviderFilterPushDown::Inexact) {
                *promise = TableProviderFilterPushDown::Exact;
            }
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for (filter, promise) in filters.into_iter().zip(&promises) {
            match promise {
                TableProviderFilterPushDown::Exact => told.exact.insert(filter),
                TableProviderFilterPushDown::Inexact => told.inexact.insert(filter),
                TableProviderFilterPushDown::Unsupported => false,
            };
        }
        Ok(promises)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let filters: Vec<Expr> = filters.iter().map(unqualified).collect();
        let planned = self.plan(&filters);
        let unmet = conjunction(self.unmet(&planned.pushdown));
        let Some(predicate) = unmet else {
            let limit = limit.filter(|_| planned.pushdown.is_exact());
            return self.read(state, &planned, &wanted, limit).await;
        };
        let mut read = wanted.clone();
        for column in predicate.column_refs() {
            let at = self.schema.index_of(&column.name)?;
            if !read.contains(&at) {
                read.push(at);
            }
        }
        let scan = self.read(state, &planned, &read, None).await?;
        let schema = DFSchema::try_from(scan.schema().as_ref().clone())?;
        let predicate = state.create_physical_expr(predicate, &schema)?;
        let filter: FilterExec =
            FilterExecBuilder::new(predicate, scan).apply_projection(Some((0..wanted.len()).collect()))?.build()?;
        Ok(Arc::new(filter))
    }
}

/// The filter without the table's name or alias: promise and scan are asked with and without.
fn unqualified(filter: &Expr) -> Expr {
    datafusion::logical_expr::expr_rewriter::unnormalize_col(filter.clone())
}

/// How rows of a table become batches of `schema`: the columns of [`schema_of`] with these numbers, each once, by whatever names. With
/// it what has to be read for them.
pub fn row_layout(
    table: &Arc<Table>,
    operator: bool,
    projection: &[usize],
    schema: SchemaRef,
) -> (Arc<dyn Layout>, Columns) {
    let tenant = usize::from(operator);
    let (mut parts, mut wanted, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    for (place, at) in projection.iter().enumerate() {
        let Some(at) = at.checked_sub(tenant) else {
            parts.push((0, place));
            kinds.push(SqlType::Text);
            continue;
        };
        let Some(column) = table.columns.get(at) else {
            parts.push((tenant, place));
            kinds.push(table.key.parts[0].kind);
            continue;
        };
        kinds.push(column.kind);
        match &column.place {
            ColumnPlace::Key(part) => parts.push((part + tenant, place)),
            ColumnPlace::Cell { family, qualifier, encoding } => {
                let cell = CellColumn {
                    name: column.name.clone(),
                    family: family.clone(),
                    qualifier: qualifier.clone().into(),
                    kind: column.kind,
                    encoding: *encoding,
                    aggregate: table.family(family.as_str()).and_then(|family| family.aggregate),
                };
                wanted.push((cell, place));
            }
        }
    }
    wanted.sort_by(|(a, _), (b, _)| (&a.family, &a.qualifier).cmp(&(&b.family, &b.qualifier)));
    let mut families: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (cell, _) in &wanted {
        families.entry(cell.family.clone()).or_default().push(cell.qualifier.clone());
    }
    let of_family = |(family, qualifiers)| FamilyColumns { family, qualifiers: Some(qualifiers) };
    let mut keys = table.key.clone();
    keys.with_tenant = operator;
    let layout = RowLayout {
        schema,
        keys,
        parts,
        cells: wanted,
        kinds,
        on_bad_value: table.on_bad_value,
        on_bad_key: table.on_bad_key,
    };
    let layout: Arc<dyn decode::Layout> = Arc::new(Arc::new(layout));
    (layout, Columns::Of(families.into_iter().map(of_family).collect()))
}

impl Pushdown {
    /// Both plans of the same filters, over different columns.
    pub(super) fn and(self, other: Self) -> Self {
        let better = |(a, b): (TableProviderFilterPushDown, TableProviderFilterPushDown)| match (&a, &b) {
            (TableProviderFilterPushDown::Exact, _) | (_, TableProviderFilterPushDown::Unsupported) => a,
            _ => b,
        };
        let promises: Vec<_> = self.promises.into_iter().zip(other.promises).map(better).collect();
        let rows = self.rows.intersect(&other.rows);
        let mut pushed = self.pushed;
        pushed.extend(other.pushed);
        Self {
            shape: Shape::of(&rows),
            rows,
            residual: self.residual.into_iter().filter(|filter| other.residual.contains(filter)).collect(),
            pushed,
            coalesced: self.coalesced || other.coalesced,
            constants: Vec::new(),
            promises,
        }
    }
}
