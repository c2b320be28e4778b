//! The queries of views, with their names bound.
//!
//! A view goes on to mean what it meant when it was made: `SELECT *` has the columns of that day, and a relation or a
//! column that gets another name is still the same. So [`bind`] puts numbers in the place of names before a view is
//! stored,
//!
//! ```text
//! SELECT * FROM notes n          SELECT * FROM "bound"."16390:1,3" AS "n" ("id", "body")
//! ```
//!
//! (the relation's number, the numbers of its columns that the query may mean, and what the query calls them), and
//! [`opened`] makes a query of it again that can be planned: `(SELECT "id" AS "id", "text" AS "body" FROM
//! public."memos") AS "n"`. [`text_of`] is the text that `pg_get_viewdef` gives. The syntax tree is all that is looked
//! at; that a column is meant is said of any that has a name which stands anywhere in the query, or that a `*` beside
//! it may bring: too many rather than too few.

use crate::pg::syntax::dialect::parse_text;
use crate::{
    pg::{
        error::{Result, SqlError, SqlState},
        ident::{fold, quoted},
        names::{RelationName, Schema, TEMPORARY},
        syntax::column_names,
    },
    system_relations,
};
use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, Visit, VisitMut,
    Visitor, VisitorMut,
};
use keyspan_catalog::{ErrorKind, Numbers, Relation, SqlView};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

/// The schema of relations that are named by number.
const BOUND: &str = "bound";
/// The table functions that name a table by a text.
const BY_TEXT: [&str; 2] = ["cells", "raw"];

type Flow = ControlFlow<Box<SqlError>>;

/// A query whose names are bound.
#[derive(Debug)]
pub struct Bound {
    /// Its text.
    pub sql: String,
    /// The numbers of the relations that it reads, and of their columns.
    pub uses: BTreeMap<u32, BTreeSet<u16>>,
}

/// Binds the names of a query. `named` finds the relations of the database.
///
/// # Errors
/// 0A000 for what cannot stand in a view; 42P10 for an alias with more columns than the relation has.
pub fn bind<'a>(
    query: &Query,
    database: &str,
    named: impl Fn(&RelationName) -> Result<Option<Relation<'a>>>,
) -> Result<Bound> {
    let mut mentioned = Mentioned::default();
    finish(Visit::visit(query, &mut mentioned))?;
    let mut bound = query.clone();
    let mut binder =
        Binder { mentioned, database, named: &named, queries: Vec::new(), selects: Vec::new(), uses: BTreeMap::new() };
    finish(VisitMut::visit(&mut bound, &mut binder))?;
    let uses = binder.uses;
    let sql = bound.to_string();
    // What is stored is text: it has to say the same.
    if parsed(&sql).ok().as_deref() != Some(&bound) {
        return Err(SqlError::unsupported("this form of a query in a view").with_hint("Write it in another way."));
    }
    Ok(Bound { sql, uses })
}

/// The query of a view as it can be planned: relations and columns by the names that they have now.
///
/// # Errors
/// A fault of ours: a view that cannot be read, or that reads what is no more.
pub fn opened<'a>(view: &SqlView, numbered: impl Fn(u32) -> Option<(Schema, Relation<'a>)>) -> Result<Box<Query>> {
    let mut query = parsed(&view.sql)?;
    let mut opener = Opener { numbered: &numbered, is_visible: None };
    finish(VisitMut::visit(&mut query, &mut opener))?;
    Ok(query)
}

/// The text of a view's query with the names that relations and columns have now, and with the columns in the place of
/// a `*`. A relation that is not visible, by its number, is named with its schema.
///
/// # Errors
/// As [`opened`].
pub fn text_of<'a>(
    view: &SqlView,
    numbered: impl Fn(u32) -> Option<(Schema, Relation<'a>)>,
    is_visible: impl Fn(u32) -> bool,
) -> Result<String> {
    let mut query = parsed(&view.sql)?;
    finish(VisitMut::visit(&mut query, &mut Spread))?;
    let mut opener = Opener { numbered: &numbered, is_visible: Some(&is_visible) };
    finish(VisitMut::visit(&mut query, &mut opener))?;
    if let Some(select) = first_select(&mut query.body) {
        name_items(select, view);
    }
    Ok(format!(" {query};"))
}

