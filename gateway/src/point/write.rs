//! `INSERT` of values, `UPDATE` and `DELETE` by the whole key, with RETURNING of columns. An INSERT has defaults that
//! need not be computed. An UPDATE, and an INSERT whose key is taken, set values or sums ([`change`]).
//!
//! Values are assigned, rows are checked and mutations are made by [`dml`](crate::dml), in the order of the general
//! way: it reports the same one of several errors.

use super::{
    change::{self, Change, Changed, Old, Set, assigned},
    names::{self, KeyComparisons, Parameters},
    shape::{self, ChangeShape, Named, Operand},
};
use crate::{
    context::StatementContext,
    dml::{
        conditions,
        defaults::Defaults,
        insert::{LOOKUP_ROWS, NewRow, called, creation, new_row, numbers, put_blindly, put_new, resolve},
        returning::{Returned, field},
        target::{Target, TargetColumn},
        upsert,
    },
    pg::{error::Result, ident::fold},
    provider::keys::Keys,
    query::Query,
    sql::write::{OnConflict, on_conflict},
    view::View,
    write_set::{CELLS_MAX, WriteSet},
};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::{
    execution::SendableRecordBatchStream,
    scalar::ScalarValue,
    sql::sqlparser::ast::{self, Ident, SelectItem},
};
use futures::TryStreamExt;
use keyspan_catalog::{Table, Value, table::Identity};
use keyspan_storage::{KeyRange, Mutation, Row, RowKey, RowSet};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// Rows of an INSERT, times the columns of its table, at most: what the protocol has parameters for, and fewer cells
/// than a transaction may write.
const VALUES_MAX: usize = 1 << 16;
/// Bytes of the rows of an INSERT, at most: more of them may be a load.
const BYTES_MAX: usize = 32 << 20;

/// A write that goes around the optimizer.
pub(super) struct Write {
    target: Target,
    how: How,
    /// The places of the columns that are returned, and what they are called.
    returned: Option<(Vec<usize>, SchemaRef)>,
}

enum How {
    Insert(Box<Insert>),
    Update { key: KeyComparisons, change: Box<Change> },
    Delete { key: KeyComparisons, old: Box<Old> },
}

/// What is written, how many rows, and those of RETURNING.
type Done = (WriteSet, u64, Option<SendableRecordBatchStream>);

/// New rows.
struct Insert {
    /// The places of the columns that are given.
    given: Vec<usize>,
    key_places: Vec<usize>,
    rows: Vec<Vec<Operand>>,
    taken: Taken,
    /// Whether columns that are not given have defaults.
    has_defaults: bool,
}

/// What an INSERT does with a row whose key is there.
enum Taken {
    Fail,
    Skip,
    Overwrite,
    Change(Box<Change>),
    /// As the optimizer plans it.
    Compute(Box<OnConflict>, Ident),
}

impl std::fmt::Debug for Write {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let how = match self.how {
            How::Insert(_) => "INSERT",
            How::Update { .. } => "UPDATE",
            How::Delete { .. } => "DELETE",
        };
        write!(f, "{how} {}", self.target.table.name)
    }
}

