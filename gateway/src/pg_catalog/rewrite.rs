//! Turns what DataFusion cannot plan in queries on the catalog into what it can, on the syntax tree.
//!
//! Casts to `regclass` and its kin become functions.

use crate::query::rewrite::call;
use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, CastKind, DataType, Expr, Ident, Select, SelectItem, Statement, Value, ValueWithSpan, VisitMut,
        VisitorMut,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};
use std::ops::ControlFlow;

/// Rewrites a statement.
pub fn rewrite(statement: &mut Statement) {
    let flow = statement.visit(&mut Rewriter);
    debug_assert!(flow.is_continue(), "nothing breaks off");
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                shown_as_name(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
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

fn parse(text: &str) -> Expr {
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    parsed.expect("the texts in this file are expressions")
}

fn null() -> Expr {
    parse("NULL::text")
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
