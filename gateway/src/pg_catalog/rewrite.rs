//! Turns what DataFusion cannot plan in queries on the catalog into what it can, on the syntax tree.
//!
//! Casts to `regclass` and its kin become functions. A subquery over a relation that is always empty here is NULL, an empty array
//! or false: most of what psql asks in correlated subqueries is of that kind. The few others are known by their text.

use crate::query::rewrite::call;
use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, Ident, Query, Select, SelectItem,
        SetExpr, Statement, TableFactor, TableWithJoins, Value, ValueWithSpan, VisitMut, VisitorMut,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};
use std::{collections::HashMap, ops::ControlFlow, sync::LazyLock};

/// Relations that never have a row here.
const EMPTY: [&str; 15] = [
    "pg_auth_members",
    "pg_default_acl",
    "pg_description",
    "pg_enum",
    "pg_event_trigger",
    "pg_foreign_server",
    "pg_foreign_table",
    "pg_inherits",
    "pg_policy",
    "pg_publication",
    "pg_publication_rel",
    "pg_rewrite",
    "pg_shdescription",
    "pg_statistic_ext",
    "pg_trigger",
];

/// Expressions of psql, and what they come to: columns have no collation of their own, no privileges, no options.
const KNOWN: [(&str, &str); 4] = [
    (
        "(SELECT c.collname FROM pg_catalog.pg_collation c, pg_catalog.pg_type t \
         WHERE c.oid = a.attcollation AND t.oid = a.atttypid AND a.attcollation <> t.typcollation)",
        "NULL::name",
    ),
    ("c.reloptions || array(select 'toast.' || x from pg_catalog.unnest(tc.reloptions) x)", "c.reloptions"),
    (
        "ARRAY(SELECT attname || E':\\n  ' || pg_catalog.array_to_string(attacl, E'\\n  ') FROM pg_catalog.pg_attribute a \
         WHERE attrelid = c.oid AND NOT attisdropped AND attacl IS NOT NULL)",
        "'{}'::text[]",
    ),
    (
        "(SELECT c.relkind = 'c' FROM pg_catalog.pg_class c WHERE c.oid = t.typrelid)",
        "(t.typtype = 'c' AND t.typrelid = 0)",
    ),
];

/// Rewrites a statement.
pub fn rewrite(statement: &mut Statement) {
    let flow = statement.visit(&mut Rewriter);
    debug_assert!(flow.is_continue(), "nothing breaks off");
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.from.iter().any(never_any) {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                    let flow = VisitMut::visit(expr, &mut Unevaluated);
                    debug_assert!(flow.is_continue(), "nothing breaks off");
                }
            }
        }
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                shown_as_name(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let subquery = matches!(expr, Expr::Subquery(_) | Expr::BinaryOp { .. }) || array_query(expr).is_some();
        if subquery && let Some(known) = known().get(&expr.to_string()) {
            *expr = known.clone();
            return ControlFlow::Continue(());
        }
        match expr {
            // No function has the OID 0; its name would be a dash.
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
                if names_function(left) && right.to_string() == "0" =>
            {
                **right = parse("'-'");
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let is_oid = |side: &Expr| side.to_string().to_lowercase().ends_with("oid");
                let oids = (is_oid(left), is_oid(right));
                for (side, beside_oid) in [(left, oids.1), (right, oids.0)] {
                    if names_function(side) && beside_oid {
                        let inner = std::mem::replace(side.as_mut(), null());
                        **side = call("regproc_oid", [inner]);
                    }
                }
            }
            Expr::Subquery(query) if let Some(of) = default_of(query) => *expr = of,
            Expr::Subquery(query) if is_empty(query) => *expr = null(),
            Expr::Exists { subquery, negated } if is_empty(subquery) => {
                *expr = Expr::Value(Value::Boolean(*negated).into());
            }
            other if array_query(other).is_some_and(is_empty) => *other = empty_array(),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } = expr else {
            return ControlFlow::Continue(());
        };
        if names_function(inner) && data_type.to_string().eq_ignore_ascii_case("oid") {
            let inner = std::mem::replace(inner.as_mut(), null());
            *expr = call("regproc_oid", [inner]);
            return ControlFlow::Continue(());
        }
        let Some(kind) = reg_type(data_type) else { return ControlFlow::Continue(()) };
        let inner = std::mem::replace(inner.as_mut(), null());
        *expr = match kind {
            "regproc" | "regprocedure" => inner,
            kind if named(&inner) => call(&format!("{kind}_oid"), [inner]),
            kind => call(&format!("{kind}_text"), [inner]),
        };
        ControlFlow::Continue(())
    }
}

/// Replaces subqueries in a select list that is never evaluated.
struct Unevaluated;

impl VisitorMut for Unevaluated {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Subquery(_)) {
            *expr = null();
        } else if array_query(expr).is_some() {
            *expr = empty_array();
        }
        ControlFlow::Continue(())
    }
}

fn parse(text: &str) -> Expr {
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.expect("the texts in this file are expressions")
}

fn known() -> &'static HashMap<String, Expr> {
    static ALL: LazyLock<HashMap<String, Expr>> =
        LazyLock::new(|| KNOWN.iter().map(|(text, to)| (parse(text).to_string(), parse(to))).collect());
    &ALL
}

