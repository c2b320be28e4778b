//! `INTERSECT ALL` and `EXCEPT ALL`, which count how often a row occurs, out of those that do not: equal rows of each
//! side are numbered, and rows with the same numbers are compared.

use super::build::parsed_query;
use crate::{error::Result, plan::whole_rows::OCCURRENCE};
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor,
};

/// The column of the numbers: a name that no client's has.
const NUMBER: &str = "\u{1}occurrence";

/// Rewrites the set operations of a query.
///
/// # Errors
/// Internal: what was written is no query.
pub(super) fn rewrite(query: &mut Query) -> Result<()> {
    body(&mut query.body)
}

fn body(expr: &mut Box<SetExpr>) -> Result<()> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = expr.as_mut() else { return Ok(()) };
    body(left)?;
    body(right)?;
    let word = match (op, set_quantifier) {
        (SetOperator::Intersect, SetQuantifier::All) => "INTERSECT",
        (SetOperator::Except, SetQuantifier::All) => "EXCEPT",
        _ => return Ok(()),
    };
    let side = format!("SELECT *, {OCCURRENCE}() AS \"{NUMBER}\" FROM (SELECT 1) AS side");
    let mut counted = parsed_query(&format!("SELECT * FROM ({side} {word} {side}) AS counted"))?.body;
    // The sides are put there as they are: a list that leaves a column out is no SQL of PostgreSQL's to be read again.
    if let Some(both) = derived(&mut counted)
        && let SetExpr::SetOperation { left: first, right: second, .. } = both.as_mut()
        && let (Some(first), Some(second)) = (derived(first), derived(second))
    {
        std::mem::swap(first, left);
        std::mem::swap(second, right);
    }
    if let SetExpr::Select(select) = counted.as_mut()
        && let Some(SelectItem::Wildcard(options)) = select.projection.first_mut()
    {
        let first_element = Ident::with_quote('"', NUMBER);
        options.opt_except = Some(ExceptSelectItem { first_element, additional_elements: Vec::new() });
    }
    *expr = counted;
    Ok(())
}

/// What a select reads: a query in brackets.
fn derived(select: &mut SetExpr) -> Option<&mut Box<SetExpr>> {
    let SetExpr::Select(select) = select else { return None };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(&mut subquery.body),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::expect;

    #[test]
    fn rows_are_numbered() {
        let Statement::Query(mut query) = parse("SELECT a FROM t EXCEPT ALL SELECT b FROM u ORDER BY 1") else {
            panic!("no query")
        };
        super::rewrite(&mut query).unwrap();
        expect![[r#"SELECT * EXCEPT ("~occurrence") FROM (SELECT *, keyspan_occurrence() AS "~occurrence" FROM (SELECT a FROM t) AS side EXCEPT SELECT *, keyspan_occurrence() AS "~occurrence" FROM (SELECT b FROM u) AS side) AS counted ORDER BY 1"#]]
        .assert_eq(&query.to_string().replace('\u{1}', "~"));
    }
}
