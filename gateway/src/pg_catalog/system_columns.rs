//! System columns of the system's relations, which stand in no list of columns: `c.tableoid`, `c.xmin`.
//!
//! A relation's rows all have its own OID as `tableoid`, and the number of a transaction long past as `xmin`: what the
//! catalog holds is never updated in place. Names are found as SQL finds them: in the FROM of the select that they
//! stand in, then in those around it. Where an outer join has no row, they are NULL.

use crate::pg::{ident::fold, syntax::build::parsed_expr};
use crate::system_relations::{self, Relation};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Select, SelectItem, TableFactor, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// The transaction that made all rows of the catalog: PostgreSQL's `FrozenTransactionId`.
const FROZEN: u32 = 2;

/// Rewrites the system columns of a tree.
pub fn rewrite<T: VisitMut>(tree: &mut T) {
    let flow = tree.visit(&mut Hidden { scopes: Vec::new() });
    debug_assert!(flow.is_continue(), "nothing breaks off");
}

/// A name in FROM, and the relation of the system that it stands for, if it does.
type Named = (Ident, Option<&'static Relation>);

struct Hidden {
    /// The FROM of each select around, from outside in.
    scopes: Vec<Vec<Named>>,
}

impl VisitorMut for Hidden {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut names = Vec::new();
        for from in &select.from {
            add(&from.relation, &mut names);
            from.joins.iter().for_each(|join| add(&join.relation, &mut names));
        }
        self.scopes.push(names);
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let Some(new) = self.column(expr) else { continue };
            let alias = match expr {
                Expr::CompoundIdentifier(path) => path.last().cloned(),
                Expr::Identifier(name) => Some(name.clone()),
                _ => None,
            };
            if let Some(alias) = alias {
                *item = SelectItem::ExprWithAlias { expr: new, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _select: &mut Select) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(new) = self.column(expr) {
            *expr = new;
        }
        ControlFlow::Continue(())
    }
}

impl Hidden {
    /// What a system column stands for; `None` for anything else.
    fn column(&self, expr: &Expr) -> Option<Expr> {
        let (relation, column) = match expr {
            Expr::Identifier(column) => (None, column),
            Expr::CompoundIdentifier(path) => match path.as_slice() {
                [relation, column] => (Some(relation), column),
                _ => return None,
            },
            _ => return None,
        };
        let name = fold(column);
        if !matches!(name.as_str(), "tableoid" | "xmin") {
            return None;
        }
        let (shown, found) = match relation {
            Some(wanted) => {
                let mut inside_out = self.scopes.iter().rev();
                inside_out.find_map(|scope| scope.iter().find(|(shown, _)| fold(shown) == fold(wanted)))?
            }
            None => match self.scopes.last()?.as_slice() {
                [only] => only,
                _ => return None,
            },
        };
        let found = (*found)?;
        // What has a column of that name shows it.
        if found.columns.column_with_name(&name).is_some() {
            return None;
        }
        let (number, kind) = if name == "tableoid" { (found.oid, "oid") } else { (FROZEN, "xid") };
        let first = found.columns.field(0).name();
        parsed_expr(&format!("CASE WHEN {shown}.{first} IS NOT NULL THEN CAST({number} AS {kind}) END")).ok()
    }
}

fn add(factor: &TableFactor, names: &mut Vec<Named>) {
    match factor {
        TableFactor::Table { name, alias, args: None, .. } => {
            let shown = alias.as_ref().map(|alias| &alias.name).or(name.0.last().and_then(|part| part.as_ident()));
            names.extend(shown.map(|shown| (shown.clone(), relation(name))));
        }
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            add(&table_with_joins.relation, names);
            table_with_joins.joins.iter().for_each(|join| add(&join.relation, names));
        }
        TableFactor::Derived { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::Table { alias, .. } => {
            names.extend(alias.as_ref().map(|alias| (alias.name.clone(), None)));
        }
        _ => {}
    }
}

/// The relation of the system of this name.
fn relation(name: &ObjectName) -> Option<&'static Relation> {
    let path: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(fold)).collect();
    let (schema, name) = match path?.as_slice() {
        [name] => ("pg_catalog".to_owned(), name.clone()),
        [schema, name] => (schema.clone(), name.clone()),
        _ => return None,
    };
    system_relations::all().find(|relation| relation.schema == schema && relation.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::testing::parse;
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let mut statement = parse(sql);
        rewrite(&mut statement);
        expected.assert_eq(&statement.to_string());
    }

    #[test]
    fn system_columns_are_found_where_they_stand() {
        check(
            "SELECT c.tableoid FROM pg_class c",
            expect!["SELECT CASE WHEN c.oid IS NOT NULL THEN CAST(1259 AS oid) END AS tableoid FROM pg_class c"],
        );
        check(
            "SELECT xmin FROM pg_catalog.pg_index",
            expect![[
                r"SELECT CASE WHEN pg_index.indexrelid IS NOT NULL THEN CAST(2 AS xid) END AS xmin FROM pg_catalog.pg_index"
            ]],
        );
        // From around it, and not past a name that hides it.
        check(
            "SELECT 1 FROM pg_class c WHERE EXISTS (SELECT FROM flights WHERE c.xmin = 1)",
            expect![[
                r"SELECT 1 FROM pg_class c WHERE EXISTS (SELECT FROM flights WHERE CASE WHEN c.oid IS NOT NULL THEN CAST(2 AS xid) END = 1)"
            ]],
        );
        check(
            "SELECT 1 FROM pg_class c WHERE EXISTS (SELECT FROM flights c WHERE c.xmin = 1)",
            expect!["SELECT 1 FROM pg_class c WHERE EXISTS (SELECT FROM flights c WHERE c.xmin = 1)"],
        );
        // A column of that name, and a table of a user's.
        check("SELECT s.xmin FROM pg_replication_slots s", expect!["SELECT s.xmin FROM pg_replication_slots s"]);
        check("SELECT f.xmin FROM flights f", expect!["SELECT f.xmin FROM flights f"]);
    }
}
