//! PostgreSQL's dialect for sqlparser, with a bound on the parser's work.
//!
//! sqlparser tries alternatives and goes back, so that the time of some nested texts doubles with each level:
//! `f(f(f(…)))`, `CASE` in `CASE`, `INTERVAL INTERVAL …` (sqlparser's issues 2344, 2352, 2372, 2378, 2392).
//! [`BoundedDialect`] is PostgreSQL's dialect and counts the operands that the parser begins to read, again for each
//! alternative. Beyond [`steps_max`] the parser ends with its error of nesting, which no alternative catches.
//! Everything that a client may have written is read with it: by [`parse_text`], or token by token by the statement
//! parsers.

use super::balance::balance;
use datafusion::sql::sqlparser::{
    ast::{Expr, VisitMut},
    dialect::{Dialect, PostgreSqlDialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};
use std::{
    any::{Any, TypeId},
    cell::Cell,
};

/// The deepest nesting of expressions and queries.
pub const NESTING_MAX: usize = 128;

/// Joins of a text that may stand in each other without brackets: the parser has no bound on their nesting.
const NESTED_JOINS_MAX: usize = 64;

/// Operands that a text of any length may have.
const STEPS_MIN: u64 = 20_000;
/// How often the parser may begin to read each token as an operand. A plain text needs less than one; alternatives that
/// fail at once need up to four.
const STEPS_OF_TOKEN: u64 = 16;

/// How many operands the parser may begin to read in a text of this many tokens.
fn steps_max(tokens: usize) -> u64 {
    STEPS_MIN.saturating_add(STEPS_OF_TOKEN.saturating_mul(u64::try_from(tokens).unwrap_or(u64::MAX)))
}

/// PostgreSQL's dialect; it ends a parser that takes too many steps.
#[derive(Debug)]
pub struct BoundedDialect {
    steps_left: Cell<u64>,
    /// Whether `a JOIN b JOIN c ON … ON …` is read, in which the inner join has no brackets.
    nests_joins: Cell<bool>,
}

impl BoundedDialect {
    /// For a text of this many tokens.
    pub fn new(tokens: usize) -> Self {
        Self { steps_left: Cell::new(steps_max(tokens)), nests_joins: Cell::new(false) }
    }

    /// A parser of tokens.
    pub fn parser(&self, tokens: Vec<TokenWithSpan>) -> Parser<'_> {
        let count = |keyword| {
            let is_it = |token: &&TokenWithSpan| matches!(&token.token, Token::Word(word) if word.keyword == keyword);
            tokens.iter().filter(is_it).count()
        };
        // sqlparser takes a join behind `a NATURAL JOIN b` for an inner one too, which it is not.
        self.nests_joins.set(count(Keyword::JOIN) <= NESTED_JOINS_MAX && count(Keyword::NATURAL) == 0);
        Parser::new(self).with_recursion_limit(NESTING_MAX).with_tokens_with_locations(tokens)
    }
}

/// Parses text, and balances what it has of AND and OR.
///
/// # Errors
/// sqlparser's.
pub fn parse_text<T: VisitMut>(
    sql: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<T, ParserError> {
    let dialect = BoundedDialect::new(sql.len());
    let mut parsed = parse(&mut Parser::new(&dialect).with_recursion_limit(NESTING_MAX).try_with_sql(sql)?)?;
    balance(&mut parsed);
    Ok(parsed)
}

/// Answers of [`PostgreSqlDialect`].
macro_rules! of_postgres {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> $result { PostgreSqlDialect {}.$name($($argument),*) })*
    };
}

impl Dialect for BoundedDialect {
    // The parser asks for the type where it has rules of PostgreSQL of its own.
    fn dialect(&self) -> TypeId {
        PostgreSqlDialect {}.type_id()
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        match self.steps_left.get().checked_sub(1) {
            Some(left) => self.steps_left.set(left),
            None => return Some(Err(ParserError::RecursionLimitExceeded)),
        }
        // `(VALUES (1))` and `= ANY (VALUES (1), (2))`, which sqlparser reads as calls of a function.
        let [first, second] = parser.peek_tokens_ref();
        let is_values = matches!(&first.token, Token::Word(word) if word.keyword == Keyword::VALUES);
        if !is_values || second.token != Token::LParen {
            return None;
        }
        Some(parser.parse_query().map(Expr::Subquery))
    }

