//! Identifiers of SQL: folding to lower case, quoting.

use datafusion::sql::sqlparser::ast::Ident;
use std::{collections::HashSet, sync::LazyLock};

/// PostgreSQL's keywords, each with its class: `U` for unreserved.
const KEYWORDS: &str = include_str!("keywords.txt");

/// PostgreSQL's keywords with the class that `pg_get_keywords` gives each.
pub fn keywords() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYWORDS.lines().filter_map(|line| line.split_once(' ')).filter(|(word, _)| *word != "#")
}

/// Whether a word is a keyword that is not a name everywhere.
fn is_reserved(word: &str) -> bool {
    static RESERVED: LazyLock<HashSet<&'static str>> =
        LazyLock::new(|| keywords().filter(|(_, class)| *class != "U").map(|(word, _)| word).collect());
    RESERVED.contains(word)
}

/// The name as it is looked up: in lower case unless it is quoted.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A name as an identifier of a syntax tree, always in quotes, so that nothing folds it again. For SQL text see
/// [`quote_ident`].
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A name as SQL text, in quotes only if it needs them, as PostgreSQL's `quote_ident` writes it: keywords get them
/// unless they are names everywhere. For a syntax tree see [`quoted`].
pub fn quote_ident(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if plain && !name.is_empty() && !is_reserved(name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// A name as SQL reads it: folded to lower case unless it is in quotes.
pub fn unquoted(part: &str) -> String {
    let part = part.trim();
    match part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => part.to_lowercase(),
    }
}
