//! Queries and writes: read by sqlparser, then held against what is supported.
//!
//! DataFusion's planner passes over clauses that it does not know (`FOR UPDATE`, `TABLESAMPLE`, versions of tables). What it would
//! pass over is refused here.

use super::{
    as_of::{Past, refuse_target},
    create_table_as,
    locking::{Locks, check_nested, nested, spell, take_own},
    role,
    statement::{Statement, parse_one},
    subscripts::Parts,
    tokens::{TokenReader, in_schema},
    with,
};
use crate::pg::ident::fold;
use crate::pg::ident::quoted;
use crate::pg::syntax::build::select_from;
use crate::pg::{
    error::{Result, SqlError},
    names::RelationName,
};
use datafusion::sql::sqlparser::{
    ast::{
        self, ConflictTarget, Expr, FromTable, Ident, LimitClause, ObjectName, OnConflictAction, OnInsert, Query,
        Select, SetExpr, TableFactor, TableObject, TableVersion, TableWithJoins, UpdateTableFromKind, Value,
        ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
    },
    tokenizer::{Span, Token},
};
use std::ops::ControlFlow;

/// `EXPLAIN`
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// Whether the statement runs and its numbers are shown.
    pub analyze: bool,
    /// Whether more is shown.
    pub verbose: bool,
    /// A query, a write, or `EXECUTE` of one.
    pub statement: Box<Statement>,
}

/// What `INSERT` does with a row whose key is there already.
#[derive(Clone, Debug, PartialEq)]
pub enum OnConflict {
    /// 23505
    Fail,
    /// `DO NOTHING`
    Nothing {
        /// The columns named; `None` for any conflict.
        target: Option<Vec<String>>,
    },
    /// `DO UPDATE SET …`
    Update {
        /// The columns named.
        target: Vec<String>,
        /// Columns and their new values.
        assignments: Vec<(String, Expr)>,
        /// `WHERE`
        condition: Option<Box<Expr>>,
    },
}

/// A query, which locks nothing.
pub(crate) fn parse_query(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    Locks::cut(tokens)?.refuse()?;
    parse_locking(tokens)
}

/// A query, which may lock rows.
pub(crate) fn parse_locking(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let locks = Locks::cut(tokens)?;
    let (mut query, past) = read(tokens)?;
    past.put(&mut query)?;
    without_database(&mut query, tokens.database());
    adapt(&mut query)?;
    locks.put(&mut query)?;
    Ok(Statement::Query(Box::new(ast::Statement::Query(query))))
}

/// A query that stands by itself: it may say `INTO`.
pub(crate) fn parse_select(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let locks = Locks::cut(tokens)?;
    let (mut query, past) = read(tokens)?;
    let into = create_table_as::take_into(&mut query, tokens.database())?;
    past.put(&mut query)?;
    without_database(&mut query, tokens.database());
    adapt(&mut query)?;
    if into.is_some() {
        locks.refuse()?;
    } else {
        locks.put(&mut query)?;
    }
    let query = Box::new(ast::Statement::Query(query));
    Ok(match into {
        Some(name) => create_table_as::made_of(name, query),
        None => Statement::Query(query),
    })
}

fn read(tokens: &mut TokenReader<'_>) -> Result<(Box<Query>, Past)> {
    let past = Past::cut(tokens)?;
    // sqlparser takes FOR behind a select list without FROM for an alias.
    for lock in [&["for", "update"][..], &["for", "share"], &["for", "no", "key"], &["for", "key", "share"]] {
        if tokens.contains(lock) {
            return Err(nested());
        }
    }
    let query = if tokens.words("table") {
        let name = tokens.table_name()?;
        select_from(&name, &[])?
    } else {
        tokens.parse_with(|parser| parser.parse_query())?
    };
    Ok((query, past))
}

