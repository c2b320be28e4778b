//! How deep the tree of a statement can become, told from its tokens before anything recursive sees it.
//!
//! sqlparser counts brackets, but not what it reads in loops: `1 + 1 + …`, `x::int::int…`, `a[1][1]…`, `SELECT … UNION
//! SELECT …` become trees as deep as the text is long, and words before an operand (`NOT NOT …`, `INTERVAL INTERVAL …`,
//! `ARRAY<ARRAY<…`) recurse without a bound. A stack that overflows ends the process for all tenants. So one walk over
//! the tokens bounds the depth from above, whatever the parser makes of them:
//!
//! - In a list each operator and key word may add a level, and a comma begins again: depth is that of the longest item.
//! - A bracket, or CASE, puts what is within below what is before it.
//! - Sets, joins and relations of FROM nest to the left for the whole of a query.
//! - AND and OR begin again too: [`balance`](keyspan_pg::syntax::balance) makes their chains shallow right behind the
//!   parser. They are counted on their own.
//!
//! | bound | what | error |
//! |---|---|---|
//! | [`DEPTH_MAX`] | levels of the tree | 54001 |
//! | [`LOGICAL_MAX`] | AND and OR of one chain | 54001 |
//! | [`TOKENS_MAX`] | tokens of a text | 54000 |

use crate::tokens::is_word;
use datafusion::sql::sqlparser::{
    keywords::Keyword,
    tokenizer::{Token, TokenWithSpan},
};
use keyspan_pg::error::{Result, SqlError, SqlState};

/// Levels of a tree. The stacks of the server's threads have room for some ten times as many; PostgreSQL's 2 MiB of
/// `max_stack_depth` last for a few thousand.
pub(crate) const DEPTH_MAX: usize = 1_000;
/// AND and OR in one chain.
pub(crate) const LOGICAL_MAX: usize = 100_000;
/// Tokens of a text. Each takes some 100 bytes, and some 300 more as a part of the tree.
pub(crate) const TOKENS_MAX: usize = 8_000_000;

/// Words before an operand or a type for which sqlparser calls itself without looking at the stack.
const UNGUARDED: [Keyword; 2] = [Keyword::INTERVAL, Keyword::ARRAY];
/// What such a word counts for: the frames of the parser are that much larger than those of other walks.
const UNGUARDED_LEVELS: usize = 16;

/// An open bracket, or the whole statement.
#[derive(Default)]
struct Level {
    /// Operators and key words since the last comma or clause.
    chain: usize,
    /// Sets, joins and relations, which nest until the bracket closes.
    nested: usize,
    /// BETWEEN whose AND is still to come.
    between: usize,
    /// AND and OR since the last comma or clause.
    logical: usize,
    in_from: bool,
    is_case: bool,
}

impl Level {
    /// A comma or the word of a clause: what follows stands beside what was before.
    fn next_item(&mut self) {
        (self.chain, self.between, self.logical) = (0, 0, 0);
    }
}

/// Words behind which an expression stands beside, not below, the one before them.
const CLAUSES: [&str; 14] = [
    "select",
    "where",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "values",
    "set",
    "on",
    "when",
    "then",
    "else",
    "returning",
];

/// Checks the tokens of a statement.
///
/// # Errors
/// 54001.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<usize> {
    let mut levels = vec![Level::default()];
    // The depth of all levels but the last, and the longest chain.
    let (mut below, mut longest) = (0_usize, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        let Some(level) = levels.last_mut() else { break };
        match &token.token {
            Token::Comma => {
                level.next_item();
                level.nested += usize::from(level.in_from);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                close(&mut levels, &mut below);
            }
            token if is_word(Some(token), "end") && level.is_case => close(&mut levels, &mut below),
            token => {
                let word = |words: &[&str]| words.iter().any(|word| is_word(Some(token), word));
                if word(&CLAUSES) {
                    level.next_item();
                    level.in_from = false;
                } else if word(&["from", "using"]) {
                    // `IS DISTINCT FROM` is an operator.
                    let before = at.checked_sub(1).map(|before| &tokens[before].token);
                    level.in_from |= !is_word(before, "distinct");
                    level.chain += 1;
                } else if word(&["union", "intersect", "except"]) {
                    level.next_item();
                    (level.nested, level.in_from) = (level.nested + 1, false);
                } else if word(&["join"]) {
                    level.next_item();
                    level.nested += 1;
                } else if word(&["or"]) || (word(&["and"]) && level.between == 0) {
                    let logical = level.logical + 1;
                    level.next_item();
                    level.logical = logical;
                    longest = longest.max(logical);
                } else {
                    level.between = if word(&["between"]) {
                        level.between + 1
                    } else {
                        level.between.saturating_sub(usize::from(word(&["and"])))
                    };
                    level.chain += levels_of(token);
                }
                let (depth, is_case) = (below + level.chain + level.nested, word(&["case"]));
                if depth > DEPTH_MAX || longest > LOGICAL_MAX {
                    return Err(too_complex());
                }
                if is_case || matches!(token, Token::LParen | Token::LBracket | Token::LBrace) {
                    below = depth;
                    levels.push(Level { is_case, ..Level::default() });
                }
            }
        }
    }
    Ok(longest)
}

