//! Tables as DataFusion's table providers: rows of typed columns, or those of `cells` and `raw`.
//!
//! DataFusion asks twice about filters: first which of them the table promises to evaluate, then for the scan. Both
//! answers come from one [`Pushdown`]. If the scan gets other filters than were asked about before, a promise may not
//! hold (they may make too many ranges); then the scan evaluates the filter itself. Promises are remembered as long as
//! the statement's table.

use super::{
    batches::Read,
    cells, columnar,
    columnar::split::{self, Split},
    decode::Layout,
    exec::{Description, Order, ScanExec},
    keys::Keys,
    open_family::Wanted,
    pushdown::Pushdown,
    raw,
    row_layout::{WantedMaps, cell_columns, layout_of},
};
use crate::{
    lock::Mutex,
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
    KeyPart, SqlType, Table, Value,
    table::{Column, ColumnPlace, OnBadKey, TENANT_COLUMN},
};
use keyspan_storage::{Columns, KeyRange, RowSet, TimestampRange};
use std::{collections::HashSet, fmt, sync::Arc};

/// The columns and rows that a table is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Rows of the columns of SQL.
    Rows,
    /// The same, with the hidden key as the last column.
    Keyed,
    /// `cells`: one row for each cell.
    Cells,
    /// `raw`: one row for each row, with a map for each family.
    Raw,
}

/// An extension of a session's configuration: all scans go by rows, in key order.
#[derive(Debug)]
pub(crate) struct KeyOrderedScans;

/// A table for one statement.
pub struct KeyspanTable {
    table: Arc<Table>,
    view: View,
    form: Form,
    /// The columns; behind those of the form the timestamps of cells, if somebody asks for them.
    schema: SchemaRef,
    /// How many columns the form has.
    width: usize,
    constraints: Constraints,
    keys: Keys,
    promises: Mutex<Promises>,
    wanted: WantedMaps,
    /// Set to read these keys alone.
    only: Option<RowSet>,
}

/// The name of the column with the timestamps of a column's newest cells.
pub(crate) fn timestamp_column(column: &str) -> String {
    format!("cell_time({column})")
}

/// The filters that were asked about, by what the table has promised.
#[derive(Clone, Default)]
struct Promises {
    exact: HashSet<Expr>,
    inexact: HashSet<Expr>,
}

