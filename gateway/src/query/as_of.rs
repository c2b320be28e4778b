//! `FOR SYSTEM_TIME AS OF`: the timestamps of a statement, worked out before it is planned.
//!
//! DataFusion's planner passes over the clause. So the expressions of a statement are asked for first, as one SELECT of
//! timestamps ([`timestamps_query`], [`answer`]); then each `t FOR SYSTEM_TIME AS OF …` becomes `"as of
//! 1700000000000000 of 2200".t AS t` ([`at_timestamps`]), the name of a schema, by its OID, that
//! [`tables`](super::schemas) opens as the tables as they were ([`timestamp_of`], [`view`]).

use crate::{
    pg::{
        error::{NO_HISTORY_HINT, Result, SqlError, SqlState},
        ident::fold,
        names::{RelationName, SYSTEM, Schema},
    },
    system_relations,
    view::View,
};
use arrow::{
    array::{Array, RecordBatch},
    datatypes::{TimeUnit, TimestampMicrosecondType},
};
use datafusion::{
    error::DataFusionError,
    sql::sqlparser::{
        ast::{
            CastKind, DataType, Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement,
            TableAlias, TableFactor, TableVersion, TimezoneInfo, Visit, VisitMut, Visitor, VisitorMut,
        },
        dialect::PostgreSqlDialect,
        parser::Parser,
    },
};
use keyspan_catalog::{Relation, Table};
use std::ops::ControlFlow;

/// How the name of a schema of the past begins.
const PREFIX: &str = "as of ";
/// What stands for a timestamp while parameters have no values. Nothing can be read there.
const UNKNOWN: i64 = i64::MAX;

type Flow = ControlFlow<Box<SqlError>>;

/// The query that gives the timestamps of a statement, and their number; `None` for a statement without any.
///
/// # Errors
/// 0A000 for a timestamp that a subquery gives.
pub(super) fn timestamps_query(statement: &Statement) -> Result<Option<(Statement, usize)>> {
    let mut found = Found::default();
    finish(Visit::visit(statement, &mut found))?;
    if found.timestamps.is_empty() {
        return Ok(None);
    }
    let count = found.timestamps.len();
    let typed = |expr| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Timestamp(None, TimezoneInfo::Tz),
        array: false,
        format: None,
    };
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, "SELECT NULL");
    let mut timestamps_query =
        parsed.ok().and_then(|mut all| all.pop()).ok_or_else(|| fault("SELECT NULL does not parse"))?;
    if let Statement::Query(query) = &mut timestamps_query
        && let SetExpr::Select(select) = query.body.as_mut()
    {
        select.projection = found.timestamps.into_iter().map(|expr| SelectItem::UnnamedExpr(typed(expr))).collect();
    }
    Ok(Some((timestamps_query, count)))
}

#[derive(Default)]
struct Found {
    timestamps: Vec<Expr>,
    /// How deep in a timestamp the visit is.
    within: usize,
}

impl Visitor for Found {
    type Break = Box<SqlError>;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        if let TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(timestamp)), .. } = factor {
            self.timestamps.push(timestamp.clone());
            // The visit goes on into the timestamp itself.
            self.within += 1;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        if let TableFactor::Table { version: Some(TableVersion::ForSystemTimeAsOf(_)), .. } = factor {
            self.within -= 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, _: &Query) -> Flow {
        if self.within > 0 {
            let what = "a subquery in FOR SYSTEM_TIME AS OF";
            return ControlFlow::Break(Box::new(SqlError::unsupported(what)));
        }
        ControlFlow::Continue(())
    }
}

/// The timestamps that the timestamps_query gave, in microseconds. The statement's own time, `now_micros`, may be a
/// little after that of the state which it reads, `pin_micros`, or much in a long transaction: what lies between them
/// is as new as that state.
///
/// # Errors
/// 22023 for NULL and for a timestamp to come.
pub(super) fn answer(batches: &[RecordBatch], now_micros: i64, pin_micros: i64) -> Result<Vec<Option<i64>>> {
    let wrong = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    let row = batches.iter().find(|batch| batch.num_rows() > 0).ok_or_else(|| fault("timestamps have no row"))?;
    let one = |column: &arrow::array::ArrayRef| {
        if !matches!(column.data_type(), arrow::datatypes::DataType::Timestamp(TimeUnit::Microsecond, _)) {
            return Err(fault("a timestamp has another type"));
        }
        let column = arrow::array::cast::as_primitive_array::<TimestampMicrosecondType>(column);
        if column.is_null(0) {
            return wrong("the timestamp in FOR SYSTEM_TIME AS OF is NULL");
        }
        match column.value(0) {
            timestamp if timestamp > now_micros.max(pin_micros) => {
                wrong("the timestamp in FOR SYSTEM_TIME AS OF is in the future")
            }
            timestamp => Ok(Some(timestamp.min(pin_micros))),
        }
    };
    row.columns().iter().map(one).collect()
}

