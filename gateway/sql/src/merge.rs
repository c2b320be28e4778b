//! `MERGE INTO … USING … ON … WHEN [NOT] MATCHED …`, as PostgreSQL 15 has it.

use crate::{
    adapt::{adapt, without_database},
    as_of::{AsOfClauses, refuse_target},
    ast::{
        Statement,
        merge::{Merge, MergeAction, MergeClause},
    },
    subscripts::AssignedSubscripts,
    tokens::TokenReader,
    with,
    write::called,
};
use datafusion::sql::sqlparser::{
    ast::{Expr, TableWithJoins, With, helpers::attached_token::AttachedToken},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_merge(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let as_of = AsOfClauses::cut(tokens)?;
    let subscripts = AssignedSubscripts::cut(tokens, false)?;
    let with = if tokens.head() == "with" { Some(tokens.parse_with(parse_queries)?) } else { None };
    tokens.expect_words("merge into")?;
    tokens.words("only");
    let target = tokens.parse_with(|parser| parser.parse_table_factor())?;
    let mut target = TableWithJoins { relation: target, joins: Vec::new() };
    tokens.expect_words("using")?;
    let mut source = tokens.parse_with(|parser| parser.parse_table_and_joins())?;
    tokens.expect_words("on")?;
    let mut on = tokens.parse_with(|parser| parser.parse_expr())?;
    let mut clauses = Vec::new();
    while tokens.head() == "when" {
        clauses.push(parse_clause(tokens)?);
    }
    if clauses.is_empty() {
        return Err(tokens.syntax_error());
    }
    if tokens.head() == "returning" {
        return Err(SqlError::unsupported("RETURNING of MERGE"));
    }
    for matched in [true, false] {
        let mut of_kind = clauses.iter().filter(|clause| clause.matched == matched);
        if of_kind.any(|clause| clause.condition.is_none()) && of_kind.next().is_some() {
            return Err(SqlError::syntax("unreachable WHEN clause specified after unconditional WHEN clause"));
        }
    }
    if let Some(with) = &with {
        with::into_merge((&mut source, &mut on, &mut clauses), with)?;
    }
    as_of.put(&mut source)?;
    refuse_target(&target)?;
    for table in [&mut target, &mut source] {
        without_database(table, tokens.database());
        adapt(table)?;
    }
    for clause in &mut clauses {
        if let MergeAction::Update(assignments) = &mut clause.action {
            subscripts.put(assignments, called(&target).as_ref())?;
        }
    }
    let conditions = clauses.iter_mut().flat_map(expressions);
    for expr in std::iter::once(&mut on).chain(conditions) {
        without_database(expr, tokens.database());
        adapt(expr)?;
    }
    Ok(Statement::Merge(Box::new(Merge { target, source, on, clauses })))
}

/// The queries of WITH before a MERGE.
fn parse_queries(parser: &mut Parser<'_>) -> std::result::Result<With, ParserError> {
    parser.expect_keyword(Keyword::WITH)?;
    let recursive = parser.parse_keyword(Keyword::RECURSIVE);
    let cte_tables = parser.parse_comma_separated(Parser::parse_cte)?;
    Ok(With { with_token: AttachedToken::empty(), recursive, cte_tables })
}

/// The expressions of a clause: its further condition, and the values that it writes.
pub(crate) fn expressions(clause: &mut MergeClause) -> impl Iterator<Item = &mut Expr> {
    let values: Vec<&mut Expr> = match &mut clause.action {
        MergeAction::Update(assignments) => assignments.iter_mut().map(|set| &mut set.value).collect(),
        MergeAction::Insert { values, .. } => values.iter_mut().flatten().collect(),
        MergeAction::Delete | MergeAction::Nothing => Vec::new(),
    };
    clause.condition.iter_mut().chain(values)
}

fn parse_clause(tokens: &mut TokenReader<'_>) -> Result<MergeClause> {
    tokens.expect_words("when")?;
    let matched = !tokens.words("not");
    tokens.expect_words("matched")?;
    if tokens.head() == "by" {
        return Err(SqlError::unsupported("WHEN NOT MATCHED BY"));
    }
    let condition = if tokens.words("and") { Some(tokens.parse_with(|parser| parser.parse_expr())?) } else { None };
    tokens.expect_words("then")?;
    let action = match tokens.head().as_str() {
        "do" => {
            tokens.expect_words("do nothing")?;
            MergeAction::Nothing
        }
        "delete" if matched => {
            tokens.advance();
            MergeAction::Delete
        }
        "update" if matched => {
            tokens.expect_words("update set")?;
            let sets = tokens.parse_with(|parser| parser.parse_comma_separated(|parser| parser.parse_assignment()))?;
            MergeAction::Update(sets)
        }
        "insert" if !matched => {
            tokens.advance();
            parse_insert(tokens)?
        }
        _ => return Err(tokens.syntax_error()),
    };
    Ok(MergeClause { matched, condition, action })
}

fn parse_insert(tokens: &mut TokenReader<'_>) -> Result<MergeAction> {
    let columns =
        if tokens.peek() == Some(&Token::LParen) { tokens.parenthesised(TokenReader::name)? } else { Vec::new() };
    if tokens.words("overriding") {
        return Err(SqlError::unsupported("OVERRIDING in MERGE"));
    }
    if columns.is_empty() && tokens.words("default values") {
        return Ok(MergeAction::Insert { columns, values: None });
    }
    tokens.expect_words("values")?;
    let values = tokens.parenthesised(|tokens| tokens.parse_with(|parser| parser.parse_expr()))?;
    Ok(MergeAction::Insert { columns, values: Some(values) })
}