impl Write {
    /// Compiles an INSERT.
    pub(super) fn insert(insert: &ast::Insert, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let mut rows = shape::insert(insert)?;
        let (target, named) = resolve(view, insert).ok()?;
        names::filled(view, &target.name())?;
        let width = rows.first().filter(|_| rows.len() * target.columns.len() <= VALUES_MAX)?.len();
        let fits = if insert.columns.is_empty() { (1..=named.len()).contains(&width) } else { width == named.len() };
        if !fits || rows.iter().any(|row| row.len() != width) {
            return None;
        }
        // A column that has its default in all rows is one that is not named.
        let is_default = |at: usize| rows.iter().all(|row| row[at] == Operand::Default);
        let kept: Vec<usize> = (0..width).filter(|at| !is_default(*at)).collect();
        let given: Vec<usize> = kept.iter().map(|at| named[*at]).collect();
        let always = |at: &usize| target.columns[*at].identity == Some(Identity::Always);
        if given.iter().any(always) || !Defaults::are_plain(&target, &given) {
            return None;
        }
        for row in &mut rows {
            let kept = kept.iter().zip(&given);
            *row = kept
                .map(|(at, to)| assigned(row[*at].clone(), target.columns[*to].kind, parameters))
                .collect::<Option<_>>()?;
        }
        // DataFusion gives all rows of a column one type.
        let kind_of = |operand: &Operand| match operand {
            Operand::Literal(ScalarValue::Null) => None,
            Operand::Literal(literal) => Some(Some(literal.data_type())),
            _ => Some(None),
        };
        let alike = |at: usize| {
            let mut kinds = rows.iter().filter_map(|row| kind_of(&row[at]));
            let first = kinds.next();
            kinds.all(|kind| Some(&kind) == first.as_ref())
        };
        if !(0..given.len()).all(alike) {
            return None;
        }
        let others = target.columns.iter().enumerate().filter(|(at, _)| !given.contains(at));
        let has_defaults = others.into_iter().any(|(_, column)| column.default.is_some());
        let called = called(insert, &target);
        let conflict = on_conflict(insert).ok()?;
        upsert::check_target(&target, &conflict).ok()?;
        let returned = returned(&target, insert.returning.as_deref(), &fold(&called))?;
        let taken = match &conflict {
            OnConflict::Fail => Taken::Fail,
            OnConflict::Nothing { .. } => Taken::Skip,
            // A row that is new has its defaults, and one that is there keeps what it has.
            OnConflict::Update { .. }
                if !target.has_conditions()
                    && !has_defaults
                    && returned.is_none()
                    && upsert::is_blind(&target, &called, &given, &conflict) =>
            {
                Taken::Overwrite
            }
            OnConflict::Update { .. } if target.hidden_key.is_some() => return None,
            OnConflict::Update { assignments, condition, .. } => {
                let change = || {
                    let named = Named::called(&target.name(), &fold(&called))?;
                    let set = upsert::changes(&target, assignments).cloned().collect();
                    let set = Set { of: &named, values: set, excluded: true };
                    Change::of(&target, set, places(returned.as_ref()), parameters, view)
                };
                // What rows become that are there is held against conditions as well.
                let is_simple = condition.is_none() && !target.has_conditions();
                match is_simple.then(change).flatten() {
                    Some(change) => Taken::Change(Box::new(change)),
                    None if upsert::is_of_rows(&target, assignments, condition.as_deref()) => {
                        Taken::Compute(Box::new(conflict.clone()), called.clone())
                    }
                    None => return None,
                }
            }
        };
        let key_places = target.key_places().ok()?;
        let how = How::Insert(Box::new(Insert { given, key_places, rows, taken, has_defaults }));
        Some(Self { target, how, returned })
    }

    /// Compiles an UPDATE.
    pub(super) fn update(update: &ast::Update, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let ChangeShape { table, set, comparisons } = shape::update(update)?;
        names::table(view, &table.table)?;
        let target = Target::of(view, &table.table).ok()?;
        if needs_more(&target) {
            return None;
        }
        let returned = returned(&target, update.returning.as_deref(), table.name())?;
        let set = Set { of: &table, values: set, excluded: false };
        let change = Box::new(Change::of(&target, set, places(returned.as_ref()), parameters, view)?);
        let key = by_key(&target, comparisons, parameters, view)?;
        Some(Self { target, how: How::Update { key, change }, returned })
    }

    /// Compiles a DELETE.
    pub(super) fn delete(delete: &ast::Delete, parameters: &mut Parameters, view: &View) -> Option<Self> {
        let ChangeShape { table, comparisons, .. } = shape::delete(delete)?;
        names::table(view, &table.table)?;
        let target = Target::of(view, &table.table).ok()?;
        let returned = returned(&target, delete.returning.as_deref(), table.name())?;
        let mut read = places(returned.as_ref()).to_vec();
        read.sort_unstable();
        read.dedup();
        let old = Box::new(Old::of(&target, read, view)?);
        let key = by_key(&target, comparisons, parameters, view)?;
        Some(Self { target, how: How::Delete { key, old }, returned })
    }

    /// Its table.
    pub(super) fn table(&self) -> &Table {
        &self.target.table
    }

    /// The columns of its RETURNING.
    pub(super) fn columns(&self) -> Option<&SchemaRef> {
        self.returned.as_ref().map(|(_, schema)| schema)
    }

    /// Whether it needs to know what a statement knows: the time, sequences, numbers of rows.
    pub(super) fn asks_context(&self) -> bool {
        let target = &self.target;
        let asks = |insert: &Insert| {
            let computes = matches!(insert.taken, Taken::Compute(..)) || target.has_conditions();
            insert.has_defaults || target.hidden_key.is_some() || computes
        };
        matches!(&self.how, How::Insert(insert) if asks(insert))
    }

