//! Identifiers of SQL: folding to lower case, quoting.

use datafusion::sql::sqlparser::ast::Ident;

/// The name, folded to lower case unless quoted.
pub fn fold(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// A name in quotes.
pub fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}
