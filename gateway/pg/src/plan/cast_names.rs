//! Casts of one value to several types in one SELECT: `max(x), max(x::text)`, `GROUP BY t::date, t::text`.
//!
//! DataFusion names a column after its expression, and leaves casts out of the name: the two above have one name twice,
//! which it refuses. So, in a SELECT that groups, aggregates or has windows, casts of a value that also stands there
//! without them, or with others, are [marked](mark) in the syntax tree by a call that has the type in its name, and
//! that the optimizer replaces by its argument, under the same name.

use crate::syntax::{
    build,
    calls::{NEGATIVE, POSITIVE},
};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
    sql::sqlparser::ast::{
        self, BinaryOperator, Expr as Tree, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
        ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, Value, Visit, VisitMut, Visitor, VisitorMut,
    },
};
use std::{
    collections::{HashMap, HashSet},
    mem::{Discriminant, discriminant},
    ops::ControlFlow,
    sync::Arc,
};

/// The call that marks a cast.
const MARK: &str = "keyspan_cast_named";

/// Marks the casts of a statement that would have the name of something else.
pub fn mark(statement: &mut ast::Statement) {
    let _: ControlFlow<()> = statement.visit(&mut Queries);
}

/// The function that the mark calls.
pub fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Named(Signature::new(TypeSignature::Any(2), Volatility::Immutable))))
}

/// Gives its first argument; the second one is for the name.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Named(Signature);

impl ScalarUDFImpl for Named {
    fn name(&self) -> &str {
        MARK
    }
    fn signature(&self) -> &Signature {
        &self.0
    }
    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(arguments.arg_fields[0].clone())
    }
    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(arguments.args.swap_remove(0))
    }
    fn simplify(&self, mut arguments: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(arguments.swap_remove(0)))
    }
}

/// Marks each SELECT by itself, with the ORDER BY of its query.
struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Query { body, order_by, .. } = query;
        let mut ordered: Vec<&mut Tree> = match order_by.as_mut().map(|order_by| &mut order_by.kind) {
            Some(OrderByKind::Expressions(order)) => order.iter_mut().map(|order| &mut order.expr).collect(),
            _ => Vec::new(),
        };
        mark_body(body, &mut ordered);
        ControlFlow::Continue(())
    }
}

/// A query of a UNION that has brackets is one by itself.
fn mark_body(body: &mut SetExpr, ordered: &mut [&mut Tree]) {
    match body {
        SetExpr::Select(select) => mark_select(select, ordered),
        SetExpr::SetOperation { left, right, .. } => {
            mark_body(left, &mut []);
            mark_body(right, &mut []);
        }
        _ => {}
    }
}

/// The expressions of a SELECT that become columns of a plan, or are told apart by their names.
fn parts<'a>(select: &'a mut Select, ordered: &'a mut [&mut Tree]) -> impl Iterator<Item = &'a mut Tree> {
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let groups = match &mut select.group_by {
        ast::GroupByExpr::Expressions(groups, _) => groups.as_mut_slice(),
        ast::GroupByExpr::All(_) => &mut [],
    };
    let distinct = match &mut select.distinct {
        Some(ast::Distinct::On(exprs)) => exprs.as_mut_slice(),
        _ => &mut [],
    };
    let ordered = ordered.iter_mut().map(|expr| &mut **expr);
    items.chain(groups).chain(distinct).chain(select.having.as_mut()).chain(ordered)
}

fn mark_select(select: &mut Select, ordered: &mut [&mut Tree]) {
    // Which kinds of expressions are cast, and whether there are calls beside.
    let (mut kinds, mut calls) = (HashSet::new(), false);
    for expr in parts(select, ordered) {
        each_of(expr, |expr| match expr {
            Tree::Cast { .. } => {
                let value = chain_of(expr).1;
                kinds.extend(is_told(value).then(|| discriminant(value)));
            }
            Tree::Function(_) => calls = true,
            _ => {}
        });
    }
    // Where nothing is grouped, only the names of items have to differ, and they do.
    let is_grouped = matches!(&select.group_by, ast::GroupByExpr::Expressions(groups, _) if !groups.is_empty());
    if kinds.is_empty() || !(is_grouped || calls) {
        return;
    }
    let mut several = HashMap::new();
    for expr in parts(select, ordered) {
        add_forms(expr, &kinds, &mut several);
    }
    several.retain(|_, forms: &mut HashSet<String>| forms.len() > 1);
    for expr in parts(select, ordered) {
        let _: ControlFlow<()> = expr.visit(&mut Marks { several: &several, nested: 0 });
    }
}