    /// What it writes, how many rows, and those of RETURNING. `None` when the values are such that the general way has
    /// to see to them.
    pub(super) async fn run(
        &self,
        view: &View,
        parameters: &[ScalarValue],
        context: Option<Arc<StatementContext>>,
    ) -> Result<Option<Done>> {
        let mut written = WriteSet::counted(view.memory.clone());
        let mut returned = Returned::plain(self.returned.is_some());
        let (key, old) = match &self.how {
            How::Insert(insert) => {
                let new = self.new_rows(insert, view, parameters, context.clone())?;
                if !self.are_few(&new) {
                    return Ok(None);
                }
                if let Some(context) = &context {
                    let values: Vec<&[Value]> = new.iter().map(|row| row.values.as_slice()).collect();
                    Box::pin(conditions::check_around(context, view, &self.target, &values)).await?;
                }
                let put = (&mut written, &mut returned);
                let count = self.put(insert, new, (view, parameters, context), put).await?;
                return count.map(|count| self.done(written, count, returned)).transpose();
            }
            How::Update { key, change } => (key, change.old()),
            How::Delete { key, old } => (key, old.as_ref()),
        };
        let Some(rows) = key.rows(parameters) else { return Ok(None) };
        let mut count = 0;
        if !rows.is_empty() {
            let found: Vec<Row> = view.scan(&self.target.table, old.scan(rows)).try_concat().await?;
            for row in found {
                let changed = self.changed(&row, (view, parameters))?;
                let Some((mutations, after)) = changed else { return Ok(None) };
                written.add_read(&self.target.table, row.key.clone())?;
                written.mutate(&self.target.table, row.key, mutations)?;
                if self.returned.is_some() {
                    returned.add(count, after)?;
                }
                count += 1;
            }
        }
        self.done(written, count, returned).map(Some)
    }

    /// What an UPDATE or DELETE does to a row, and the row that it returns. `None` as [`run`](Self::run) has it.
    fn changed(
        &self,
        row: &Row,
        (view, parameters): (&View, &[ScalarValue]),
    ) -> Result<Option<(Vec<Mutation>, Vec<Value>)>> {
        let target = &self.target;
        match &self.how {
            How::Update { change, .. } => {
                let returns = self.returned.is_some();
                change.apply(row, Changed { target, view, parameters, excluded: &[], returns })
            }
            How::Delete { old, .. } if self.returned.is_some() => {
                let Some(read) = old.read(row)? else { return Ok(None) };
                Ok(Some((vec![Mutation::DeleteFromRow], old.values(target, &read, view)?)))
            }
            How::Insert(_) | How::Delete { .. } => Ok(Some((vec![Mutation::DeleteFromRow], Vec::new()))),
        }
    }

    /// What it has written, how many rows, and those of RETURNING.
    fn done(&self, written: WriteSet, count: u64, returned: Returned<'_>) -> Result<Done> {
        let rows = match &self.returned {
            Some((places, schema)) => Some(returned.columns(&self.target, places, schema)?),
            None => None,
        };
        Ok((written, count, rows))
    }

    /// The rows of an INSERT, checked.
    fn new_rows(
        &self,
        insert: &Insert,
        view: &View,
        parameters: &[ScalarValue],
        context: Option<Arc<StatementContext>>,
    ) -> Result<Vec<NewRow>> {
        let target = &self.target;
        let numbers = context.as_deref().map(numbers);
        let defaults = match context.filter(|_| insert.has_defaults) {
            Some(context) => Some(Defaults::of_plain(context, target, &insert.given, view.input.input())?),
            None => None,
        };
        let mut new = Vec::with_capacity(insert.rows.len());
        for (number, row) in insert.rows.iter().enumerate() {
            let mut values = vec![Value::Null; target.columns.len()];
            if let Some(defaults) = &defaults {
                defaults.fill(&mut values)?;
            }
            for (operand, at) in row.iter().zip(&insert.given) {
                values[*at] = change::given(operand, &target.columns[*at], (view, parameters))?;
            }
            let parts = match &numbers {
                Some(numbers) => target.new_parts(&insert.key_places, &values, numbers),
                None => insert.key_places.iter().map(|at| values[*at].clone()).collect(),
            };
            new.push(new_row(view, target, parts, values, number as u64)?);
        }
        Ok(new)
    }

    /// Whether new rows are no load: on the general way they may be more than a commit holds.
    fn are_few(&self, new: &[NewRow]) -> bool {
        let (cells, bytes) =
            new.iter().fold((0, 0), |(cells, bytes), row| (cells + row.cells(&self.target), bytes + row.bytes()));
        cells <= CELLS_MAX && bytes <= BYTES_MAX
    }

