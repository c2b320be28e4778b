//! Turns what DataFusion cannot plan in queries on the catalog into what it can, on the syntax tree.
//!
//! Casts to `regclass` and its kin become functions, functions that give the rows of a relation become the relation.

use crate::pg::ident::fold;
use crate::pg::syntax::build::call;
use crate::pg::syntax::dialect::parse_text;
use crate::system_relations;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Ident, ObjectName, Select, SelectItem, Statement, Subscript, TableAlias, TableFactor, Value,
    ValueWithSpan, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Rewrites a statement.
pub fn rewrite(statement: &mut Statement) {
    let flow = statement.visit(&mut Rewriter);
    debug_assert!(flow.is_continue(), "nothing breaks off");
}

/// Types whose names are numbers by way of `…_oid`, and numbers names by way of `…_text`.
const REG_TYPES: [&str; 4] = ["regclass", "regtype", "regnamespace", "regrole"];

/// Functions without arguments that give the rows of a relation.
const ROWS_OF: [(&str, &str); 8] = [
    ("pg_available_extensions", "pg_available_extensions"),
    ("pg_available_extension_versions", "pg_available_extension_versions"),
    ("pg_cursor", "pg_cursors"),
    ("pg_lock_status", "pg_locks"),
    ("pg_prepared_statement", "pg_prepared_statements"),
    ("pg_show_all_settings", "pg_settings"),
    ("pg_timezone_abbrevs", "pg_timezone_abbrevs"),
    ("pg_timezone_names", "pg_timezone_names"),
];

/// `FROM pg_show_all_settings()` as `FROM pg_settings`.
fn relation_of(factor: &mut TableFactor) {
    let (name, alias) = match &*factor {
        TableFactor::Table { name, args: Some(arguments), alias, .. } if arguments.args.is_empty() => (name, alias),
        TableFactor::Function { name, args, alias, .. } if args.is_empty() => (name, alias),
        _ => return,
    };
    let path: Vec<&str> = name.0.iter().filter_map(|part| part.as_ident()).map(|ident| ident.value.as_str()).collect();
    let function = match path.as_slice() {
        [function] => *function,
        [schema, function] if schema.eq_ignore_ascii_case("pg_catalog") => *function,
        _ => return,
    };
    let Some((_, relation)) = ROWS_OF.iter().find(|(known, _)| known.eq_ignore_ascii_case(function)) else { return };
    let alias = alias.clone().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(function.to_lowercase()),
        columns: Vec::new(),
        at: None,
    });
    let name = ObjectName::from(vec![Ident::new("pg_catalog"), Ident::new(*relation)]);
    *factor = TableFactor::Table {
        name,
        alias: Some(alias),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        relation_of(factor);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                shown_as_name(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(name) = function_named(expr) {
            *expr = call("regproc_named", [name]);
            return ControlFlow::Continue(());
        }
        if let Some(character) = character_of_name(expr) {
            *expr = character;
            return ControlFlow::Continue(());
        }
        compares_type(expr);
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
        // `'t'::regclass::text`: what is in the middle is a number by now.
        if matches!(data_type, DataType::Text | DataType::Varchar(_))
            && let Expr::Function(function) = inner.as_ref()
            && let Some(kind) = function.name.to_string().strip_suffix("_oid").filter(|kind| REG_TYPES.contains(kind))
        {
            let inner = std::mem::replace(inner.as_mut(), null());
            *expr = call(&format!("{kind}_text"), [inner]);
            return ControlFlow::Continue(());
        }
        // `'{int}'::regtype[]` is an array of numbers, `oids::regtype[]` one of names.
        if reg_types(data_type).is_some() {
            let inner = std::mem::replace(inner.as_mut(), null());
            *expr = call(if named(&inner) { "regtype_oids" } else { "regtype_texts" }, [inner]);
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
    let parsed = parse_text(text, |parser| parser.parse_expr());
    parsed.expect("the texts in this file are expressions")
}

fn null() -> Expr {
    parse("NULL::text")
}

/// Whether an expression is a column that names a function, which is text here and an OID that shows a name in
/// PostgreSQL.
fn names_function(expr: &Expr) -> bool {
    let last = match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(idents) => idents.last(),
        _ => None,
    };
    last.is_some_and(|ident| system_relations::names_functions(&ident.value))
}

/// `typname[0]` as a call: PostgreSQL's names are arrays of characters, and `pg_dump` asks for their first.
fn character_of_name(expr: &Expr) -> Option<Expr> {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return None };
    let name = match root.as_ref() {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(path) => path.last()?,
        _ => return None,
    };
    let [AccessExpr::Subscript(Subscript::Index { index })] = access_chain.as_slice() else { return None };
    let at: u32 = index.to_string().parse().ok().filter(|_| name.value.eq_ignore_ascii_case("typname"))?;
    Some(call("substr", [root.as_ref().clone(), parse(&(at + 1).to_string()), parse("1")]))
}

