//! Identifiers of SQL: folding to lower case, quoting.

use datafusion::sql::sqlparser::ast::Ident;

/// The name as it is looked up: in lower case unless it is quoted.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A name as an identifier of a syntax tree, always in quotes, so that nothing folds it again. For SQL text see
/// [`quote_ident`].
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A name as SQL text, in quotes only if it needs them, as PostgreSQL's `quote_ident` writes it; keywords get none. For
/// a syntax tree see [`quoted`].
pub fn quote_ident(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if plain && !name.is_empty() { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
