//! Names of result columns as PostgreSQL gives them: `count`, `?column?`, the same name twice.
//!
//! DataFusion names a column after its expression and refuses a name twice in a select list. So every item gets
//! PostgreSQL's name as an alias; a name that another item has gets a suffix after [`MARK`], which [`client_schema`]
//! cuts off again.

use crate::ident::fold;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Select, SelectItem, SetExpr, TableFactor, TrimWhereField,
};
use std::{collections::BTreeSet, sync::Arc};

/// Separates a column's name from a number that makes it unique.
const MARK: char = '\u{1}';

/// The name of a column without a name.
pub(crate) const NAMELESS: &str = "?column?";

/// A schema as clients see it.
pub fn client_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match field.name().split_once(MARK) {
        Some((name, _)) => Arc::new(field.as_ref().clone().with_name(name)),
        None => field.clone(),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Gives the items of a select list their names.
pub fn label(select: &mut Select) {
    let mut taken = BTreeSet::new();
    // A wildcard may bring a column of any name.
    let wild = select
        .projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    let known = relations(select);
    for item in &mut select.projection {
        let (expr, name, bare) = match item {
            SelectItem::UnnamedExpr(expr) => match column(expr) {
                Some(name) => {
                    // DataFusion names a column of an outer query otherwise.
                    let outside = match expr {
                        Expr::CompoundIdentifier(idents) => {
                            idents.iter().rev().nth(1).is_some_and(|relation| !known.contains(&folded(relation)))
                        }
                        _ => false,
                    };
                    let bare = !outside && !super::rewrite::KEYWORDS.contains(&name.as_str());
                    (expr, name, bare)
                }
                None => {
                    let name = name_of(expr).0;
                    (expr, name, false)
                }
            },
            SelectItem::ExprWithAlias { expr, alias } => {
                let name = fold(alias);
                (expr, name, false)
            }
            _ => continue,
        };
        let fresh = taken.insert(name.clone()) && !(wild && bare);
        if bare && fresh {
            continue;
        }
        let alias = if fresh { name } else { format!("{name}{MARK}{}", taken.len()) };
        taken.insert(alias.clone());
        let placeholder = Expr::Identifier(Ident::new(""));
        let expr = std::mem::replace(expr, placeholder);
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', alias) };
    }
}

/// A name with a number, which clients see without it.
pub(crate) fn numbered(name: &str, number: usize) -> String {
    format!("{name}{MARK}{number}")
}

/// Another name, which clients see as this one.
pub fn other(name: &str) -> Ident {
    Ident::with_quote('"', format!("{name}{MARK}"))
}

/// The name as it is looked up.
pub fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The names of the relations that a select reads.
pub(super) fn relations(select: &Select) -> BTreeSet<String> {
    fn add(factor: &TableFactor, names: &mut BTreeSet<String>) {
        let (name, alias) = match factor {
            TableFactor::Table { name, alias, .. } | TableFactor::Function { name, alias, .. } => (Some(name), alias),
            TableFactor::Derived { alias, .. }
            | TableFactor::UNNEST { alias, .. }
            | TableFactor::TableFunction { alias, .. } => (None, alias),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let all = table_with_joins.joins.iter().map(|join| &join.relation);
                all.chain([&table_with_joins.relation]).for_each(|factor| add(factor, names));
                (None, alias)
            }
            _ => (None, &None),
        };
        let last = name.and_then(|name| name.0.last()).and_then(|part| part.as_ident());
        names.extend(alias.as_ref().map(|alias| &alias.name).or(last).map(folded));
    }
    let mut names = BTreeSet::new();
    for from in &select.from {
        add(&from.relation, &mut names);
        from.joins.iter().for_each(|join| add(&join.relation, &mut names));
    }
    names
}

/// The name of a plain column.
fn column(expr: &Expr) -> Option<String> {
    let ident = match expr {
        Expr::Identifier(ident) => ident,
        Expr::CompoundIdentifier(idents) => idents.last()?,
        _ => return None,
    };
    Some(folded(ident))
}