    /// Writes new rows; how many were written. `None` as [`run`](Self::run) has it.
    async fn put(
        &self,
        insert: &Insert,
        new: Vec<NewRow>,
        (view, parameters, context): (&View, &[ScalarValue], Option<Arc<StatementContext>>),
        (written, returned): (&mut WriteSet, &mut Returned<'_>),
    ) -> Result<Option<u64>> {
        let (target, mut seen) = (&self.target, HashSet::new());
        match &insert.taken {
            Taken::Overwrite => put_blindly(target, &insert.given, new, &mut seen, written).map(Some),
            Taken::Fail => put_new((view, target), new, false, &mut seen, (written, returned)).await.map(Some),
            Taken::Skip => put_new((view, target), new, true, &mut seen, (written, returned)).await.map(Some),
            Taken::Change(change) => self.put_or_change(change, new, (view, parameters), (written, returned)).await,
            Taken::Compute(conflict, called) => {
                // Such a write asks for it.
                let Some(context) = context else { return Ok(None) };
                let put = (written, returned);
                Box::pin(self.put_or_compute(context, (conflict, called), new, view, put)).await.map(Some)
            }
        }
    }

    /// Writes rows that are not there, and computes those that are, as on the general way.
    async fn put_or_compute(
        &self,
        context: Arc<StatementContext>,
        (conflict, called): (&OnConflict, &Ident),
        mut new: Vec<NewRow>,
        view: &View,
        (written, returned): (&mut WriteSet, &mut Returned<'_>),
    ) -> Result<u64> {
        let query = Query::new(context, view.clone())?;
        let upsert = upsert::Upsert { query: &query, target: &self.target, called, parameters: &[] };
        let (mut seen, mut count) = (HashSet::new(), 0);
        while !new.is_empty() {
            let rest = new.split_off(new.len().min(LOOKUP_ROWS));
            let chunk = std::mem::replace(&mut new, rest);
            count += upsert.run(conflict, chunk, &mut seen, written, returned).await?;
        }
        Ok(count)
    }

    /// Writes rows that are not there, and changes those that are; all of the former first, as on the general way.
    async fn put_or_change(
        &self,
        change: &Change,
        new: Vec<NewRow>,
        (view, parameters): (&View, &[ScalarValue]),
        (written, returned): (&mut WriteSet, &mut Returned<'_>),
    ) -> Result<Option<u64>> {
        let target = &self.target;
        let (count, returns) = (new.len() as u64, self.returned.is_some());
        let keys = RowSet::new(new.iter().map(|row| KeyRange::point(&row.key)));
        let found: Vec<Row> = view.scan(&target.table, change.old().scan(keys)).try_concat().await?;
        let there: HashMap<RowKey, Row> = found.into_iter().map(|row| (row.key.clone(), row)).collect();
        let (mut seen, mut taken) = (HashSet::new(), Vec::new());
        for row in new {
            if !seen.insert(row.key.clone()) {
                return Err(upsert::twice());
            }
            written.add_read(&target.table, row.key.clone())?;
            if there.contains_key(&row.key) {
                taken.push(row);
                continue;
            }
            let mutations = creation(target, &row)?;
            written.mutate(&target.table, row.key, mutations)?;
            if returns {
                returned.add(row.number, row.values)?;
            }
        }
        for row in taken {
            let of = Changed { target, view, parameters, excluded: &row.values, returns };
            let Some((mutations, after)) = change.apply(&there[&row.key], of)? else { return Ok(None) };
            written.mutate(&target.table, row.key, mutations)?;
            if returns {
                returned.add(row.number, after)?;
            }
        }
        Ok(Some(count))
    }
}

/// Whether rows are held against conditions, or values may not be given.
fn needs_more(target: &Target) -> bool {
    target.has_conditions() || target.columns.iter().any(|column| column.identity.is_some())
}

/// The key that an UPDATE or DELETE names, whole.
fn by_key(
    target: &Target,
    comparisons: Vec<shape::Comparison>,
    parameters: &mut Parameters,
    view: &View,
) -> Option<KeyComparisons> {
    let keys = Keys::of_table(&target.table, view.rows.tenant().is_none());
    KeyComparisons::of(keys, comparisons, parameters).filter(KeyComparisons::is_point)
}

/// The places of columns that are returned.
fn places(returned: Option<&(Vec<usize>, SchemaRef)>) -> &[usize] {
    returned.map_or(&[], |(places, _)| places)
}

/// The places of the columns that a RETURNING names, and what it calls them. None of both without
/// RETURNING; `None` for what it computes.
fn returned(target: &Target, items: Option<&[SelectItem]>, called: &str) -> Option<Option<(Vec<usize>, SchemaRef)>> {
    let Some(items) = items else { return Some(None) };
    if target.columns.iter().any(TargetColumn::is_aggregate) {
        return None;
    }
    let all: Vec<&str> = target.columns.iter().map(|column| column.name.as_str()).collect();
    let items = shape::returned(items, called, &all)?;
    let places = items.iter().map(|(column, _)| target.position(column).ok()).collect::<Option<Vec<_>>>()?;
    let fields = places.iter().zip(items).map(|(at, (_, name))| field(&target.columns[*at]).with_name(name));
    Some(Some((places.clone(), Arc::new(Schema::new(fields.collect::<Vec<_>>())))))
}
