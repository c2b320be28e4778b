//! `EXPLAIN`.

use crate::{
    ast::{Explain, ExplainFormat, Statement, definition::Definition},
    role,
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError, SqlState};

/// Parses `EXPLAIN`; `parse` reads the statement behind it.
pub(crate) fn parse_explain(
    tokens: &mut TokenReader<'_>,
    parse: impl FnOnce(&mut TokenReader<'_>) -> Result<Statement>,
) -> Result<Statement> {
    tokens.expect_words("explain")?;
    if tokens.head() == "drop" && tokens.head_nth(1) == "database" {
        return role::parse_explain_drop(tokens);
    }
    let (mut analyze, mut verbose, mut format) = (false, false, ExplainFormat::Text);
    // `EXPLAIN (SELECT 1)` explains a query in parentheses.
    let is_query = matches!(tokens.head_nth(1).as_str(), "select" | "values" | "with" | "table" | "");
    if tokens.peek() == Some(&Token::LParen) && !is_query {
        for (name, value) in tokens.parenthesised(explain_option)? {
            let on = !matches!(value.as_str(), "off" | "false" | "0");
            match name.as_str() {
                "analyze" => analyze = on,
                "verbose" => verbose = on,
                // They change nothing: what they would add is never reported, and so is what they would hide.
                "costs" | "timing" | "summary" => {}
                "buffers" | "wal" | "settings" | "generic_plan" | "memory" if !on => {}
                "format" => {
                    format = match value.as_str() {
                        "text" => ExplainFormat::Text,
                        "json" => ExplainFormat::Json,
                        "yaml" => ExplainFormat::Yaml,
                        "xml" => ExplainFormat::Xml,
                        _ => {
                            let message = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
                        }
                    }
                }
                _ => return Err(SqlError::unsupported(format!("EXPLAIN option {}", name.to_uppercase()))),
            }
        }
    } else {
        analyze = tokens.words("analyze") || tokens.words("analyse");
        verbose = tokens.words("verbose");
    }
    // These would parse another statement each, without end.
    if tokens.at_end() || matches!(tokens.head().as_str(), "explain" | "prepare") {
        return Err(tokens.syntax_error());
    }
    let statement = parse(tokens)?;
    match &statement {
        Statement::Query(_) | Statement::LockingQuery(_) | Statement::Execute(_) => {}
        Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => {
            if analyze {
                return Err(analyzed_write());
            }
        }
        Statement::Definition(Definition::AlterTable(_)) if analyze => return Err(analyzed_write()),
        Statement::Definition(Definition::AlterTable(alter)) => {
            return Ok(Statement::ExplainAlterTable(Box::new(alter.clone())));
        }
        _ => return Err(SqlError::unsupported("EXPLAIN of this statement")),
    }
    Ok(Statement::Explain(Explain { analyze, verbose, format, statement: Box::new(statement) }))
}

/// 0A000 for `EXPLAIN ANALYZE` of a statement that writes.
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
