//! The bounds of transactions: `BEGIN`, `COMMIT`, `ROLLBACK`, `SAVEPOINT`, `RELEASE`, and the modes of a transaction.

use crate::{
    ast::{
        Statement,
        session::{Isolation, Modes, Transaction},
    },
    tokens::TokenReader,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use keyspan_pg::error::{Result, SqlError};

pub(crate) fn parse_transaction(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let verb = tokens.head();
    tokens.advance();
    if verb == "start" {
        tokens.expect_words("transaction")?;
    } else if !tokens.words("work") {
        tokens.words("transaction");
    }
    Ok(Statement::Transaction(match verb.as_str() {
        "begin" | "start" => {
            let modes = transaction_modes(tokens, false)?;
            Transaction::Begin { modes, start: verb == "start" }
        }
        "rollback" | "abort" if tokens.words("to") => {
            if tokens.peek_nth(1).is_some() {
                tokens.expect_words("savepoint")?;
            }
            Transaction::RollbackTo(tokens.name()?)
        }
        _ if tokens.head() == "prepared" => return Err(SqlError::unsupported("a prepared transaction")),
        _ => {
            let chain = tokens.words("and chain");
            if !chain {
                tokens.words("and no chain");
            }
            if verb == "commit" || verb == "end" {
                Transaction::Commit { chain }
            } else {
                Transaction::Rollback { chain }
            }
        }
    }))
}

pub(crate) fn parse_savepoint(tokens: &mut TokenReader<'_>) -> Result<Statement> {
    let release = tokens.head() == "release";
    tokens.advance();
    // Behind RELEASE the word SAVEPOINT is optional, and may be the savepoint's name.
    if release && tokens.peek_nth(1).is_some() {
        tokens.expect_words("savepoint")?;
    }
    let name = tokens.name()?;
    Ok(Statement::Transaction(if release { Transaction::Release(name) } else { Transaction::Savepoint(name) }))
}

/// Parses `ISOLATION LEVEL …`, `READ ONLY`, `READ WRITE` and `[NOT] DEFERRABLE`, with or without commas between them;
/// 42601 without any if `required`.
pub(crate) fn transaction_modes(tokens: &mut TokenReader<'_>, required: bool) -> Result<Modes> {
    let (mut modes, mut any) = (Modes::default(), false);
    loop {
        if tokens.words("isolation level") {
            modes.isolation = Some(isolation_level(tokens)?);
        } else if tokens.words("read only") {
            modes.read_only = Some(true);
        } else if tokens.words("read write") {
            modes.read_only = Some(false);
        } else if tokens.words("deferrable") {
            modes.deferrable = Some(true);
        } else if tokens.words("not deferrable") {
            modes.deferrable = Some(false);
        } else if tokens.head() == "snapshot" {
            return Err(SqlError::unsupported("transaction mode SNAPSHOT"));
        } else {
            break;
        }
        any = true;
        if tokens.token(&Token::Comma) && tokens.at_end() {
            return Err(tokens.syntax_error());
        }
    }
    if required && !any { Err(tokens.syntax_error()) } else { Ok(modes) }
}

fn isolation_level(tokens: &mut TokenReader<'_>) -> Result<Isolation> {
    // As in PostgreSQL, READ UNCOMMITTED is READ COMMITTED.
    if tokens.words("read committed") || tokens.words("read uncommitted") {
        Ok(Isolation::ReadCommitted)
    } else if tokens.words("repeatable read") {
        Ok(Isolation::RepeatableRead)
    } else if tokens.words("serializable") {
        Err(SqlError::unsupported("ISOLATION LEVEL SERIALIZABLE")
            .with_hint("REPEATABLE READ reads one state; what a transaction writes is checked against it at COMMIT."))
    } else {
        Err(tokens.syntax_error())
    }
}
