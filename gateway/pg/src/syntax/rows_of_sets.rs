//! `(jsonb_each(d)).*` and `(jsonb_each(d)).key` in a select list: the columns of a function that returns rows, which
//! stands in FROM then, once for each of its texts. `(t).*` is `t.*`.
//!
//! sqlparser reads no `*` behind a bracket: the tokens bear [`ALL`] in its place.

use super::{
    aggregate_calls::calls,
    build::parsed_query,
    column_names::{folded, numbered},
    set_returning::{columns, gives_rows},
};
use crate::error::{Result, SqlError};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, GroupByExpr, Ident, ObjectName, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, TableWithJoins, WildcardAdditionalOptions,
};

/// What stands for `*` behind a bracket: a name that no column has.
pub const ALL: &str = "\u{1}*";

/// Functions whose rows drivers ask for by one column, which are values of their own
/// ([`set_returning`](super::set_returning)).
const VALUES: [&str; 2] = ["_pg_expandarray", "aclexplode"];

/// Rewrites the items of a select.
///
/// # Errors
/// 0A000 for rows of anything else, and beside GROUP BY or another function that returns a set, which take turns.
pub(super) fn rewrite(select: &mut Select) -> Result<()> {
    if !select.projection.iter().any(|item| asked(item).is_some()) {
        return Ok(());
    }
    let mut items = Vec::with_capacity(select.projection.len());
    let mut called: Vec<String> = Vec::new();
    for item in std::mem::take(&mut select.projection) {
        let Some((root, name)) = asked(&item) else {
            items.push(item);
            continue;
        };
        let Expr::Function(function) = root else {
            items.push(whole(root)?);
            continue;
        };
        let Some(all) = columns_of(function) else { return Err(of_no_rows()) };
        let text = function.to_string();
        let at = called.iter().position(|known| *known == text).unwrap_or(called.len());
        if at == called.len() {
            called.push(text);
        }
        let of = Ident::with_quote('"', numbered("rows", at));
        let column = |name: &str| Expr::CompoundIdentifier(vec![of.clone(), Ident::with_quote('"', name)]);
        match (&item, name) {
            (_, ALL) => {
                items.extend(all.iter().map(|(name, _)| SelectItem::UnnamedExpr(column(name))));
            }
            (SelectItem::ExprWithAlias { alias, .. }, name) => {
                items.push(SelectItem::ExprWithAlias { expr: column(name), alias: alias.clone() });
            }
            (_, name) => items.push(SelectItem::UnnamedExpr(column(name))),
        }
    }
    let others = items.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => calls(expr, gives_rows),
        _ => false,
    });
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if (others || called.len() > 1 || is_grouped) && !called.is_empty() {
        return Err(SqlError::unsupported("the columns of a function's rows beside GROUP BY or another set")
            .with_hint("SELECT … FROM the function, LATERAL where it has to."));
    }
    select.projection = items;
    for (at, call) in called.iter().enumerate() {
        select.from.push(from(call, &numbered("rows", at))?);
    }
    Ok(())
}

/// What an item asks of rows, and the column, or [`ALL`].
fn asked(item: &SelectItem) -> Option<(&Expr, &str)> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return None };
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let (Expr::Nested(inner), [AccessExpr::Dot(Expr::Identifier(name))]) = (root.as_ref(), access_chain.as_slice())
    else {
        return None;
    };
    let is_wanted = match inner.as_ref() {
        Expr::Function(function) => match columns_of(function) {
            Some(all) if name.value == ALL => !all.is_empty(),
            Some(all) => !is_value(function) && all.iter().any(|(column, _)| *column == folded(name)),
            None => name.value == ALL,
        },
        _ => name.value == ALL,
    };
    is_wanted.then_some((inner, name.value.as_str()))
}

fn name_of(function: &Function) -> String {
    function.name.0.last().and_then(|part| part.as_ident()).map(folded).unwrap_or_default()
}

fn is_value(function: &Function) -> bool {
    VALUES.contains(&name_of(function).as_str())
}

/// The columns of a function that returns rows of several.
fn columns_of(function: &Function) -> Option<&'static [(&'static str, &'static str)]> {
    columns(&name_of(function)).filter(|columns| columns.iter().all(|(name, _)| !name.is_empty()))
}

fn of_no_rows() -> SqlError {
    SqlError::unsupported("(…).* of this value").with_hint("Name the fields: (…).name.")
}

/// `t.*`
fn whole(root: &Expr) -> Result<SelectItem> {
    let parts = match root {
        Expr::Identifier(name) => vec![name.clone()],
        Expr::CompoundIdentifier(parts) => parts.clone(),
        _ => return Err(of_no_rows()),
    };
    let of = SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(parts));
    Ok(SelectItem::QualifiedWildcard(of, WildcardAdditionalOptions::default()))
}

/// A call as a relation.
fn from(call: &str, called: &str) -> Result<TableWithJoins> {
    let query = parsed_query(&format!("SELECT 1 FROM {call} AS {}", Ident::with_quote('"', called)))?;
    match *query.body {
        SetExpr::Select(mut select) if select.from.len() == 1 => Ok(select.from.remove(0)),
        _ => Err(SqlError::unsupported("the columns of this function's rows")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;
    use expect_test::{Expect, expect};

    fn rewritten(sql: &str) -> String {
        let sql = sql.replace(").*", &format!(").\"{ALL}\""));
        let Statement::Query(query) = parse(&sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select: {sql}") };
        let done = rewrite(&mut select);
        done.map_or_else(|error| error.message, |()| select.to_string()).replace('\u{1}', "~")
    }

    fn check(sql: &str, expected: Expect) {
        expected.assert_eq(&rewritten(sql));
    }

    #[test]
    fn rows_stand_in_from() {
        check(
            "SELECT a, (jsonb_each(t.d)).* FROM t WHERE b",
            expect![[r#"SELECT a, "rows~0"."key", "rows~0"."value" FROM t, jsonb_each(t.d) AS "rows~0" WHERE b"#]],
        );
        check(
            "SELECT (json_each_text(d)).key, (json_each_text(d)).value AS v FROM t",
            expect![[r#"SELECT "rows~0"."key", "rows~0"."value" AS v FROM t, json_each_text(d) AS "rows~0""#]],
        );
        check("SELECT (t).*, (s.t).* FROM t", expect!["SELECT t.*, s.t.* FROM t"]);
        check("SELECT (_pg_expandarray(a)).n FROM t", expect!["SELECT (_pg_expandarray(a)).n FROM t"]);
        check("SELECT (f(a)).b FROM t", expect!["SELECT (f(a)).b FROM t"]);
    }

    #[test]
    fn what_has_another_meaning_is_refused() {
        let beside = "the columns of a function's rows beside GROUP BY or another set is not supported";
        for sql in [
            "SELECT (jsonb_each(d)).*, unnest(a) FROM t",
            "SELECT (jsonb_each(d)).*, (jsonb_each(e)).* FROM t",
            "SELECT (jsonb_each(d)).*, count(*) FROM t GROUP BY d",
        ] {
            assert_eq!(rewritten(sql), beside);
        }
        check("SELECT (ROW(1, 2)).* FROM t", expect!["(…).* of this value is not supported"]);
    }
}
