//! `INSERT`, `UPDATE`, `DELETE`: read by sqlparser, then checked for unsupported clauses. Also the parts of their trees
//! that the gateway asks for.

use crate::{
    adapt::{adapt, adapt_locking, refuse, without_database},
    as_of::{AsOfClauses, refuse_target},
    ast::Statement,
    locking::{normalize_nested, take_own},
    names::table_name,
    subscripts::AssignedSubscripts,
    tokens::TokenReader,
    with,
};
use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, Expr, FromTable, Ident, ObjectName, OnConflictAction, OnInsert, TableFactor, TableObject,
    TableWithJoins, UpdateTableFromKind,
};
use keyspan_pg::{
    error::{Result, SqlError, SqlState},
    ident::{fold, quoted},
    names::RelationName,
    plan::materialized::calls_volatile,
    syntax::build::parsed_expr,
};

/// The `ON CONFLICT` clause of an `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub enum OnConflict {
    /// No clause: 23505.
    Fail,
    /// `DO NOTHING`
    Nothing {
        /// `None` for any conflict.
        target: Option<Conflict>,
    },
    /// `DO UPDATE SET …`
    Update {
        /// Of which rows.
        target: Conflict,
        /// Columns with their new values.
        assignments: Vec<(String, Expr)>,
        /// `WHERE`
        condition: Option<Box<Expr>>,
    },
}

/// What rows conflict by.
#[derive(Clone, Debug, PartialEq)]
pub enum Conflict {
    /// `ON CONFLICT (a, b)`
    Columns(Vec<String>),
    /// `ON CONFLICT ON CONSTRAINT name`
    Constraint(String),
}

/// Words that begin the rows of an INSERT.
const SOURCES: [&str; 4] = ["select", "values", "with", "default"];

pub(crate) fn parse_insert(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let overrides = tokens.cut_words(&["overriding", "system", "value"], &SOURCES);
    let overridden = tokens.cut_words(&["overriding", "user", "value"], &SOURCES);
    let as_of = AsOfClauses::cut(tokens)?;
    let subscripts = AssignedSubscripts::cut(tokens, false)?;
    let mut parsed = tokens.parse_with(|parser| parser.parse_statement())?;
    as_of.put(&mut parsed)?;
    without_database(&mut parsed, tokens.database());
    with::inline(&mut parsed)?;
    if let ast::Statement::Insert(ast::Insert { on: Some(OnInsert::OnConflict(clause)), .. }) = &mut parsed
        && let OnConflictAction::DoUpdate(update) = &mut clause.action
    {
        subscripts.put(&mut update.assignments, None)?;
    }
    adapt(&mut parsed)?;
    let ast::Statement::Insert(mut insert) = parsed else { return Err(SqlError::unsupported("this INSERT")) };
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
    // sqlparser has no place for the clauses. What it reads here instead was refused above.
    insert.overwrite = overrides;
    insert.has_table_keyword = overridden;
    Ok(Statement::Insert(Box::new(insert)))
}

/// Whether an INSERT gives values to columns that are always generated: `OVERRIDING SYSTEM VALUE`.
pub fn overrides_system(insert: &ast::Insert) -> bool {
    insert.overwrite
}

/// Whether an INSERT drops what it gives to identity columns: `OVERRIDING USER VALUE`.
pub fn overrides_user(insert: &ast::Insert) -> bool {
    insert.has_table_keyword
}

pub(crate) fn parse_update(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let as_of = AsOfClauses::cut(tokens)?;
    let subscripts = AssignedSubscripts::cut(tokens, true)?;
    normalize_nested(tokens);
    let mut parsed = tokens.parse_with(|parser| parser.parse_statement())?;
    as_of.put(&mut parsed)?;
    without_database(&mut parsed, tokens.database());
    with::inline(&mut parsed)?;
    if let ast::Statement::Update(update) = &mut parsed {
        subscripts.put(&mut update.assignments, called(&update.table).as_ref())?;
        take_own(update.selection.as_mut(), &update.table);
    }
    adapt_locking(&mut parsed)?;
    let ast::Statement::Update(update) = parsed else { return Err(SqlError::unsupported("this UPDATE")) };
    refuse(&[
        (update.output.is_some(), "OUTPUT"),
        (update.or.is_some() || !update.order_by.is_empty() || update.limit.is_some(), "LIMIT in UPDATE"),
        (matches!(update.from, Some(UpdateTableFromKind::BeforeSet(_))), "FROM before SET"),
        (!update.table.joins.is_empty(), "a join as the target of UPDATE"),
    ])?;
    refuse_target(&update.table)?;
    Ok(Statement::Update(Box::new(update)))
}

/// Words before which `erase` at the end of a DELETE is a name, and no clause.
const OPERATORS: [&str; 24] = [
    "where",
    "and",
    "or",
    "not",
    "returning",
    "like",
    "ilike",
    "is",
    "in",
    "between",
    "using",
    "from",
    "as",
    "on",
    "case",
    "when",
    "then",
    "else",
    "only",
    "collate",
    "similar",
    "to",
    "by",
    "with",
];