/// The levels that a token may add: none for a name or a value.
fn levels_of(token: &Token) -> usize {
    match token {
        Token::Word(word) if word.quote_style.is_none() && UNGUARDED.contains(&word.keyword) => UNGUARDED_LEVELS,
        Token::Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword => 0,
        Token::Number(..) | Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::Placeholder(_) => 0,
        _ => 1,
    }
}

/// Closes a bracket; one that was not opened is left to the parser.
fn close(levels: &mut Vec<Level>, below: &mut usize) {
    if levels.len() > 1 {
        levels.pop();
        if let Some(level) = levels.last() {
            *below = below.saturating_sub(level.chain + level.nested);
        }
    }
}

/// 54001, as PostgreSQL says it.
pub(crate) fn too_complex() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_detail(format!("The statement is nested or chained more than {DEPTH_MAX} levels deep."))
        .with_hint("Split the expression, or use IN, VALUES or a table in place of a long chain.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Statement;

    fn state(sql: &str) -> &'static str {
        match Statement::parse(sql) {
            Ok(_) => "parsed",
            Err(error) if error.state == SqlState::STATEMENT_TOO_COMPLEX => "54001",
            Err(error) => panic!("{} {}", error.message, &sql[..sql.len().min(60)]),
        }
    }

    /// What programs send, long.
    #[test]
    fn long_lists_are_not_deep() {
        let items = |item: &str, between: &str, count: usize| vec![item; count].join(between);
        for sql in [
            format!("INSERT INTO t VALUES {}", items("(1, -2.5, 'a', now())", ", ", 20_000)),
            format!("SELECT * FROM t WHERE a IN ({})", items("1", ", ", 100_000)),
            format!("SELECT * FROM t WHERE {}", items("a = 1", " OR ", 10_000)),
            format!("SELECT * FROM t WHERE {}", items("a = 1 AND b BETWEEN 1 AND 2", " OR ", 10_000)),
            format!("UPDATE t SET a = CASE k {} ELSE a END", items("WHEN 1 THEN 2 + 2", " ", 10_000)),
            format!("SELECT {}", items("a + 1", ", ", 1_000)),
            format!("SELECT 1 {}", items("UNION ALL SELECT 1", " ", 200)),
        ] {
            assert_eq!(state(&sql), "parsed");
        }
    }

    /// What ended the process, and its kin.
    #[test]
    fn deep_texts_are_refused() {
        let n = 20_000;
        for (before, repeated, inner, after) in [
            ("", "EXPLAIN ", "SELECT 1", ""),
            ("SELECT ", "INTERVAL ", "'1'", ""),
            ("SELECT ", "NOT ", "true", ""),
            ("SELECT ", "- ", "1", ""),
            ("SELECT CAST(NULL AS ", "ARRAY< ", "int", ""),
            ("SELECT ", "(", "1", ")"),
            ("SELECT ", "ARRAY[", "1", "]"),
            ("SELECT ", "CASE ", "1", " END"),
            ("SELECT ", "abs(", "1", ")"),
            ("SELECT ", "1 + ", "1", ""),
            ("SELECT ", "'a' || ", "'a'", ""),
            ("SELECT ", "a IS DISTINCT FROM ", "a", ""),
            ("SELECT ", "a BETWEEN 1 AND 2 = ", "a", ""),
            ("", "SELECT 1 UNION ALL ", "SELECT 1", ""),
            ("SELECT * FROM ", "t, ", "t", ""),
            ("SELECT * FROM ", "t CROSS JOIN ", "t", ""),
            ("SELECT * FROM ", "(SELECT * FROM ", "t", ")"),
            ("SELECT ", "a.", "a", ""),
        ] {
            let sql = format!("{before}{}{inner}{}", repeated.repeat(n), after.repeat(n));
            assert_eq!(state(&sql), "54001", "{repeated}");
        }
        let suffixes = ["::int", "[1]", " IS NULL", " COLLATE \"C\"", " AT TIME ZONE 'UTC'", " -> 'a'", " IN (1)"];
        for suffix in suffixes {
            assert_eq!(state(&format!("SELECT a{}", suffix.repeat(n))), "54001", "{suffix}");
        }
        assert_eq!(state(&format!("SELECT {}", vec!["true"; LOGICAL_MAX + 2].join(" OR "))), "54001");
        assert_eq!(state(&format!("{}SELECT 1", "PREPARE a AS ".repeat(n))), "54001");
    }
}