pub(crate) fn parse_insert(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let past = Past::cut(tokens)?;
    let parts = Parts::cut(tokens, false)?;
    let mut parsed = tokens.parse_with(|parser| parser.parse_statement())?;
    past.put(&mut parsed)?;
    without_database(&mut parsed, tokens.database());
    with::inline(&mut parsed)?;
    if let ast::Statement::Insert(ast::Insert { on: Some(OnInsert::OnConflict(clause)), .. }) = &mut parsed
        && let OnConflictAction::DoUpdate(update) = &mut clause.action
    {
        parts.put(&mut update.assignments, None)?;
    }
    adapt(&mut parsed)?;
    let ast::Statement::Insert(insert) = parsed else { return Err(SqlError::unsupported("this INSERT")) };
    let duplicate = matches!(insert.on, Some(OnInsert::DuplicateKeyUpdate(_)));
    refuse(&[
        (insert.output.is_some(), "OUTPUT"),
        (duplicate, "ON DUPLICATE KEY UPDATE"),
        (!insert.assignments.is_empty(), "INSERT … SET"),
        (insert.or.is_some() || insert.ignore || insert.replace_into, "INSERT OR …"),
        (insert.overwrite || insert.has_table_keyword, "INSERT OVERWRITE"),
        (insert.partitioned.is_some() || !insert.after_columns.is_empty(), "PARTITION in INSERT"),
        (insert.insert_alias.is_some() || insert.settings.is_some() || insert.format_clause.is_some(), "this INSERT"),
        (insert.multi_table_insert_type.is_some(), "INSERT into several tables"),
        (!matches!(insert.table, TableObject::TableName(_)), "INSERT into a function"),
    ])?;
    Ok(Statement::Insert(Box::new(insert)))
}

/// Whether all columns are returned: of every table, where there are several.
fn returns_all(items: Option<&[ast::SelectItem]>) -> bool {
    items.is_some_and(|items| items.iter().any(|item| matches!(item, ast::SelectItem::Wildcard(_))))
}

pub(crate) fn parse_update(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let past = Past::cut(tokens)?;
    let parts = Parts::cut(tokens, true)?;
    spell(tokens);
    let mut parsed = tokens.parse_with(|parser| parser.parse_statement())?;
    past.put(&mut parsed)?;
    without_database(&mut parsed, tokens.database());
    with::inline(&mut parsed)?;
    if let ast::Statement::Update(update) = &mut parsed {
        parts.put(&mut update.assignments, called(&update.table).as_ref())?;
        take_own(update.selection.as_mut(), &update.table);
    }
    adapt_locking(&mut parsed)?;
    let ast::Statement::Update(update) = parsed else { return Err(SqlError::unsupported("this UPDATE")) };
    refuse(&[
        (update.output.is_some(), "OUTPUT"),
        (update.from.is_some() && returns_all(update.returning.as_deref()), "RETURNING * of an UPDATE with FROM"),
        (update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some(), "LIMIT in UPDATE"),
        (matches!(update.from, Some(UpdateTableFromKind::BeforeSet(_))), "FROM before SET"),
        (!update.table.joins.is_empty(), "a join as the target of UPDATE"),
    ])?;
    refuse_target(&update.table)?;
    Ok(Statement::Update(Box::new(update)))
}

pub(crate) fn parse_delete(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let past = Past::cut(tokens)?;
    spell(tokens);
    let mut parsed = tokens.parse_with(|parser| parser.parse_statement())?;
    past.put(&mut parsed)?;
    without_database(&mut parsed, tokens.database());
    with::inline(&mut parsed)?;
    if let ast::Statement::Delete(delete) = &mut parsed {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        if let [table] = from.as_slice() {
            take_own(delete.selection.as_mut(), table);
        }
    }
    adapt_locking(&mut parsed)?;
    let ast::Statement::Delete(delete) = parsed else { return Err(SqlError::unsupported("this DELETE")) };
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    refuse(&[
        (delete.output.is_some(), "OUTPUT"),
        (delete.using.is_some() && returns_all(delete.returning.as_deref()), "RETURNING * of a DELETE with USING"),
        (!delete.order_by.is_empty() || delete.limit.is_some(), "LIMIT in DELETE"),
        (!delete.tables.is_empty() || from.len() != 1, "DELETE from several tables"),
        (from.iter().any(|table| !table.joins.is_empty()), "a join as the target of DELETE"),
    ])?;
    from.iter().try_for_each(refuse_target)?;
    Ok(Statement::Delete(Box::new(delete)))
}