/// The name of an item, and how strongly it claims it (`FigureColname` of PostgreSQL).
fn name_of(expr: &Expr) -> (String, u8) {
    if let Some(name) = column(expr) {
        return (name, 2);
    }
    let fixed = |name: &str| (name.to_owned(), 2);
    match expr {
        Expr::CompoundFieldAccess { access_chain, .. }
            if let Some(AccessExpr::Dot(Expr::Identifier(field))) = access_chain.last() =>
        {
            (folded(field), 2)
        }
        Expr::CompoundFieldAccess { root: inner, .. } | Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => {
            name_of(inner)
        }
        Expr::Function(function) => {
            if matches!(function.args, FunctionArguments::Subquery(_)) {
                return fixed("array");
            }
            let last = function.name.0.last().and_then(|part| part.as_ident());
            if let Some(kind) = last.and_then(|ident| reg_cast(&ident.value)) {
                let inner = argument(&function.args).map(name_of).filter(|(_, strength)| *strength > 1);
                return inner.unwrap_or_else(|| (kind.to_owned(), 1));
            }
            last.map_or((NAMELESS.to_owned(), 0), |ident| (ident.value.to_lowercase(), 2))
        }
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            let (name, strength) = name_of(expr);
            if strength > 1 { (name, strength) } else { (cast_label(data_type), 1) }
        }
        Expr::TypedString(typed) => (type_label(&typed.data_type.to_string()), 1),
        Expr::Interval(_) => ("interval".to_owned(), 1),
        Expr::IsNormalized { negated: false, .. } => ("is_normalized".to_owned(), 2),
        Expr::Case { else_result, .. } => {
            let inner = else_result.as_ref().map(|inner| name_of(inner)).filter(|(_, strength)| *strength > 1);
            inner.unwrap_or_else(|| ("case".to_owned(), 1))
        }
        Expr::Subquery(query) => of_first_item(&query.body),
        Expr::Tuple(_) => fixed("row"),
        Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => fixed("overlaps"),
        Expr::Exists { negated: false, .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Position { .. } => fixed("position"),
        Expr::Substring { shorthand: true, .. } => fixed("substr"),
        Expr::Substring { .. } => fixed("substring"),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::Trim { trim_where: Some(TrimWhereField::Leading), .. } => fixed("ltrim"),
        Expr::Trim { trim_where: Some(TrimWhereField::Trailing), .. } => fixed("rtrim"),
        Expr::Trim { .. } => fixed("btrim"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        _ => (NAMELESS.to_owned(), 0),
    }
}

/// The name of a query's first column: of the first query where there are several.
fn of_first_item(body: &SetExpr) -> (String, u8) {
    match body {
        SetExpr::Select(select) => match select.projection.first() {
            Some(SelectItem::ExprWithAlias { alias, .. }) => (alias.value.clone(), 2),
            Some(SelectItem::UnnamedExpr(expr)) => name_of(expr),
            _ => (NAMELESS.to_owned(), 0),
        },
        SetExpr::Query(query) => of_first_item(&query.body),
        SetExpr::SetOperation { left, .. } => of_first_item(left),
        SetExpr::Values(_) => ("column1".to_owned(), 2),
        _ => (NAMELESS.to_owned(), 0),
    }
}

/// The type of a cast that is written as one of our functions: `regclass_text(…)`.
fn reg_cast(function: &str) -> Option<&str> {
    let kind = function.strip_suffix("_oid").or_else(|| function.strip_suffix("_text"))?;
    ["regclass", "regtype", "regnamespace", "regrole"].contains(&kind).then_some(kind)
}

/// The first argument of a call.
fn argument(arguments: &FunctionArguments) -> Option<&Expr> {
    match arguments {
        FunctionArguments::List(list) => match list.args.first()? {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        },
        _ => None,
    }
}

/// The name that PostgreSQL gives a column without a label.
pub(crate) fn label_of(expr: &Expr) -> String {
    name_of(expr).0
}

/// What an item is called; empty for what stands for several.
pub(super) fn label_of_item(item: &SelectItem) -> String {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => folded(alias),
        SelectItem::UnnamedExpr(expr) => label_of(expr),
        _ => String::new(),
    }
}

/// The name of a column that is a cast: of a type's last part, as it is if it is in quotes.
fn cast_label(data_type: &DataType) -> String {
    let last = match data_type {
        DataType::Custom(name, _) => name.0.last().and_then(|part| part.as_ident()),
        _ => None,
    };
    match last.filter(|part| part.quote_style.is_some()) {
        Some(part) => part.value.clone(),
        None => type_label(&data_type.to_string()),
    }
}

/// PostgreSQL's internal name of a type as it was written.
fn type_label(written: &str) -> String {
    let lower = written.to_lowercase();
    // An array is named after its items.
    let base = lower.split(['(', '[']).next().unwrap_or(&lower).trim();
    let base = base.strip_prefix("pg_catalog.").unwrap_or(base);
    let known = match base {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "boolean" => "bool",
        "real" => "float4",
        "double precision" | "double" | "float" => "float8",
        "decimal" => "numeric",
        "character varying" => "varchar",
        "bit varying" => "varbit",
        "char" | "character" => "bpchar",
        "timestamp without time zone" => "timestamp",
        "timestamp with time zone" => "timestamptz",
        "time without time zone" => "time",
        other => other,
    };
    known.trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::Statement;

    fn labels(sql: &str) -> Vec<String> {
        let Statement::Query(query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select: {sql}") };
        label(&mut select);
        let name = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { alias, .. } => alias.value.replace(MARK, "~"),
            SelectItem::UnnamedExpr(expr) => expr.to_string(),
            other => other.to_string(),
        };
        select.projection.iter().map(name).collect()
    }

    #[test]
    fn names_are_postgres() {
        let sql = "SELECT 1, a, t.b, count(*), a::text, '1'::int, CASE WHEN a THEN 1 END, a + 1, now(), date '2013-01-01', \
                   EXISTS (SELECT 1), (SELECT max(x) FROM t), ARRAY[1], pg_catalog.version(), c AS \"D\" FROM t";
        let expected = "?column? a t.b count a~10 int4 case ?column?~9 now date exists max array version D";
        let found = labels(sql).join(" ");
        let unnumbered = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        assert_eq!(unnumbered(&found), unnumbered(expected));
    }

    #[test]
    fn a_name_twice_is_kept_apart_inside_and_shown_alike() {
        let names = labels("SELECT a, a, lower(a), lower(b)");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 4);
        let fields = names.iter().map(|name| {
            arrow::datatypes::Field::new(name.replace('~', "\u{1}"), arrow::datatypes::DataType::Utf8, true)
        });
        let schema = client_schema(&Schema::new(fields.collect::<Vec<_>>()));
        assert_eq!(
            schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(),
            ["a", "a", "lower", "lower"]
        );
    }
}