/// Adds the forms in which values stand in an expression: the types that each is cast to, one after the other; none for
/// the value itself.
fn add_forms(expr: &Tree, kinds: &HashSet<Discriminant<Tree>>, forms: &mut HashMap<String, HashSet<String>>) {
    // How much of a chain of casts is still to be met, with its value.
    let mut chain = 0;
    each_of(expr, |expr| {
        if within(expr).is_some() {
            return;
        }
        if chain > 0 {
            chain -= 1;
            return;
        }
        let (types, value) = chain_of(expr);
        chain = types.len();
        if kinds.contains(&discriminant(value)) && is_told(value) {
            forms.entry(name_of(value)).or_default().insert(types.join("::"));
        }
    });
}

/// Visits an expression and its parts, the outer ones first, without those of queries in it.
fn each_of(expr: &Tree, each: impl FnMut(&Tree)) {
    struct Outside<F> {
        nested: usize,
        each: F,
    }

    impl<F: FnMut(&Tree)> Visitor for Outside<F> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.nested += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.nested -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Tree) -> ControlFlow<()> {
            if self.nested == 0 {
                (self.each)(expr);
            }
            ControlFlow::Continue(())
        }
    }

    let _: ControlFlow<()> = expr.visit(&mut Outside { nested: 0, each });
}

/// Marks the casts of values that stand in several forms, each cast of a chain by itself: `GROUP BY t::date` is found
/// in `t::date::text`.
struct Marks<'a> {
    several: &'a HashMap<String, HashSet<String>>,
    nested: usize,
}

impl VisitorMut for Marks<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.nested += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.nested -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Tree) -> ControlFlow<()> {
        if self.nested > 0 || !matches!(expr, Tree::Cast { .. }) {
            return ControlFlow::Continue(());
        }
        let (types, value) = chain_of(expr);
        if is_told(value) && self.several.contains_key(&name_of(value)) {
            let name = Tree::Value(Value::SingleQuotedString(types.join("::")).into());
            let cast = std::mem::replace(expr, Tree::Identifier(Ident::new("")));
            *expr = build::call(MARK, [cast, name]);
        }
        ControlFlow::Continue(())
    }
}

/// The types of casts, the outermost first, and what they cast.
fn chain_of(mut expr: &Tree) -> (Vec<String>, &Tree) {
    let mut types = Vec::new();
    loop {
        match expr {
            Tree::Cast { expr: inner, data_type, .. } => {
                types.push(data_type.to_string());
                expr = inner;
            }
            value => match within(value).or_else(|| marked(value)) {
                Some(inner) => expr = inner,
                None => return (types, value),
            },
        }
    }
}

/// The cast of a mark.
fn marked(expr: &Tree) -> Option<&Tree> {
    let Tree::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else { return None };
    match (name.0.as_slice(), list.args.as_slice()) {
        ([ObjectNamePart::Identifier(name)], [FunctionArg::Unnamed(FunctionArgExpr::Expr(cast)), _])
            if name.value == MARK =>
        {
            Some(cast)
        }
        _ => None,
    }
}

/// What stands in brackets, or behind a plus: names have neither.
fn within(expr: &Tree) -> Option<&Tree> {
    match expr {
        Tree::Nested(inner) => Some(inner),
        Tree::BinaryOp { left, op: BinaryOperator::Custom(sign), .. } if sign == POSITIVE => Some(left),
        _ => None,
    }
}

/// Whether a value is told from others: not a parameter or a quoted text, whose type its cast is.
fn is_told(value: &Tree) -> bool {
    let plain = |value: &Value| matches!(value, Value::Number(..) | Value::Boolean(_) | Value::Null);
    !matches!(value, Tree::Value(value) if !plain(&value.value))
}

/// A value as names have it: without relations, which may be left out.
fn name_of(value: &Tree) -> String {
    match value {
        Tree::CompoundIdentifier(idents) => idents.last().map(|ident| ident.value.to_lowercase()).unwrap_or_default(),
        Tree::Identifier(ident) => ident.value.to_lowercase(),
        Tree::BinaryOp { left, op: BinaryOperator::Custom(sign), .. } if sign == NEGATIVE => {
            format!("-{}", name_of(left))
        }
        other => within(other).map_or_else(|| other.to_string(), name_of),
    }
}