/// The text of a view's query with other numbers of relations and columns: for a copy of the view in another database.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) for a text that cannot be read, or a number that `numbers` does not know.
pub fn renumbered(sql: &str, numbers: &Numbers) -> keyspan_catalog::Result<String> {
    let corrupt = |error: SqlError| keyspan_catalog::Error::new(ErrorKind::Corrupt, error.message);
    let mut query = parsed(sql).map_err(corrupt)?;
    match VisitMut::visit(&mut query, &mut Renumberer(numbers)) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(query.to_string()),
    }
}

struct Renumberer<'a>(&'a Numbers);

impl VisitorMut for Renumberer<'_> {
    type Break = keyspan_catalog::Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let TableFactor::Table { name, .. } = factor else { return ControlFlow::Continue(()) };
        let Some((relation, columns)) = place(name) else { return ControlFlow::Continue(()) };
        let renumbered = || {
            let number = |column: &u16| Ok(self.0.column(relation, *column)?.to_string());
            let columns = columns.iter().map(number).collect::<keyspan_catalog::Result<Vec<_>>>()?;
            Ok(format!("{}:{}", self.0.relation(relation)?, columns.join(",")))
        };
        match renumbered() {
            Ok(place) => {
                *name = object(&[BOUND, &place]);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn parsed(sql: &str) -> Result<Box<Query>> {
    let parsed = parse_text(sql, |parser| parser.parse_query());
    parsed.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, format!("the query of a view: {error}")))
}

fn finish(flow: Flow) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The names that stand in expressions.
#[derive(Default)]
struct Mentioned {
    names: BTreeSet<String>,
    /// Those that stand by themselves: the name of a relation among them means its rows.
    alone: BTreeSet<String>,
    /// Whether a function is given whole rows.
    rows: bool,
}

impl Visitor for Mentioned {
    type Break = Box<SqlError>;

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::Identifier(name) => {
                self.names.insert(fold(name));
                self.alone.insert(fold(name));
            }
            Expr::CompoundIdentifier(parts) => self.names.extend(parts.iter().map(fold)),
            Expr::CompoundFieldAccess { .. } => self.rows = true,
            Expr::QualifiedWildcard(..) => self.rows = true,
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &function.args {
                    let whole = |argument: &FunctionArg| {
                        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)))
                    };
                    self.rows |= list.args.iter().any(whole);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        for join in select.from.iter().flat_map(|from| &from.joins) {
            if let Some(JoinConstraint::Using(columns)) = constraint(&join.join_operator) {
                let last = columns.iter().filter_map(|name| name.0.last()).filter_map(|part| part.as_ident());
                self.names.extend(last.map(fold));
            }
        }
        ControlFlow::Continue(())
    }
}

