//! `(jsonb_each(d)).*` and `(jsonb_each(d)).key` in a select list: the columns of a function that returns rows, which
//! stands in FROM then, however often it is named. `(t).*` is `t.*`. So it is when a text was read, before views keep
//! it: what they show can be said to PostgreSQL.
//!
//! sqlparser reads no `*` behind a bracket: the tokens bear [`ALL`] in its place.

use super::{
    aggregate_calls::calls,
    build::parsed_query,
    column_names::{folded, relations},
    set_returning::{self, gives_rows},
    using_columns::name_of as name_of_relation,
};
use crate::{
    error::{Result, SqlError, SqlState},
    ident::quoted,
};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableWithJoins, WildcardAdditionalOptions,
};

/// What stands for `*` behind a bracket: a name that no column has.
pub const ALL: &str = "\u{1}*";

/// Functions whose rows drivers ask for by one column, which are values of their own
/// ([`set_returning`]).
const VALUES: [&str; 2] = ["_pg_expandarray", "aclexplode"];

/// Rewrites the items of a select.
///
/// # Errors
/// 0A000 for rows of anything else, and beside GROUP BY or another function that returns a set, which take turns.
pub fn rewrite(select: &mut Select) -> Result<()> {
    if !select.projection.iter().any(|item| asked(item).is_some()) {
        return Ok(());
    }
    let taken = relations(select);
    let mut items = Vec::with_capacity(select.projection.len());
    // What is called, and by which name it stands in FROM.
    let mut called: Option<(String, Ident)> = None;
    let (mut others, mut columns) = (false, Vec::new());
    for item in std::mem::take(&mut select.projection) {
        let Some((root, name)) = asked(&item) else {
            match item {
                // The function is none of what stood in FROM.
                SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                    items.extend(all_before(select)?);
                }
                item => items.push(item),
            }
            continue;
        };
        let Expr::Function(function) = root else {
            items.push(whole(root)?);
            continue;
        };
        let Some(all) = columns_of(function) else { return Err(of_no_rows()) };
        let text = function.to_string();
        let of = match &called {
            Some((known, name)) => {
                others |= *known != text;
                name.clone()
            }
            None => {
                let own = name_of(function);
                let free = (1..).map(|number| format!("{own}_{number}"));
                let name = [own.clone()].into_iter().chain(free).find(|name| !taken.contains(name)).unwrap_or(own);
                let name = quoted(&name);
                columns = all.iter().map(|(column, _)| column_name(&name, column).to_string()).collect();
                called = Some((text, name.clone()));
                name
            }
        };
        let column = |name: &str, alias: Ident| {
            let expr = Expr::CompoundIdentifier(vec![of.clone(), column_name(&of, name)]);
            SelectItem::ExprWithAlias { expr, alias }
        };
        match (&item, name) {
            (_, ALL) => items.extend(all.iter().map(|(name, _)| column(name, quoted(name)))),
            (SelectItem::ExprWithAlias { alias, .. }, name) => items.push(column(name, alias.clone())),
            (_, name) => items.push(column(name, quoted(name))),
        }
    }
    others |= items.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => calls(expr, gives_rows),
        _ => false,
    });
    select.projection = items;
    let Some((call, name)) = called else { return Ok(()) };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    if others || is_grouped {
        return Err(SqlError::unsupported("the columns of a function's rows beside GROUP BY or another set")
            .with_hint("SELECT … FROM the function, LATERAL where it has to."));
    }
    select.from.push(from(&call, &name, &columns)?);
    Ok(())
}

/// `*` of the relations that a select names.
///
/// # Errors
/// 0A000 for joins that merge columns, and within brackets.
fn all_before(select: &Select) -> Result<Vec<SelectItem>> {
    let refused = || {
        SqlError::unsupported("* of these joins beside the columns of a function's rows").with_hint("Name the columns.")
    };
    let mut all = Vec::new();
    for from in &select.from {
        if from.joins.iter().any(merges) {
            return Err(refused());
        }
        for relation in [&from.relation].into_iter().chain(from.joins.iter().map(|join| &join.relation)) {
            let name = name_of_relation(relation).ok_or_else(refused)?;
            all.push(whole(&Expr::Identifier(name))?);
        }
    }
    Ok(all)
}

/// Whether a join makes one column of two.
fn merges(join: &Join) -> bool {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    matches!(
        &join.join_operator,
        Join(by) | Inner(by) | Left(by) | LeftOuter(by) | Right(by) | RightOuter(by) | FullOuter(by)
            if matches!(by, JoinConstraint::Using(_) | JoinConstraint::Natural)
    )
}

/// The name of a column of the function in FROM, which no other relation's hides.
fn column_name(function: &Ident, column: &str) -> Ident {
    quoted(&format!("{}_{column}", function.value))
}

/// Refuses [`ALL`] anywhere else.
///
/// # Errors
/// 0A000, as PostgreSQL says it.
pub fn refuse(expr: &Expr) -> Result<()> {
    let is_all = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Identifier(name)) if name.value == ALL);
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. } if access_chain.iter().any(is_all) => {
            Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "row expansion via \"*\" is not supported here"))
        }
        _ => Ok(()),
    }
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
    set_returning::columns(&name_of(function)).filter(|columns| columns.iter().all(|(name, _)| !name.is_empty()))
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
fn from(call: &str, called: &Ident, columns: &[String]) -> Result<TableWithJoins> {
    let query = parsed_query(&format!("SELECT 1 FROM {call} AS {called} ({})", columns.join(", ")))?;
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
            expect![[
                r#"SELECT a, "jsonb_each"."jsonb_each_key" AS "key", "jsonb_each"."jsonb_each_value" AS "value" FROM t, jsonb_each(t.d) AS "jsonb_each" ("jsonb_each_key", "jsonb_each_value") WHERE b"#
            ]],
        );
        check(
            "SELECT *, (json_each_text(d)).key, (json_each_text(d)).value AS v FROM t x JOIN s.json_each_text ON true",
            expect![[
                r#"SELECT x.*, json_each_text.*, "json_each_text_1"."json_each_text_1_key" AS "key", "json_each_text_1"."json_each_text_1_value" AS v FROM t x JOIN s.json_each_text ON true, json_each_text(d) AS "json_each_text_1" ("json_each_text_1_key", "json_each_text_1_value")"#
            ]],
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
        check(
            "SELECT *, (jsonb_each(d)).* FROM t JOIN u USING (a)",
            expect!["* of these joins beside the columns of a function's rows is not supported"],
        );
        check("SELECT (ROW(1, 2)).* FROM t", expect!["(…).* of this value is not supported"]);
    }
}