    // sqlparser reads `a IS DISTINCT FROM b AND c` as `a IS DISTINCT FROM (b AND c)`.
    fn parse_infix(&self, parser: &mut Parser<'_>, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        // It reads COLLATE behind what begins an expression alone, not behind a cast.
        if parser.parse_keyword(Keyword::COLLATE) {
            let expr = Box::new(left.clone());
            return Some(parser.parse_object_name(false).map(|collation| Expr::Collate { expr, collation }));
        }
        let is_distinct = parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]);
        if !is_distinct && !parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            return None;
        }
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(Box::new);
        let left = Box::new(left.clone());
        Some(right.map(|right| match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.nests_joins.get()
    }

    // Names of arguments are identifiers here: an expression in their place is read twice at each level.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    of_postgres! {
        identifier_quote_style(identifier: &str) -> Option<char>;
        is_delimited_identifier_start(ch: char) -> bool;
        is_identifier_start(ch: char) -> bool;
        is_identifier_part(ch: char) -> bool;
        supports_unicode_string_literal() -> bool;
        is_reserved_for_identifier(kw: Keyword) -> bool;
        is_custom_operator_part(ch: char) -> bool;
        get_next_precedence(parser: &Parser<'_>) -> Option<Result<u8, ParserError>>;
        supports_filter_during_aggregation() -> bool;
        supports_group_by_expr() -> bool;
        prec_value(prec: Precedence) -> u8;
        allow_extract_custom() -> bool;
        allow_extract_single_quotes() -> bool;
        supports_create_index_with_clause() -> bool;
        supports_explain_with_utility_options() -> bool;
        supports_listen_notify() -> bool;
        supports_factorial_operator() -> bool;
        supports_bitwise_shift_operators() -> bool;
        supports_comment_on() -> bool;
        supports_load_extension() -> bool;
        supports_named_fn_args_with_colon_operator() -> bool;
        supports_empty_projections() -> bool;
        supports_nested_comments() -> bool;
        supports_string_escape_constant() -> bool;
        supports_numeric_literal_underscores() -> bool;
        supports_array_typedef_with_brackets() -> bool;
        supports_geometric_types() -> bool;
        supports_set_names() -> bool;
        supports_alter_column_type_using() -> bool;
        supports_notnull_operator() -> bool;
        supports_interval_options() -> bool;
        supports_insert_table_alias() -> bool;
        supports_create_table_like_parenthesized() -> bool;
        supports_select_wildcard_with_alias() -> bool;
        supports_comma_separated_trim() -> bool;
        supports_xml_expressions() -> bool;
        supports_comment_optimizer_hint() -> bool;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::visit_expressions_mut;
    use std::ops::ControlFlow;

    fn steps(sql: &str) -> Result<u64, ParserError> {
        let dialect = BoundedDialect::new(sql.len());
        let before = dialect.steps_left.get();
        Parser::new(&dialect).with_recursion_limit(NESTING_MAX).try_with_sql(sql)?.parse_query()?;
        Ok(before - dialect.steps_left.get())
    }

    fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
        format!("SELECT {}{inner}{}", open.repeat(levels), close.repeat(levels))
    }

    #[test]
    fn what_follows_the_right_side_of_is_distinct_from_is_not_part_of_it() {
        for (text, read) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("a IS NOT DISTINCT FROM b OR c", "(a IS NOT DISTINCT FROM b) OR c"),
            ("a = b IS DISTINCT FROM c + d AND e", "((a = b) IS DISTINCT FROM (c + d)) AND e"),
            ("NOT a IS DISTINCT FROM NULL OR c", "(NOT (a IS DISTINCT FROM NULL)) OR c"),
            ("a IS DISTINCT FROM b IS TRUE", "(a IS DISTINCT FROM b) IS TRUE"),
        ] {
            let without_brackets = |text| {
                let mut parsed = parse_text(text, |parser| parser.parse_expr()).unwrap();
                let _ = visit_expressions_mut(&mut parsed, |expr| {
                    while let Expr::Nested(inner) = expr {
                        *expr = inner.as_ref().clone();
                    }
                    ControlFlow::<()>::Continue(())
                });
                parsed
            };
            assert_eq!(without_brackets(text), without_brackets(read), "{text}");
        }
    }

    #[test]
    fn nested_calls_take_steps_by_their_number() {
        let (ten, forty) =
            (steps(&nested("abs(", "1", ")", 10)).unwrap(), steps(&nested("abs(", "1", ")", 40)).unwrap());
        assert!(forty <= 5 * ten, "{ten} {forty}");
    }

    /// Each either parses within the bound or ends with the error of nesting; without the bound most of these take
    /// hours.
    #[test]
    fn what_doubles_with_each_level_ends() {
        // With the stack that threads of the server have.
        let on_stack = std::thread::Builder::new().stack_size(8 << 20).spawn(each_text_ends);
        on_stack.unwrap().join().unwrap();
    }

    fn each_text_ends() {
        let texts = [
            nested("abs(", "1", ")", 60),
            nested("CASE ", "1", " END", 60),
            nested("CAST(", "1", " AS int)", 60),
            nested("INTERVAL ", "'1'", "", 60),
            nested("x-not-", "1", "", 60),
            nested("if(current_time(", "1", "))", 30),
            nested("(", "1", ")", 60),
            nested("ARRAY[", "1", "]", 60),
            nested("a.", "b", "", 60),
            nested("CASE WHEN a THEN ", "1", " END", 60),
            nested("NOT ", "a", "", 100),
            nested("- ", "1", "", 100),
            format!("SELECT * FROM {}t{}", "(".repeat(60), ")".repeat(60)),
            format!("SELECT * FROM {}SELECT 1{}", "(".repeat(60), ")".repeat(60)),
        ];
        for text in texts {
            let done = steps(&text);
            assert!(done.as_ref().is_ok_and(|steps| *steps < steps_max(text.len())) || done.is_err(), "{text}");
        }
    }
}