fn constraint(join: &JoinOperator) -> Option<&JoinConstraint> {
    match join {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::Right(on)
        | JoinOperator::RightOuter(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::CrossJoin(on) => Some(on),
        _ => None,
    }
}

/// A query that is being visited, and the names that its WITH defines. The queries of WITH are visited first, in order.
struct Within {
    defined: Vec<String>,
    recursive: bool,
    /// How many of them have been visited.
    done: usize,
    /// Whether the query itself is one of WITH.
    is_defined: bool,
}

struct Binder<'a, 'b> {
    mentioned: Mentioned,
    database: &'a str,
    named: &'a dyn Fn(&RelationName) -> Result<Option<Relation<'b>>>,
    queries: Vec<Within>,
    /// Whether all columns of what a SELECT reads may be meant.
    selects: Vec<bool>,
    uses: BTreeMap<u32, BTreeSet<u16>>,
}

impl Binder<'_, '_> {
    fn is_defined(&self, name: &str) -> bool {
        self.queries.iter().any(|query| {
            let until = if query.recursive { query.defined.len() } else { query.done };
            query.defined.iter().take(until).any(|defined| defined == name)
        })
    }

    /// Whether the first of names before a column's is that of a schema of users.
    fn is_schema(&self, first: &str, second: &str) -> bool {
        match self.schema(first) {
            Schema::Public | Schema::Temporary => true,
            own @ Schema::Own(_) => matches!((self.named)(&RelationName::within(own, second)), Ok(Some(_))),
            _ => false,
        }
    }

    fn schema(&self, name: &str) -> Schema {
        match Schema::named(name) {
            Schema::Own(other) if other.starts_with(TEMPORARY) => Schema::Temporary,
            known => known,
        }
    }

    /// The relation that a name stands for; `None` for one of the system's, or of WITH.
    fn relation(&self, parts: &[String]) -> Result<Option<Relation<'_>>> {
        let name = match parts {
            [name] if self.is_defined(name) => return Ok(None),
            [name] => RelationName::bare(name.as_str()),
            [schema, _] if schema == BOUND => {
                let message = format!("schema \"{BOUND}\" does not exist");
                return Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message));
            }
            [schema, name] => RelationName::within(self.schema(schema), name.as_str()),
            [database, schema, name] if database == self.database => {
                RelationName::within(self.schema(schema), name.as_str())
            }
            _ => return Ok(None),
        };
        (self.named)(&name)
    }

    fn bind(&mut self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, alias, args, version, .. } = factor else { return Ok(()) };
        let Some(parts) = parts(name) else { return Ok(()) };
        if args.is_some() {
            return refuse_by_text(&parts);
        }
        if version.is_some() {
            return Err(SqlError::unsupported("FOR SYSTEM_TIME AS OF in a view"));
        }
        let Some(relation) = self.relation(&parts)? else {
            if let [only] = parts.as_slice()
                && !self.is_defined(only)
                && system_relations::names(crate::pg::names::SYSTEM[0], false).any(|known| known == only)
            {
                *name = object(&[crate::pg::names::SYSTEM[0], only]);
                alias.get_or_insert_with(|| named_alias(quoted(only), Vec::new()));
            }
            return Ok(());
        };
        let called = alias.as_ref().map_or_else(|| quoted(relation.name()), |alias| alias.name.clone());
        let given: Vec<Ident> =
            alias.iter().flat_map(|alias| &alias.columns).map(|column| column.name.clone()).collect();
        let columns = relation.columns();
        if given.len() > columns.len() {
            let (there, more) = (columns.len(), given.len());
            let message =
                format!("table \"{}\" has {there} columns available but {more} columns specified", called.value);
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        let whole =
            self.selects.last() == Some(&true) || self.mentioned.rows || self.mentioned.alone.contains(&fold(&called));
        let shown = columns.iter().enumerate().map(|(at, (number, own))| {
            let name = given.get(at).cloned().map_or_else(|| quoted(own), |name| quoted(&fold(&name)));
            (*number, name)
        });
        let meant: Vec<(u16, Ident)> =
            shown.filter(|(_, name)| whole || self.mentioned.names.contains(&name.value)).collect();
        let numbers: Vec<String> = meant.iter().map(|(number, _)| number.to_string()).collect();
        let place = format!("{}:{}", relation.oid(), numbers.join(","));
        let number = relation.oid();
        *name = object(&[BOUND, &place]);
        *alias = Some(named_alias(quoted(&fold(&called)), meant.iter().map(|(_, name)| name.clone()).collect()));
        self.uses.entry(number).or_default().extend(meant.iter().map(|(number, _)| *number));
        Ok(())
    }
}