fn null() -> Expr {
    parse("NULL::text")
}

fn empty_array() -> Expr {
    parse("'{}'::text[]")
}

/// `SELECT pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d WHERE d.adrelid = table AND d.adnum = column …`, as psql and others ask
/// beside each column: a call with the table and the column.
fn default_of(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let ([from], [SelectItem::UnnamedExpr(Expr::Function(function))]) = (&select.from[..], &select.projection[..])
    else {
        return None;
    };
    let TableFactor::Table { name, .. } = &from.relation else { return None };
    let is = |name: &str, wanted: &str| name.rsplit('.').next().is_some_and(|last| last.eq_ignore_ascii_case(wanted));
    if !from.joins.is_empty() || !is(&name.to_string(), "pg_attrdef") || !is(&function.name.to_string(), "pg_get_expr")
    {
        return None;
    }
    let (mut table, mut column) = (None, None);
    let mut conditions = vec![select.selection.as_ref()?];
    while let Some(condition) = conditions.pop() {
        match condition {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                conditions.extend([left.as_ref(), right.as_ref()])
            }
            Expr::Nested(inner) => conditions.push(inner),
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                for (side, other) in [(left, right), (right, left)] {
                    if is(&side.to_string(), "adrelid") {
                        table = Some(other.as_ref().clone());
                    } else if is(&side.to_string(), "adnum") {
                        column = Some(other.as_ref().clone());
                    }
                }
            }
            other if is(&other.to_string(), "atthasdef") => {}
            _ => return None,
        }
    }
    Some(call("column_default_text", [table?, column?]))
}

/// The query of `ARRAY(SELECT …)`.
fn array_query(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
            if name.to_string().eq_ignore_ascii_case("array") =>
        {
            Some(query)
        }
        _ => None,
    }
}

/// Whether a query can have no row.
fn is_empty(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => select.from.iter().any(never_any) && !aggregates(select),
        _ => false,
    }
}

/// Whether a select may aggregate: it would have a row all the same.
fn aggregates(select: &Select) -> bool {
    let written = select.projection.iter().map(|item| item.to_string().to_lowercase());
    let functions = ["count(", "max(", "min(", "sum(", "avg(", "_agg(", "bool_or(", "bool_and("];
    written.into_iter().any(|item| functions.iter().any(|function| item.contains(function)))
}

/// Whether an item of FROM can have no row: its first relation is always empty, or one that is joined to it without OUTER.
fn never_any(from: &TableWithJoins) -> bool {
    use datafusion::sql::sqlparser::ast::JoinOperator as Join;
    let inner = |join: &Join| matches!(join, Join::Join(_) | Join::Inner(_) | Join::CrossJoin(_));
    let outer = |join: &Join| matches!(join, Join::RightOuter(_) | Join::Right(_) | Join::FullOuter(_));
    if from.joins.iter().any(|join| outer(&join.join_operator)) {
        return false;
    }
    always_empty(&from.relation)
        || from.joins.iter().any(|join| inner(&join.join_operator) && always_empty(&join.relation))
}

fn always_empty(relation: &TableFactor) -> bool {
    let TableFactor::Table { name, args: None, .. } = relation else { return false };
    let parts: Vec<_> =
        name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.to_lowercase()).collect();
    match parts.as_slice() {
        [schema, name] => schema == "pg_catalog" && EMPTY.contains(&name.as_str()),
        [name] => EMPTY.contains(&name.as_str()),
        _ => false,
    }
}

/// Whether an expression is a column of `pg_type` that names a function, which is text here and an OID that shows a name in PostgreSQL.
fn names_function(expr: &Expr) -> bool {
    let last = match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(idents) => idents.last(),
        _ => None,
    };
    let columns = ["typinput", "typoutput", "typreceive", "typsend"];
    last.is_some_and(|ident| columns.iter().any(|column| ident.value.eq_ignore_ascii_case(column)))
}

/// The OID type that a cast names.
fn reg_type(data_type: &DataType) -> Option<&'static str> {
    let written = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Custom(name, _) => name.to_string().to_lowercase(),
        _ => return None,
    };
    let bare = written.strip_prefix("pg_catalog.").unwrap_or(&written);
    ["regclass", "regtype", "regnamespace", "regrole", "regproc", "regprocedure"].into_iter().find(|kind| *kind == bare)
}

/// Whether a value is a name, rather than a number: a text literal, a parameter, a cast to text, or a call that gives text.
fn named(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_) | Value::Placeholder(_), .. }) => true,
        Expr::Cast { data_type: DataType::Text | DataType::Varchar(_), .. } => true,
        Expr::BinaryOp { op: datafusion::sql::sqlparser::ast::BinaryOperator::StringConcat, .. } => true,
        Expr::Nested(inner) => named(inner),
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            ["quote_ident", "pg_catalog.quote_ident", "concat", "format"].contains(&name.as_str())
        }
        _ => false,
    }
}

/// `'flights'::regclass` in a select list shows the name.
fn shown_as_name(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } = &*expr else {
        return;
    };
    let Some(kind @ ("regclass" | "regtype" | "regnamespace" | "regrole")) = reg_type(data_type) else { return };
    if named(inner) {
        let written = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
        *expr = call(&format!("{kind}_text"), [written]);
    }
}