/// What a scan with some filters reads.
pub(super) struct ScanPlan {
    pub(super) pushdown: Pushdown,
    /// `None` for those of the layout.
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

/// The columns of a table for its tenant, or for the operator. Only key parts are NOT NULL: garbage collection may
/// remove cells of other columns.
pub fn schema_of(table: &Table, operator: bool) -> SchemaRef {
    let tenant = operator.then(|| Field::new(TENANT_COLUMN, types::data_type(SqlType::Text), key_is_nullable(table)));
    let columns = table.columns.iter().map(|column| {
        let nullable = !matches!(column.place, ColumnPlace::Key(_)) || key_is_nullable(table);
        types::enums::field_of_column(column, nullable)
    });
    Arc::new(Schema::new(tenant.into_iter().chain(columns).collect::<Vec<_>>()))
}

/// The columns, and the hidden key after them.
fn with_hidden_key(table: &Table, columns: &Schema) -> SchemaRef {
    let hidden = table.has_hidden_key().then(|| &table.key.parts[0]);
    let hidden = hidden.map(|part| Arc::new(types::field_of(&part.name, part.kind, false)));
    Arc::new(Schema::new(columns.fields().iter().cloned().chain(hidden).collect::<Vec<_>>()))
}

fn key_is_nullable(table: &Table) -> bool {
    table.on_bad_key == OnBadKey::Null
}

/// The range of keys that holds exactly the rows that satisfy a predicate, if there is one such range. The predicate
/// must be simplified. A predicate that no row satisfies has no ranges.
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
        let width = schema.fields().len();
        Self {
            table,
            view,
            form,
            schema,
            width,
            constraints,
            keys,
            promises: Mutex::default(),
            wanted: WantedMaps::new(),
            only: None,
        }
    }

    /// This table as if it had only the rows of a set of keys.
    pub(crate) fn only(self, rows: RowSet) -> Self {
        Self { only: Some(rows), ..self }
    }

    /// This table with the timestamp of each column's newest cell as more columns, behind its own
    /// ([`timestamp_column`]); `None` for what `cells` and `raw` give, which have timestamps.
    pub(crate) fn with_timestamps(&self) -> Option<Self> {
        if !matches!(self.form, Form::Rows | Form::Keyed) {
            return None;
        }
        let time = |column: &Column| types::field_of(&timestamp_column(&column.name), SqlType::Timestamptz(None), true);
        let own = self.schema.fields().iter().take(self.width).cloned();
        let times = cell_columns(&self.table).map(|column| Arc::new(time(column)));
        let schema = Arc::new(Schema::new(own.chain(times).collect::<Vec<_>>()));
        Some(Self { schema, ..self.over(self.view.clone(), self.promises.lock().clone()) })
    }

    /// The column of this name, if it is one of the table's.
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.table.column(name)
    }

    /// Whether it reads the newest rows, not those as of a timestamp.
    pub(crate) fn reads_newest(&self) -> bool {
        self.view.as_of.is_none()
    }

    /// This table over another view of the same catalog. `filters` are those of the scan: as they were when they were
    /// promised, and as they are now, with other constants.
    pub(crate) fn with_view<'a>(&self, view: &View, filters: impl Iterator<Item = (&'a Expr, &'a Expr)>) -> Self {
        let before = self.promises.lock();
        let mut promises = Promises::default();
        for (promised, filter) in filters {
            let (promised, filter) = (unqualified(promised), unqualified(filter));
            if before.exact.contains(&promised) {
                promises.exact.insert(filter);
            } else if before.inexact.contains(&promised) {
                promises.inexact.insert(filter);
            }
        }
        self.over(view.clone(), promises)
    }

    /// This table without a pin, for a cached plan: it holds no resource of the store, and gets [another
    /// view](Self::with_view) before it is read.
    pub(crate) fn released(&self) -> Self {
        self.over(self.view.released(), self.promises.lock().clone())
    }

    fn over(&self, view: View, promises: Promises) -> Self {
        Self {
            table: Arc::clone(&self.table),
            view,
            form: self.form,
            schema: Arc::clone(&self.schema),
            width: self.width,
            constraints: self.constraints.clone(),
            keys: self.keys.clone(),
            promises: Mutex::new(promises),
            wanted: self.wanted.clone(),
            only: self.only.clone(),
        }
    }

    /// The columns of open families, by their place in the schema.
    pub(crate) fn open_columns(&self) -> Vec<(usize, u16)> {
        let tenant = usize::from(is_operator(&self.view));
        let is_rows = matches!(self.form, Form::Rows | Form::Keyed);
        let columns = self.table.columns.iter().enumerate().filter(|_| is_rows && self.view.pushdown);
        let open = columns.filter(|(_, column)| matches!(column.place, ColumnPlace::Open { .. }));
        open.map(|(at, column)| (at + tenant, column.id)).collect()
    }

    /// The columns of protobuf messages, by their place in the schema.
    pub(crate) fn message_columns(&self) -> Vec<(usize, u16)> {
        let tenant = usize::from(is_operator(&self.view));
        let is_rows = matches!(self.form, Form::Rows | Form::Keyed);
        let columns = self.table.columns.iter().enumerate().filter(|_| is_rows && self.view.pushdown);
        let messages = columns.filter(|(_, column)| column.message().is_some());
        messages.map(|(at, column)| (at + tenant, column.id)).collect()
    }

    /// What is read of open families, and of messages.
    pub(crate) fn wanted(&self) -> &WantedMaps {
        &self.wanted
    }

    /// This table, of whose open families only some qualifiers are read, and of whose messages some fields.
    pub(crate) fn with_wanted(&self, wanted: WantedMaps) -> Self {
        Self { wanted, ..self.over(self.view.clone(), self.promises.lock().clone()) }
    }

    fn plan(&self, filters: &[Expr]) -> ScanPlan {
        let plan = self.plan_of_all(filters);
        match &self.only {
            Some(only) => ScanPlan { pushdown: plan.pushdown.within(only), ..plan },
            None => plan,
        }
    }

    fn plan_of_all(&self, filters: &[Expr]) -> ScanPlan {
        if !self.view.pushdown {
            return ScanPlan { pushdown: Pushdown::none(filters), columns: None, timestamps: TimestampRange::all() };
        }
        let by_parts = Pushdown::plan(filters, &self.keys);
        if matches!(self.form, Form::Rows | Form::Keyed) {
            return ScanPlan { pushdown: by_parts, columns: None, timestamps: TimestampRange::all() };
        }
        let pushdown = by_parts.and(Pushdown::plan(filters, &Keys::as_bytes()));
        match self.form {
            Form::Cells => cells::plan(filters, pushdown, &self.table),
            _ => ScanPlan { pushdown, columns: None, timestamps: TimestampRange::all() },
        }
    }

    /// Filters that the scan must evaluate itself: the ranges do not, and the planner has no filter above, since it was
    /// promised that.
    fn unmet(&self, plan: &Pushdown) -> Vec<Expr> {
        let promises = self.promises.lock();
        let owed = |filter: &&Expr| promises.exact.contains(filter) || !promises.inexact.contains(filter);
        plan.residual.iter().filter(owed).cloned().collect()
    }

    fn layout(&self, projection: &[usize], schema: SchemaRef) -> (Arc<dyn Layout>, Columns) {
        match self.form {
            Form::Rows | Form::Keyed => {
                layout_of((&self.table, is_operator(&self.view)), (projection, self.width), schema, &self.wanted)
            }
            Form::Cells => cells::layout(&self.table, &self.keys, is_operator(&self.view), schema),
            Form::Raw => raw::layout(&self.table, &self.keys, is_operator(&self.view), schema),
        }
    }

    /// Key order over the columns of a batch, and the columns that have one value.
    fn order(&self, plan: &Pushdown, schema: &Schema) -> Order {
        let (mut order, mut constants) = (Vec::new(), Vec::new());
        if self.keys.nullable {
            return Order::default();
        }
        let keys = if is_operator(&self.view) { self.table.key.for_operator() } else { self.table.key.clone() };
        let directions: Vec<bool> = keys.columns().iter().map(KeyPart::descends).collect();
        for (part, column) in self.keys.columns().iter().enumerate() {
            let constant = plan.constants.iter().find(|(constant, _)| *constant == part).map(|(_, value)| value);
            if !keys.is_ordered(part) && constant.is_none() {
                // Keys of others, and those of reversed parts, are not ordered as their parts.
                break;
            }
            let Ok(index) = schema.index_of(&column.name) else {
                // A part with one value does not affect the order of the next parts.
                if constant.is_some() { continue } else { break }
            };
            let expr: Arc<dyn datafusion::physical_expr::PhysicalExpr> =
                Arc::new(expressions::Column::new(&column.name, index));
            if let Some(value) = constant {
                let value: ScalarValue = types::scalar_of_value(value, column.kind);
                constants.push(ConstExpr::new(Arc::clone(&expr), AcrossPartitions::Uniform(Some(value))));
            }
            // PostgreSQL's defaults, where NULL is greater than any value. Key parts are never NULL here.
            let descending = directions[part];
            order.push(PhysicalSortExpr::new(expr, SortOptions { descending, nulls_first: descending }));
        }
        let key = &self.table.key;
        if key.salt > 0 && self.table.on_bad_key == OnBadKey::Error {
            // A row that is in no bucket must be reported, and a merge of buckets would not read it.
            return Order { by: Vec::new(), constants, buckets: Vec::new() };
        }
        let buckets_of = |tenant: Option<&str>| (0..key.salt).map(|bucket| key.bucket_range(tenant, bucket)).collect();
        let buckets = match plan.constants.iter().find(|(part, _)| *part == 0) {
            _ if !is_operator(&self.view) => buckets_of(None),
            Some((_, Value::Text(tenant))) => buckets_of(Some(tenant)),
            _ if key.salt == 0 => Vec::new(),
            // Keys of several tenants are ordered by tenant, then by bucket.
            _ => return Order { by: Vec::new(), constants, buckets: Vec::new() },
        };
        Order { by: order, constants, buckets }
    }

    /// What EXPLAIN says of some columns in `projection`.
    fn shown(&self, columns: &[(usize, u16)], projection: &[usize]) -> Vec<String> {
        let shown = |at: &usize| {
            let (_, id) = columns.iter().find(|(place, _)| place == at)?;
            let wanted = self.wanted.get(id).unwrap_or(&Wanted::All);
            Some(format!("{}: {wanted}", self.schema.field(*at).name()))
        };
        projection.iter().filter_map(shown).collect()
    }

    /// The node that reads `projection` under the plan.
    fn exec(&self, plan: &ScanPlan, projection: &[usize], limit: Option<usize>) -> Result<ScanExec> {
        let schema: SchemaRef = Arc::new(self.schema.project(projection)?);
        let (layout, columns) = self.layout(projection, Arc::clone(&schema));
        let pushdown = &plan.pushdown;
        let read = Read {
            rows: pushdown.rows.clone(),
            columns: plan.columns.clone().unwrap_or(columns),
            timestamps: plan.timestamps,
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
        let description = Description {
            name,
            shape: pushdown.shape,
            coalesced: pushdown.coalesced,
            pushed: pushdown.pushed.iter().map(|filter| filter.human_display().to_string()).collect(),
            columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
            qualifiers: self.shown(&self.open_columns(), projection),
            fields: self.shown(&self.message_columns(), projection),
            constants: pushdown.constants.clone(),
            rows: None,
        };
        let source = (self.view.clone(), Arc::clone(&self.table));
        ScanExec::new(source, (read, description), layout, self.order(pushdown, &schema))
    }

    /// The plan that reads `projection`, by row groups or by rows.
    async fn read(
        &self,
        state: &dyn Session,
        plan: &ScanPlan,
        projection: &[usize],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = Arc::new(self.exec(plan, projection, limit)?);
        // Row groups have values, and no timestamps of single cells.
        let is_timed = projection.iter().any(|at| *at >= self.width);
        let may_be_unordered = state.config().get_extension::<KeyOrderedScans>().is_none();
        if self.table.remote.is_some() && may_be_unordered && matches!(self.form, Form::Rows | Form::Keyed) {
            return Ok(match split::plan((&self.view, &self.table), &scan).await? {
                Split::Streams(streams) => streams,
                Split::Whole(Some(rows)) => Arc::new(scan.with_rows_estimate(rows)?),
                Split::Whole(None) => scan,
            });
        }
        if self.form == Form::Rows && self.table.remote.is_none() && !is_timed && may_be_unordered {
            let spread = (state.config().target_partitions(), state.config().batch_size());
            match columnar::plan((&self.view, &self.table), projection, &scan, spread).await? {
                columnar::Access::RowGroups(plan) => return Ok(plan),
                columnar::Access::Rows(Some(rows)) => return Ok(Arc::new(scan.with_rows_estimate(rows)?)),
                columnar::Access::Rows(None) => {}
            }
        }
        if self.table.remote.is_none() && may_be_unordered && self.form != Form::Keyed {
            let parts = state.config().target_partitions();
            if let Split::Streams(streams) = split::of_files((&self.view, &self.table), &scan, parts).await? {
                return Ok(streams);
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
        // Until parameters have values, it is unknown what the filters do together: the scan takes them over, and
        // decides then.
        let is_open = self.view.pushdown && filters.iter().any(has_placeholder);
        for (filter, promise) in filters.iter().zip(&mut promises) {
            if is_open && (has_placeholder(filter) || *promise == TableProviderFilterPushDown::Inexact) {
                *promise = TableProviderFilterPushDown::Exact;
            }
        }
        let mut promised = self.promises.lock();
        for (filter, promise) in filters.into_iter().zip(&promises) {
            match promise {
                TableProviderFilterPushDown::Exact => promised.exact.insert(filter),
                TableProviderFilterPushDown::Inexact => promised.inexact.insert(filter),
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
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let filters: Vec<Expr> = filters.iter().map(unqualified).collect();
        let plan = self.plan(&filters);
        let unmet = conjunction(self.unmet(&plan.pushdown));
        let Some(predicate) = unmet else {
            let limit = limit.filter(|_| plan.pushdown.is_exact());
            return self.read(state, &plan, &columns, limit).await;
        };
        let mut read = columns.clone();
        for column in predicate.column_refs() {
            let at = self.schema.index_of(&column.name)?;
            if !read.contains(&at) {
                read.push(at);
            }
        }
        let scan = self.read(state, &plan, &read, None).await?;
        let schema = DFSchema::try_from(scan.schema().as_ref().clone())?;
        let predicate = state.create_physical_expr(predicate, &schema)?;
        let filter: FilterExec =
            FilterExecBuilder::new(predicate, scan).apply_projection(Some((0..columns.len()).collect()))?.build()?;
        Ok(Arc::new(filter))
    }
}

/// The filter without the table's name or alias: DataFusion asks with and without it.
fn unqualified(filter: &Expr) -> Expr {
    datafusion::logical_expr::expr_rewriter::unnormalize_col(filter.clone())
}