/// `pg_typeof(x) = 'int4'::regtype`, `pg_typeof(x) IN (…)`, `oid = pg_typeof(x)`, `pg_typeof(x)::oid`: what the
/// function gives is the text of a type here, and a number that shows a name in PostgreSQL.
fn compares_type(expr: &mut Expr) {
    let is_call = |expr: &Expr| matches!(expr, Expr::Function(function) if is_named(function, "pg_typeof"));
    let is_type = |expr: &Expr| match expr {
        Expr::Cast { data_type, .. } => reg_type(data_type) == Some("regtype") || is_oid(data_type),
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }) => true,
        Expr::Identifier(name) => fold(name).ends_with("oid"),
        Expr::CompoundIdentifier(path) => path.last().is_some_and(|name| fold(name).ends_with("oid")),
        _ => false,
    };
    let numbered = |expr: &mut Expr| {
        let is_text = matches!(expr, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }));
        if is_text || is_call(expr) {
            let inner = std::mem::replace(expr, null());
            *expr = call("regtype_oid", [inner]);
        }
    };
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::NotEq, right }
            if is_call(left) && is_type(right) || is_type(left) && is_call(right) =>
        {
            numbered(left);
            numbered(right);
        }
        Expr::InList { expr: of, list, .. } if is_call(of) && list.iter().all(is_type) => {
            numbered(of);
            list.iter_mut().for_each(numbered);
        }
        Expr::Case { operand: Some(of), conditions, .. }
            if is_call(of) && conditions.iter().all(|when| is_type(&when.condition)) =>
        {
            numbered(of);
            conditions.iter_mut().for_each(|when| numbered(&mut when.condition));
        }
        Expr::Cast { expr: inner, data_type, .. } if is_oid(data_type) && is_call(inner) => numbered(inner),
        Expr::Function(function) if is_named(function, "format_type") => {
            if let FunctionArguments::List(list) = &mut function.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of))) = list.args.first_mut()
                && is_call(of)
            {
                numbered(of);
            }
        }
        _ => {}
    }
}

fn is_named(function: &Function, name: &str) -> bool {
    let written = function.name.to_string().to_lowercase();
    written.strip_prefix("pg_catalog.").unwrap_or(&written) == name
}

fn is_oid(data_type: &DataType) -> bool {
    matches!(data_type.to_string().to_lowercase().as_str(), "oid" | "pg_catalog.oid")
}

/// The name in `'version'::regproc::oid`.
fn function_named(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } = expr else {
        return None;
    };
    let Expr::Cast { expr: name, data_type: function, .. } = inner.as_ref() else { return None };
    let of_function = matches!(reg_type(function), Some("regproc" | "regprocedure")) && named(name);
    (of_function && is_oid(data_type)).then(|| name.as_ref().clone())
}

/// The OID type that a cast names.
fn reg_type(data_type: &DataType) -> Option<&'static str> {
    let written = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        // With quotes around it or without.
        DataType::Custom(name, _) => {
            name.0.iter().map(|part| part.as_ident().map(fold)).collect::<Option<Vec<_>>>()?.join(".")
        }
        _ => return None,
    };
    let bare = written.strip_prefix("pg_catalog.").unwrap_or(&written);
    ["regclass", "regtype", "regnamespace", "regrole", "regproc", "regprocedure"].into_iter().find(|kind| *kind == bare)
}

/// The OID type of whose array a cast names.
fn reg_types(data_type: &DataType) -> Option<&'static str> {
    let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type else { return None };
    reg_type(item).filter(|kind| *kind == "regtype")
}

/// Whether a value is a name, rather than a number: a text literal, a parameter, a cast to text, or a call that gives
/// text.
fn named(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_) | Value::Placeholder(_), .. }) => true,
        Expr::Cast { data_type: DataType::Text | DataType::Varchar(_), .. } => true,
        Expr::BinaryOp { op: datafusion::sql::sqlparser::ast::BinaryOperator::StringConcat, .. } => true,
        Expr::Nested(inner) => named(inner),
        Expr::Function(function) => {
            let name = function.name.to_string().to_lowercase();
            let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
            ["quote_ident", "concat", "format", "pg_typeof"].contains(&name)
        }
        _ => false,
    }
}

/// `'flights'::regclass` in a select list shows the name.
fn shown_as_name(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } = &*expr else {
        return;
    };
    if reg_types(data_type).is_some() && named(inner) {
        let written = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
        *expr = call("regtype_texts", [written]);
        return;
    }
    let Some(kind @ ("regclass" | "regtype" | "regnamespace" | "regrole")) = reg_type(data_type) else { return };
    if named(inner) {
        let written = std::mem::replace(expr, Expr::Identifier(Ident::new("")));
        *expr = call(&format!("{kind}_text"), [written]);
    }
}