impl VisitorMut for Binder<'_, '_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> Flow {
        let is_defined = self.queries.last().is_some_and(|outer| outer.done < outer.defined.len());
        let with = query.with.as_ref();
        let defined = with.into_iter().flat_map(|with| &with.cte_tables);
        self.queries.push(Within {
            defined: defined.map(|defined| fold(&defined.alias.name)).collect(),
            recursive: with.is_some_and(|with| with.recursive),
            done: 0,
            is_defined,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> Flow {
        let ended = self.queries.pop();
        if let Some(outer) = self.queries.last_mut().filter(|_| ended.is_some_and(|query| query.is_defined)) {
            outer.done += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        let wild = select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
        let natural = select
            .from
            .iter()
            .flat_map(|from| &from.joins)
            .any(|join| matches!(constraint(&join.join_operator), Some(JoinConstraint::Natural)));
        self.selects.push(wild || natural);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> Flow {
        self.selects.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        let bound = match factor {
            TableFactor::Function { name, .. } => parts(name).map_or(Ok(()), |parts| refuse_by_text(&parts)),
            factor => self.bind(factor),
        };
        match bound {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    /// `public.t.a` is `t.a`: what is bound has no schema.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> Flow {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 2
            && self.is_schema(&fold(&parts[0]), &fold(&parts[1]))
        {
            parts.remove(0);
        }
        ControlFlow::Continue(())
    }
}

fn refuse_by_text(parts: &[String]) -> Result<()> {
    match parts.last() {
        Some(name) if BY_TEXT.contains(&name.as_str()) => Err(SqlError::unsupported(format!("{name}() in a view"))),
        _ => Ok(()),
    }
}

/// The parts of a name; `None` for one that is no name.
fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(fold)).collect()
}

fn object(parts: &[&str]) -> ObjectName {
    ObjectName(parts.iter().map(|part| ObjectNamePart::Identifier(quoted(part))).collect())
}

fn named_alias(name: Ident, columns: Vec<Ident>) -> TableAlias {
    let columns = columns.into_iter().map(|name| TableAliasColumnDef { name, data_type: None }).collect();
    TableAlias { explicit: true, name, columns, at: None }
}

/// What a bound name stands for: the relation's number and those of its columns.
fn place(name: &ObjectName) -> Option<(u32, Vec<u16>)> {
    let [schema, place] = name.0.as_slice() else { return None };
    if schema.as_ident()?.value != BOUND {
        return None;
    }
    let (relation, columns) = place.as_ident()?.value.split_once(':')?;
    let columns = columns.split(',').filter(|number| !number.is_empty()).map(|number| number.parse().ok());
    Some((relation.parse().ok()?, columns.collect::<Option<Vec<u16>>>()?))
}

/// Names in the place of numbers.
struct Opener<'a, 'b> {
    numbered: &'a dyn Fn(u32) -> Option<(Schema, Relation<'b>)>,
    /// For a reader, to whom nothing is written that can be left out: whether a relation is found without its schema.
    is_visible: Option<&'a dyn Fn(u32) -> bool>,
}

impl Opener<'_, '_> {
    fn open(&self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, alias, .. } = factor else { return Ok(()) };
        let Some((number, columns)) = place(name) else { return Ok(()) };
        let gone = || SqlError::new(SqlState::DATA_CORRUPTED, "a view reads a relation or a column that is no more");
        let (schema, relation) = (self.numbered)(number).ok_or_else(gone)?;
        let Some(called) = alias.as_mut() else { return Err(gone()) };
        let now: Vec<&str> =
            columns.iter().map(|number| relation.column(*number).ok_or_else(gone)).collect::<Result<_>>()?;
        let as_called = std::mem::take(&mut called.columns);
        let items = now.iter().zip(&as_called).map(|(now, called)| (quoted(now), quoted(&called.name.value)));
        let items: Vec<(Ident, Ident)> = items.collect();
        if let Some(is_visible) = self.is_visible
            && items.iter().all(|(now, called)| now == called)
        {
            let plain = |name: &str| shown_name(name);
            let within = (!is_visible(number)).then_some(schema.name());
            let parts = within.into_iter().chain([relation.name()]);
            *name = ObjectName(parts.map(|part| ObjectNamePart::Identifier(plain(part))).collect());
            called.name = plain(&called.name.value);
            if called.name.value == relation.name() {
                *alias = None;
            } else {
                called.explicit = false;
            }
            return Ok(());
        }
        let list: Vec<String> = items.iter().map(|(now, called)| format!("{now} AS {called}")).collect();
        let list = if list.is_empty() { "NULL AS nothing".to_owned() } else { list.join(", ") };
        let subquery = parsed(&format!("SELECT {list} FROM {}.{}", quoted(schema.name()), quoted(relation.name())))?;
        *factor = TableFactor::Derived { lateral: false, subquery, alias: alias.take(), sample: None };
        Ok(())
    }
}

impl VisitorMut for Opener<'_, '_> {
    type Break = Box<SqlError>;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> Flow {
        match self.open(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// A name in quotes where it needs them.
fn shown_name(name: &str) -> Ident {
    let shown = crate::pg::ident::quote_ident(name);
    if shown == name { Ident::new(name) } else { quoted(name) }
}

/// Puts the columns of bound relations in the place of a `*`, where these are all that a SELECT reads.
struct Spread;

impl VisitorMut for Spread {
    type Break = Box<SqlError>;

    fn pre_visit_select(&mut self, select: &mut Select) -> Flow {
        let mut sources: Option<Vec<(Ident, Vec<Ident>)>> = Some(Vec::new());
        let merged = select.from.iter().flat_map(|from| &from.joins).any(|join| {
            matches!(constraint(&join.join_operator), Some(JoinConstraint::Natural | JoinConstraint::Using(_)))
        });
        for from in &select.from {
            for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
                let source = match factor {
                    TableFactor::Table { name, alias: Some(alias), .. } if place(name).is_some() => {
                        Some((alias.name.clone(), alias.columns.iter().map(|column| column.name.clone()).collect()))
                    }
                    _ => None,
                };
                sources = sources.zip(source).map(|(mut all, one)| {
                    all.push(one);
                    all
                });
            }
        }
        let Some(sources) = sources.filter(|sources| !sources.is_empty() && !merged) else {
            return ControlFlow::Continue(());
        };
        let spread = |(relation, columns): &(Ident, Vec<Ident>)| {
            let relation = shown_name(&relation.value);
            let item = |column: &Ident| {
                let column = shown_name(&column.value);
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![relation.clone(), column]))
            };
            columns.iter().map(item).collect::<Vec<_>>()
        };
        let items = std::mem::take(&mut select.projection);
        select.projection = items
            .into_iter()
            .flat_map(|item| match &item {
                SelectItem::Wildcard(_) => sources.iter().flat_map(spread).collect(),
                SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let wanted = parts(name).and_then(|parts| parts.last().cloned());
                    let found = sources.iter().find(|(relation, _)| Some(fold(relation)) == wanted);
                    found.map_or_else(|| vec![item.clone()], spread)
                }
                _ => vec![item],
            })
            .collect();
        ControlFlow::Continue(())
    }
}

fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}

/// Gives items the names of the view's columns, where they would have others.
fn name_items(select: &mut Select, view: &SqlView) {
    let wild = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    if select.projection.len() != view.columns.len() || select.projection.iter().any(wild) {
        return;
    }
    let mut labelled = select.clone();
    column_names::label(&mut labelled);
    let label = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => fold(alias),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold).unwrap_or_default(),
        item => item.to_string().trim_matches('"').to_owned(),
    };
    let names: Vec<String> = labelled.projection.iter().map(label).collect();
    for ((item, name), column) in select.projection.iter_mut().zip(names).zip(&view.columns) {
        if name == column.name {
            continue;
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = &*item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: shown_name(&column.name) };
        }
    }
}

#[cfg(test)]
mod tests;