/// The statement with the names of tables as they were at the timestamps.
///
/// # Errors
/// 42P01 for a table that there is not; 0A000 for a name that is not that of a table in `public`.
pub(super) fn at_timestamps(statement: &Statement, timestamps: &[Option<i64>], view: &View) -> Result<Statement> {
    let mut statement = statement.clone();
    let mut names = Names::default();
    finish(Visit::visit(&statement, &mut names))?;
    finish(VisitMut::visit(
        &mut statement,
        &mut AtTimestamps { timestamps: timestamps.iter(), defined: names.0, view },
    ))?;
    Ok(statement)
}

/// The names that WITH defines.
#[derive(Default)]
struct Names(Vec<String>);

impl Visitor for Names {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        let defined = query.with.iter().flat_map(|with| &with.cte_tables);
        self.0.extend(defined.map(|table| fold(&table.alias.name)));
        ControlFlow::Continue(())
    }
}

struct AtTimestamps<'a> {
    timestamps: std::slice::Iter<'a, Option<i64>>,
    defined: Vec<String>,
    view: &'a View,
}

impl VisitorMut for AtTimestamps<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        let TableFactor::Table { name, alias, version, .. } = factor else { return ControlFlow::Continue(()) };
        let Some(TableVersion::ForSystemTimeAsOf(_)) = version.take() else { return ControlFlow::Continue(()) };
        let timestamp = self.timestamps.next().copied().flatten().unwrap_or(UNKNOWN);
        let no = |what: &str| {
            let what = format!("FOR SYSTEM_TIME AS OF of {what}");
            ControlFlow::Break(Box::new(SqlError::unsupported(what)))
        };
        let parts: Option<Vec<Ident>> = name.0.iter().map(|part| part.as_ident().cloned()).collect();
        let table = match parts.as_deref() {
            Some([table]) if self.defined.contains(&fold(table)) => return no("a query of WITH"),
            Some([table]) => (None, table.clone()),
            Some([schema, table]) => match Schema::named(&fold(schema)) {
                known @ (Schema::Public | Schema::Own(_)) => (Some(known), table.clone()),
                _ => return no("a relation that is not in a schema of users"),
            },
            _ => return no("a relation that is not in a schema of users"),
        };
        let (schema, table) = table;
        let known = fold(&table);
        let said = RelationName { schema, name: known.clone() };
        let found = match self.view.find(&said) {
            Some((_, Relation::View(_))) => return no("a view"),
            Some((Schema::Temporary, _)) => return no("a temporary table"),
            Some((_, Relation::Table(found))) => found,
            None if system_relations::names(SYSTEM[0], false).any(|name| name == known) => {
                return no("a relation of the system");
            }
            None => return ControlFlow::Break(Box::new(SqlError::undefined_relation(&said.written()))),
        };
        alias.get_or_insert_with(|| TableAlias { explicit: true, name: table.clone(), columns: Vec::new(), at: None });
        let schema = Ident::with_quote('"', format!("{PREFIX}{timestamp} of {}", found.schema));
        *name = ObjectName(vec![ObjectNamePart::Identifier(schema), ObjectNamePart::Identifier(table)]);
        ControlFlow::Continue(())
    }
}

fn finish(flow: Flow) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn fault(message: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, message)
}

/// The schema, by its OID, and the timestamp, in microseconds, that the name of a schema stands for.
pub(super) fn timestamp_of(schema: &str) -> Option<(u32, i64)> {
    let (timestamp, oid) = schema.strip_prefix(PREFIX)?.split_once(" of ")?;
    Some((oid.parse().ok()?, timestamp.parse().ok()?))
}

/// What is seen of a table at a timestamp.
///
/// # Errors
/// 0A000 for a table that keeps no history.
pub(super) fn view(view: &View, table: &Table, as_of_micros: i64) -> Result<View, DataFusionError> {
    if table.history_micros.is_some() {
        return Ok(view.with_as_of(as_of_micros));
    }
    let message = format!("relation \"{}\" keeps no history", table.name);
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(NO_HISTORY_HINT);
    Err(DataFusionError::External(Box::new(error)))
}