pub(crate) fn parse_explain(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    tokens.expect_words("explain")?;
    if tokens.head() == "drop" && tokens.head_nth(1) == "database" {
        return role::parse_explain_drop(tokens);
    }
    let (mut analyze, mut verbose) = (false, false);
    // `EXPLAIN (SELECT 1)` explains a query in parentheses.
    let is_query = matches!(tokens.head_nth(1).as_str(), "select" | "values" | "with" | "table" | "");
    if tokens.peek() == Some(&Token::LParen) && !is_query {
        for (name, value) in tokens.parenthesised(explain_option)? {
            let on = !matches!(value.as_str(), "off" | "false" | "0");
            match name.as_str() {
                "analyze" => analyze = on,
                "verbose" => verbose = on,
                // What these would show is not shown, and nothing of what they would hide is.
                "costs" | "timing" | "summary" => {}
                "buffers" | "wal" | "settings" | "generic_plan" | "memory" if !on => {}
                "format" if value == "text" => {}
                _ => return Err(SqlError::unsupported(format!("EXPLAIN option {}", name.to_uppercase()))),
            }
        }
    } else {
        analyze = tokens.words("analyze") || tokens.words("analyse");
        verbose = tokens.words("verbose");
    }
    if tokens.at_end() {
        return Err(tokens.syntax_error());
    }
    let statement = parse_one(tokens)?;
    match &statement {
        Statement::Query(_) | Statement::Execute(_) => {}
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            if analyze {
                return Err(analyzed_write());
            }
        }
        _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
    }
    Ok(Statement::Explain(Explain { analyze, verbose, statement: Box::new(statement) }))
}

/// 0A000: numbers of a statement that writes.
pub fn analyzed_write() -> SqlError {
    SqlError::unsupported("EXPLAIN ANALYZE of a statement that writes")
}

fn explain_option(tokens: &mut TokenReader<'_>) -> Result<(String, String)> {
    let name = tokens.name()?;
    let value = match tokens.peek() {
        Some(Token::Comma | Token::RParen) | None => "true".to_owned(),
        Some(Token::Number(number, _)) => {
            let value = number.clone();
            tokens.advance();
            value
        }
        Some(Token::Word(_)) => tokens.name()?,
        _ => tokens.string()?.to_lowercase(),
    };
    Ok((name, value))
}

/// What the clause of an `INSERT` asks for.
///
/// # Errors
/// 0A000 for a constraint's name, 42601 for `DO UPDATE` without columns.
pub fn on_conflict(insert: &ast::Insert) -> Result<OnConflict> {
    let Some(OnInsert::OnConflict(clause)) = &insert.on else { return Ok(OnConflict::Fail) };
    let target = match &clause.conflict_target {
        None => None,
        Some(ConflictTarget::Columns(columns)) => Some(columns.iter().map(fold).collect::<Vec<_>>()),
        Some(ConflictTarget::OnConstraint(_)) => return Err(SqlError::unsupported("ON CONFLICT ON CONSTRAINT")),
    };
    match &clause.action {
        OnConflictAction::DoNothing => Ok(OnConflict::Nothing { target }),
        OnConflictAction::DoUpdate(update) => {
            let target = target.ok_or_else(|| {
                SqlError::syntax("ON CONFLICT DO UPDATE requires inference specification or constraint name")
                    .with_hint("For example, ON CONFLICT (column_name).")
            })?;
            let assignments = assignments(&update.assignments)?;
            Ok(OnConflict::Update { target, assignments, condition: update.selection.clone().map(Box::new) })
        }
    }
}

/// The columns of `SET` with their values. `DEFAULT` is NULL.
///
/// # Errors
/// 0A000 for a target of several columns, 42601 for a column twice.
pub fn assignments(assignments: &[ast::Assignment]) -> Result<Vec<(String, Expr)>> {
    let mut all: Vec<(String, Expr)> = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let ast::AssignmentTarget::ColumnName(ObjectName(parts)) = &assignment.target else {
            return Err(SqlError::unsupported("SET of several columns at once"));
        };
        let [part] = parts.as_slice() else { return Err(SqlError::unsupported("a qualified column in SET")) };
        let name = part.as_ident().map(fold).ok_or_else(|| SqlError::unsupported("this target of SET"))?;
        if all.iter().any(|(other, _)| *other == name) {
            return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")));
        }
        all.push((name, assignment.value.clone()));
    }
    Ok(all)
}

/// The name of the table that a write goes to.
///
/// # Errors
/// 3F000, 0A000.
pub fn table_name(name: &ObjectName) -> Result<RelationName> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(fold)).collect();
    match parts.as_deref() {
        Some([name]) => Ok(RelationName::bare(name.as_str())),
        Some([schema, name]) => in_schema(schema, name),
        _ => Err(SqlError::unsupported("a name of a table in another database")),
    }
}

/// The table and alias that `UPDATE` or `DELETE` goes to.
///
/// # Errors
/// 0A000 for anything but a table.
pub fn target(table: &TableWithJoins) -> Result<(RelationName, Option<Ident>)> {
    let TableFactor::Table { name, alias, args: None, .. } = &table.relation else {
        return Err(SqlError::unsupported("writing to something that is not a table"));
    };
    if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
        return Err(SqlError::unsupported("columns of an alias of a table that is written"));
    }
    Ok((table_name(name)?, alias.as_ref().map(|alias| alias.name.clone())))
}

