//! `MERGE INTO … USING … ON … WHEN [NOT] MATCHED …`, as PostgreSQL 15 has it.

use super::{
    as_of::{Past, refuse_target},
    query::{adapt, called, without_database},
    statement::Statement,
    subscripts::Parts,
    tokens::Cursor,
};
use crate::pg::error::{Result, SqlError};
use datafusion::sql::sqlparser::{
    ast::{Assignment, Expr, TableWithJoins},
    tokenizer::Token,
};

/// `MERGE`
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The table that is written, with its alias.
    pub target: TableWithJoins,
    /// What it is merged with.
    pub source: TableWithJoins,
    /// When rows of the two belong together.
    pub on: Expr,
    /// What becomes of them: the first clause that fits.
    pub clauses: Vec<MergeClause>,
}

/// `WHEN [NOT] MATCHED [AND condition] THEN action`
#[derive(Clone, Debug, PartialEq)]
pub struct MergeClause {
    /// Whether it is about rows of the target that have one of the source, or about those of the source that have none.
    pub matched: bool,
    /// What has to hold besides.
    pub condition: Option<Expr>,
    /// What is done.
    pub action: MergeAction,
}

/// What is done to a row.
#[derive(Clone, Debug, PartialEq)]
pub enum MergeAction {
    /// `DO NOTHING`
    Nothing,
    /// `DELETE`
    Delete,
    /// `UPDATE SET …`
    Update(Vec<Assignment>),
    /// `INSERT (columns) VALUES (…)`
    Insert {
        /// The columns; none for all.
        columns: Vec<String>,
        /// Their values; `None` for `DEFAULT VALUES`.
        values: Option<Vec<Expr>>,
    },
}

pub(crate) fn parse_merge(cursor: &mut Cursor<'_>) -> Result<Statement> {
    let past = Past::cut(cursor)?;
    let parts = Parts::cut(cursor, false)?;
    cursor.expect_words("merge into")?;
    cursor.words("only");
    let target = cursor.parse_with(|parser| parser.parse_table_factor())?;
    let mut target = TableWithJoins { relation: target, joins: Vec::new() };
    cursor.expect_words("using")?;
    let mut source = cursor.parse_with(|parser| parser.parse_table_and_joins())?;
    cursor.expect_words("on")?;
    let mut on = cursor.parse_with(|parser| parser.parse_expr())?;
    let mut clauses = Vec::new();
    while cursor.head() == "when" {
        clauses.push(parse_clause(cursor)?);
    }
    if clauses.is_empty() {
        return Err(cursor.syntax_error());
    }
    if cursor.head() == "returning" {
        return Err(SqlError::unsupported("RETURNING of MERGE"));
    }
    for matched in [true, false] {
        let mut of_kind = clauses.iter().filter(|clause| clause.matched == matched);
        if of_kind.any(|clause| clause.condition.is_none()) && of_kind.next().is_some() {
            return Err(SqlError::syntax("unreachable WHEN clause specified after unconditional WHEN clause"));
        }
    }
    past.put(&mut source)?;
    refuse_target(&target)?;
    for table in [&mut target, &mut source] {
        without_database(table, cursor.database());
        adapt(table)?;
    }
    for clause in &mut clauses {
        if let MergeAction::Update(assignments) = &mut clause.action {
            parts.put(assignments, called(&target).as_ref())?;
        }
    }
    let conditions = clauses.iter_mut().flat_map(|clause| {
        let values: Vec<&mut Expr> = match &mut clause.action {
            MergeAction::Update(assignments) => assignments.iter_mut().map(|set| &mut set.value).collect(),
            MergeAction::Insert { values, .. } => values.iter_mut().flatten().collect(),
            MergeAction::Delete | MergeAction::Nothing => Vec::new(),
        };
        clause.condition.iter_mut().chain(values)
    });
    for expr in std::iter::once(&mut on).chain(conditions) {
        without_database(expr, cursor.database());
        adapt(expr)?;
    }
    Ok(Statement::Merge(Box::new(Merge { target, source, on, clauses })))
}

fn parse_clause(cursor: &mut Cursor<'_>) -> Result<MergeClause> {
    cursor.expect_words("when")?;
    let matched = !cursor.words("not");
    cursor.expect_words("matched")?;
    if cursor.head() == "by" {
        return Err(SqlError::unsupported("WHEN NOT MATCHED BY"));
    }
    let condition = if cursor.words("and") { Some(cursor.parse_with(|parser| parser.parse_expr())?) } else { None };
    cursor.expect_words("then")?;
    let action = match cursor.head().as_str() {
        "do" => {
            cursor.expect_words("do nothing")?;
            MergeAction::Nothing
        }
        "delete" if matched => {
            cursor.advance();
            MergeAction::Delete
        }
        "update" if matched => {
            cursor.expect_words("update set")?;
            let sets = cursor.parse_with(|parser| parser.parse_comma_separated(|parser| parser.parse_assignment()))?;
            MergeAction::Update(sets)
        }
        "insert" if !matched => {
            cursor.advance();
            parse_insert(cursor)?
        }
        _ => return Err(cursor.syntax_error()),
    };
    Ok(MergeClause { matched, condition, action })
}

fn parse_insert(cursor: &mut Cursor<'_>) -> Result<MergeAction> {
    let columns = if cursor.peek() == Some(&Token::LParen) { cursor.parenthesised(Cursor::name)? } else { Vec::new() };
    if cursor.words("overriding") {
        return Err(SqlError::unsupported("OVERRIDING in MERGE"));
    }
    if columns.is_empty() && cursor.words("default values") {
        return Ok(MergeAction::Insert { columns, values: None });
    }
    cursor.expect_words("values")?;
    let values = cursor.parenthesised(|cursor| cursor.parse_with(|parser| parser.parse_expr()))?;
    Ok(MergeAction::Insert { columns, values: Some(values) })
}