/// `DELETE`, and `DELETE … ERASE`.
pub(crate) fn parse_delete(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let erases = tokens.cut_last_word("erase", &OPERATORS);
    let as_of = AsOfClauses::cut(tokens)?;
    normalize_nested(tokens);
    let mut parsed = tokens.parse_with(|parser| parser.parse_statement())?;
    as_of.put(&mut parsed)?;
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
        (!delete.order_by.is_empty() || delete.limit.is_some(), "LIMIT in DELETE"),
        (!delete.tables.is_empty() || from.len() != 1, "DELETE from several tables"),
        (from.iter().any(|table| !table.joins.is_empty()), "a join as the target of DELETE"),
    ])?;
    from.iter().try_for_each(refuse_target)?;
    if erases {
        refuse(&[
            (delete.returning.is_some(), "RETURNING of DELETE … ERASE"),
            (delete.using.is_some(), "USING of DELETE … ERASE"),
        ])?;
        return Ok(Statement::Erase(Box::new(delete)));
    }
    Ok(Statement::Delete(Box::new(delete)))
}

/// The `ON CONFLICT` clause of an `INSERT`.
///
/// # Errors
/// 42601 for `DO UPDATE` without columns or a constraint, and for a constraint's name of several parts.
pub fn on_conflict(insert: &ast::Insert) -> Result<OnConflict> {
    let Some(OnInsert::OnConflict(clause)) = &insert.on else { return Ok(OnConflict::Fail) };
    let target = match &clause.conflict_target {
        None => None,
        Some(ConflictTarget::Columns(columns)) => Some(Conflict::Columns(columns.iter().map(fold).collect())),
        Some(ConflictTarget::OnConstraint(ObjectName(parts))) => match parts.as_slice() {
            [only] => only.as_ident().map(|name| Conflict::Constraint(fold(name))),
            _ => return Err(SqlError::syntax("the name of a constraint has one part")),
        },
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

/// The values of `SET (a, b) = …`: of a row, or of a query's only row.
///
/// # Errors
/// 42601 for another number of values; 0A000 for something else, and for a query that might give each column another
/// row.
fn row_values(value: &Expr, columns: usize) -> Result<Vec<Expr>> {
    let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
    let values: Vec<Expr> = match value {
        Expr::Tuple(values) => values.clone(),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let ast::FunctionArguments::List(list) = &function.args else { return Err(SqlError::unsupported(message)) };
            let value = |argument: &ast::FunctionArg| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
                _ => None,
            };
            let values = list.args.iter().map(value).collect::<Option<Vec<_>>>();
            values.ok_or_else(|| SqlError::unsupported(message))?
        }
        Expr::Subquery(query) => return query_values(query, columns),
        _ => return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)),
    };
    if values.len() != columns {
        return Err(SqlError::syntax("number of columns does not match number of values"));
    }
    Ok(values)
}

/// The columns of a query as a subquery each, which find the same row.
fn query_values(query: &ast::Query, columns: usize) -> Result<Vec<Expr>> {
    let names: Vec<String> = (1..=columns).map(|at| format!("c{at}")).collect();
    let is_drawn = calls_volatile(query);
    let cut = (query.limit_clause.is_some() || query.fetch.is_some()) && query.order_by.is_none();
    if is_drawn || cut {
        return Err(SqlError::unsupported("SET of several columns to a query that may give each another row"));
    }
    let one = |name: &String| {
        // The list of items alone is taken apart, so that names of the statement's table stay in reach.
        let mut query = query.clone();
        if let ast::SetExpr::Select(select) = query.body.as_mut()
            && select.distinct.is_none()
            && query.order_by.is_none()
            && select
                .projection
                .iter()
                .all(|item| matches!(item, ast::SelectItem::UnnamedExpr(_) | ast::SelectItem::ExprWithAlias { .. }))
        {
            if select.projection.len() != columns {
                return Err(SqlError::syntax("number of columns does not match number of values"));
            }
            let at = names.iter().position(|known| known == name).unwrap_or_default();
            let item = select.projection.swap_remove(at);
            select.projection = vec![item];
            return Ok(Expr::Subquery(Box::new(query)));
        }
        parsed_expr(&format!("(SELECT {name} FROM ({query}) AS assigned ({}))", names.join(", ")))
    };
    names.iter().map(one).collect()
}

/// The columns of `SET` with their values.
///
/// # Errors
/// 0A000 for a target that is no column, 42601 for a column twice, and for another number of values than columns.
pub fn assignments(assignments: &[ast::Assignment]) -> Result<Vec<(String, Expr)>> {
    let mut all: Vec<(String, Expr)> = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let (targets, values) = match &assignment.target {
            ast::AssignmentTarget::ColumnName(name) => (std::slice::from_ref(name), vec![assignment.value.clone()]),
            ast::AssignmentTarget::Tuple(names) => (names.as_slice(), row_values(&assignment.value, names.len())?),
        };
        for (ObjectName(parts), value) in targets.iter().zip(values) {
            let [part] = parts.as_slice() else { return Err(SqlError::unsupported("a qualified column in SET")) };
            let name = part.as_ident().map(fold).ok_or_else(|| SqlError::unsupported("this target of SET"))?;
            if all.iter().any(|(other, _)| *other == name) {
                return Err(SqlError::syntax(format!("multiple assignments to same column \"{name}\"")));
            }
            all.push((name, value));
        }
    }
    Ok(all)
}

/// The target of `UPDATE` or `DELETE`: the table and its alias.
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

/// The name of a statement's target within the statement: its alias, or the table's name.
pub(crate) fn called(table: &TableWithJoins) -> Option<Ident> {
    let (name, alias) = target(table).ok()?;
    Some(alias.unwrap_or_else(|| quoted(&name)))
}