/// The name by which a statement calls the table that it writes.
pub(crate) fn called(table: &TableWithJoins) -> Option<Ident> {
    let (name, alias) = target(table).ok()?;
    Some(alias.unwrap_or_else(|| quoted(&name)))
}

fn refuse(clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(found, _)| *found) {
        None => Ok(()),
        Some((_, what)) => Err(SqlError::unsupported(what)),
    }
}

/// Takes the name of the session's database from the names of relations.
pub(crate) fn without_database<T: VisitMut>(tree: &mut T, database: &str) {
    let _: ControlFlow<()> = ast::visit_relations_mut(tree, |name| {
        let first = name.0.first().and_then(|part| part.as_ident()).map(fold);
        if name.0.len() > 2 && first.as_deref() == Some(database) {
            name.0.remove(0);
        }
        ControlFlow::Continue(())
    });
}

/// Refuses what nobody would handle, and writes in another form what DataFusion knows in that form only.
pub(crate) fn adapt<T: Visit + VisitMut>(tree: &mut T) -> Result<()> {
    refuse_and_rewrite(tree, Refusal { locks: false })
}

/// The same of a write, whose subqueries may lock.
fn adapt_locking(parsed: &mut ast::Statement) -> Result<()> {
    refuse_and_rewrite(parsed, Refusal { locks: true })?;
    check_nested(parsed)
}

fn refuse_and_rewrite<T: Visit + VisitMut>(tree: &mut T, mut refusal: Refusal) -> Result<()> {
    if let ControlFlow::Break(error) = Visit::visit(tree, &mut refusal) {
        return Err(error);
    }
    match VisitMut::visit(tree, &mut Rewrite) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn step(result: Result<()>) -> ControlFlow<SqlError> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

struct Refusal {
    /// Whether subqueries may lock.
    locks: bool,
}

impl Visitor for Refusal {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        let writes =
            matches!(*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_));
        if !query.locks.is_empty() && !self.locks {
            return ControlFlow::Break(nested());
        }
        step(refuse(&[
            (writes, "a statement that writes inside of WITH"),
            (query.for_clause.is_some(), "FOR XML or FOR JSON"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (!query.pipe_operators.is_empty(), "a pipe operator"),
        ]))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        step(refuse(&[
            (select.into.is_some(), "SELECT INTO"),
            (select.top.is_some(), "TOP"),
            (select.prewhere.is_some(), "PREWHERE"),
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (select.value_table_mode.is_some(), "SELECT AS VALUE"),
            (select.select_modifiers.is_some(), "a modifier of SELECT"),
        ]))
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<SqlError> {
        step(match table {
            TableFactor::Table { with_hints, version, partitions, json_path, sample, index_hints, .. } => refuse(&[
                (version.as_ref().is_some_and(|of| !matches!(of, TableVersion::ForSystemTimeAsOf(_))), "AS OF"),
                (sample.is_some(), "TABLESAMPLE"),
                (!with_hints.is_empty() || !index_hints.is_empty(), "a hint"),
                (!partitions.is_empty() || json_path.is_some(), "a part of a table"),
            ]),
            TableFactor::Derived { sample, .. } => refuse(&[(sample.is_some(), "TABLESAMPLE")]),
            _ => Ok(()),
        })
    }
}

struct Rewrite;

impl VisitorMut for Rewrite {
    type Break = SqlError;

    /// `FETCH FIRST n ROWS ONLY` is `LIMIT n`.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let Some(fetch) = query.fetch.take() else { return ControlFlow::Continue(()) };
        if fetch.with_ties || fetch.percent {
            return ControlFlow::Break(SqlError::unsupported("FETCH WITH TIES or PERCENT"));
        }
        let one = || Expr::Value(ValueWithSpan { value: Value::Number("1".into(), false), span: Span::empty() });
        let count = Some(fetch.quantity.unwrap_or_else(one));
        match &mut query.limit_clause {
            None => {
                query.limit_clause = Some(LimitClause::LimitOffset { limit: count, offset: None, limit_by: vec![] })
            }
            Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => *limit = count,
            Some(_) => return ControlFlow::Break(SqlError::syntax("multiple LIMIT clauses not allowed")),
        }
        ControlFlow::Continue(())
    }
}
