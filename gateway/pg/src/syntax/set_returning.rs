//! Functions that return sets, in FROM and in a select list: `unnest`, `generate_series`, `jsonb_array_elements` and
//! their kin.
//!
//! DataFusion unnests lists. So for each column of such a function another function returns its values as a list
//! ([`columns`]), and a call becomes `unnest(list)`: in FROM as a subquery that may name relations before it (LATERAL),
//! with WITH ORDINALITY as one more list, of positions. [`lateral`](crate::plan::lateral) then turns a join with such a
//! subquery into the unnesting of the join's left side. A series of whole numbers that are literals stays DataFusion's
//! own function, which holds no list.

use super::{
    build::{parsed_expr, parsed_query},
    column_names::numbered,
    documents::{self, document_of, read_as},
    walk::finish,
};
use crate::{
    error::{Result, SqlError, SqlState},
    functions::json::record::CHARACTER,
};
use datafusion::sql::sqlparser::ast::{
    CharacterLength, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Query, Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator, Value, Visit, VisitMut,
    Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// The columns of a function that returns a set: each name, and the function that returns its values as a list. An
/// empty name stands for the function's own.
pub(super) fn columns(function: &str) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match function {
        "generate_series" => &[("", "series_list")],
        "generate_subscripts" => &[("", "subscripts_list")],
        "_pg_expandarray" => &[("x", "expanded_items"), ("n", "expanded_places")],
        "json_array_elements" | "jsonb_array_elements" => &[("value", "json_array_items")],
        "json_array_elements_text" | "jsonb_array_elements_text" => &[("value", "json_array_texts")],
        "json_each" | "jsonb_each" => &[("key", "json_member_keys"), ("value", "json_member_values")],
        "json_each_text" | "jsonb_each_text" => &[("key", "json_member_keys"), ("value", "json_member_texts")],
        "json_object_keys" | "jsonb_object_keys" => &[("", "json_member_keys")],
        "pg_get_keywords" => {
            &[("word", "keyword_words"), ("catcode", "keyword_classes"), ("catdesc", "keyword_descriptions")]
        }
        "pg_options_to_table" => &[("option_name", "option_names"), ("option_value", "option_values")],
        "pg_listening_channels" => &[("", "listening_channels")],
        "jsonb_path_query" | "jsonb_path_query_tz" => &[("", "jsonb_path_items")],
        "regexp_split_to_table" => &[("", "regexp_split_to_array")],
        "regexp_matches" => &[("", "regexp_matches_list")],
        "aclexplode" => &[
            ("grantor", "acl_grantors"),
            ("grantee", "acl_grantees"),
            ("privilege_type", "acl_privileges"),
            ("is_grantable", "acl_grantables"),
        ],
        "string_to_table" => &[("", "string_to_array")],
        _ => return None,
    })
}

/// Functions of JSON whose columns, with their types, stand in the alias: `AS x(a integer, b text)`.
const RECORDS: [&str; 4] = ["json_to_record", "jsonb_to_record", "json_to_recordset", "jsonb_to_recordset"];

/// Whether a function returns a set.
pub fn gives_rows(function: &str) -> bool {
    function == "unnest" || RECORDS.contains(&function) || columns(function).is_some()
}

/// A column of a record.
struct RecordColumn {
    name: String,
    /// The function that returns its values as a list.
    list: &'static str,
    /// The type and the length that its texts must not exceed: a cast would cut them.
    bound: Option<(&'static str, u64)>,
    data_type: DataType,
}

/// The columns of a record; 42601 where they are not all in the alias. The types are taken out of the alias, which then
/// only names.
fn record_columns(alias: Option<&mut TableAlias>) -> Result<Vec<RecordColumn>> {
    let missing = "a column definition list is required for functions returning \"record\"";
    let missing = || SqlError::new(SqlState::SYNTAX_ERROR, missing);
    let columns = alias.map(|alias| alias.columns.as_mut_slice()).filter(|columns| !columns.is_empty());
    let column = |column: &mut TableAliasColumnDef| {
        let data_type = column.data_type.take().ok_or_else(missing)?;
        let list = match &data_type {
            DataType::JSON | DataType::JSONB => "json_record_values",
            DataType::Array(_) => "json_record_arrays",
            _ => "json_record_texts",
        };
        let name = column.name.value.clone();
        Ok(RecordColumn { name, list, bound: length_bound(&data_type), data_type })
    };
    columns.ok_or_else(missing)?.iter_mut().map(column).collect()
}

fn length_bound(data_type: &DataType) -> Option<(&'static str, u64)> {
    match data_type {
        DataType::Char(None) | DataType::Character(None) => Some((CHARACTER, 1)),
        DataType::Char(Some(CharacterLength::IntegerLength { length, .. }))
        | DataType::Character(Some(CharacterLength::IntegerLength { length, .. })) => Some((CHARACTER, *length)),
        DataType::Varchar(Some(CharacterLength::IntegerLength { length, .. }))
        | DataType::CharacterVarying(Some(CharacterLength::IntegerLength { length, .. }))
        | DataType::CharVarying(Some(CharacterLength::IntegerLength { length, .. })) => Some(("varying", *length)),
        _ => None,
    }
}

/// Functions that give relations, which the planner knows: those of the gateway, and those whose names begin with
/// `keyspan_`.
const RELATIONS: [&str; 3] = ["cells", "raw", "range"];

/// What stands without parentheses and is a function, in FROM too.
const KEYWORDS: [&str; 9] = [
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_timestamp",
    "current_user",
    "localtimestamp",
    "session_user",
    "user",
];

/// Whether a function in FROM gives one value, as one row: any that gives no set.
fn gives_value(function: &str) -> bool {
    !gives_rows(function) && !RELATIONS.contains(&function) && !function.starts_with("keyspan_")
}

/// The keyword that an item of FROM is, if it is a function without parentheses.
fn keyword(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    let ident = part.as_ident().filter(|ident| ident.quote_style.is_none())?;
    let lower = ident.value.to_lowercase();
    KEYWORDS.contains(&lower.as_str()).then_some(lower)
}

fn name_of(name: &ObjectName) -> String {
    name.0.last().and_then(|part| part.as_ident()).map(|ident| ident.value.to_lowercase()).unwrap_or_default()
}

/// The arguments of a call, when they are plain expressions.
fn plain(arguments: &[FunctionArg]) -> Option<Vec<&Expr>> {
    let expr = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Some(expr),
        _ => None,
    };
    arguments.iter().map(expr).collect()
}

/// Rewrites a select: its items and what it selects from.
///
/// # Errors
/// 0A000 for a function of several columns in a select list.
pub fn rewrite(select: &mut Select) -> Result<()> {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            finish(VisitMut::visit(expr, &mut Items { depth: 0 }))?;
        }
    }
    let whole = select.clone();
    let value = |name: &str| is_value(&whole, name);
    let mut first = true;
    for from in &mut select.from {
        table(&mut from.relation, first, &value)?;
        first = false;
        for join in &mut from.joins {
            table(&mut join.relation, false, &value)?;
        }
    }
    Ok(())
}

/// Calls in a select list, but not in its subqueries, which have lists of their own.
struct Items {
    depth: usize,
}

impl VisitorMut for Items {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Box<SqlError>> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Box<SqlError>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<SqlError>> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        if let Expr::Function(function) = expr {
            documents::typed(function);
        }
        match item(expr) {
            Ok(None) => {}
            Ok(Some(new)) => *expr = new,
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

fn item(expr: &Expr) -> Result<Option<Expr>> {
    match expr {
        Expr::Function(function) if function.over.is_none() => {
            let Function { name, args: FunctionArguments::List(list), .. } = function else { return Ok(None) };
            let Some(columns) = columns(&name_of(name)) else { return Ok(None) };
            let columns = match name_of(name).as_str() {
                // As a row, whose columns drivers then name: `(information_schema._pg_expandarray(i.indkey)).n`.
                "_pg_expandarray" => &[("", "expanded_rows")],
                "aclexplode" => &[("", "acl_rows")],
                _ => columns,
            };
            let [(_, lists)] = columns else {
                return Err(SqlError::unsupported(format!("{name} in a select list"))
                    .with_hint(format!("Say SELECT … FROM {name}(…).")));
            };
            let Some(arguments) = plain(&list.args) else { return Ok(None) };
            let unnested = format!("unnest({lists}({}))", written(&arguments));
            parsed_expr(&as_document(unnested, lists, &name_of(name))).map(Some)
        }
        _ => Ok(None),
    }
}

/// Items of a document are documents of its kind; a list does not carry that, so a cast does.
fn as_document(unnested: String, list: &str, function: &str) -> String {
    match list {
        "json_array_items" | "json_member_values" | "jsonb_path_items" if function.starts_with("jsonb") => {
            format!("CAST({unnested} AS JSONB)")
        }
        "json_array_items" | "json_member_values" => format!("CAST({unnested} AS JSON)"),
        _ => unnested,
    }
}

/// Whether a select uses a name as a value by itself.
fn is_value(select: &Select, name: &str) -> bool {
    struct Uses<'a>(&'a str);
    impl Visitor for Uses<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(ident) if ident.value.eq_ignore_ascii_case(self.0) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(select, &mut Uses(name)).is_break()
}

fn written(arguments: &[&Expr]) -> String {
    arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn is_whole(expr: &Expr) -> bool {
    is_number(expr, |digits| digits.parse::<i64>().is_ok())
}

/// Whether it is a whole number that fits an `integer`.
fn is_integer(expr: &Expr) -> bool {
    is_number(expr, |digits| digits.parse::<i32>().is_ok())
}

fn is_number(expr: &Expr, fits: fn(&str) -> bool) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if fits(digits)),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_number(expr, fits),
        _ => false,
    }
}

/// A parameter of `generate_series` beside whole numbers, which is one.
fn series_parameter(function: &str, argument: &Expr, all: &[&Expr]) -> Option<Expr> {
    let is_parameter = matches!(argument, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    let is = function == "generate_series" && is_parameter && all.iter().any(|other| is_integer(other));
    is.then(|| read_as(argument.clone(), DataType::Integer(None)))
}

/// An item of FROM.
fn table(factor: &mut TableFactor, first: bool, is_value: &dyn Fn(&str) -> bool) -> Result<()> {
    let (name, arguments, alias, ordinality) = match factor {
        TableFactor::Table { name, args: Some(arguments), alias, with_ordinality, .. } => {
            (name_of(name), plain(&arguments.args), alias, *with_ordinality)
        }
        TableFactor::Function { name, args, alias, with_ordinality, .. } => {
            (name_of(name), plain(args), alias, *with_ordinality)
        }
        TableFactor::Table { name, args: None, alias, .. } if keyword(name).is_some() => {
            (keyword(name).unwrap_or_default(), Some(Vec::new()), alias, false)
        }
        TableFactor::UNNEST { array_exprs, alias, with_ordinality, .. } => {
            ("unnest".to_owned(), Some(array_exprs.iter().collect()), alias, *with_ordinality)
        }
        TableFactor::NestedJoin { table_with_joins, .. } => {
            table(&mut table_with_joins.relation, first, is_value)?;
            return table_with_joins.joins.iter_mut().try_for_each(|join| table(&mut join.relation, false, is_value));
        }
        _ => return Ok(()),
    };
    let Some(mut arguments) = arguments else { return Ok(()) };
    // A quoted text, or a parameter, is a document of the function's type.
    let untyped = arguments.first().and_then(|value| Some((*value, document_of(&name, value)?)));
    let document = untyped.map(|(value, data_type)| read_as(value.clone(), data_type));
    if let Some(document) = &document {
        arguments[0] = document;
    }
    let series: Vec<Option<Expr>> =
        arguments.iter().map(|argument| series_parameter(&name, argument, &arguments)).collect();
    arguments.iter_mut().zip(&series).for_each(|(argument, typed)| *argument = typed.as_ref().unwrap_or(argument));
    let mut types = Vec::new();
    let lists: Vec<(String, String)> = match columns(&name) {
        _ if RECORDS.contains(&name.as_str()) => {
            let columns = record_columns(alias.as_mut())?;
            types = columns.iter().map(|column| column.data_type.clone()).collect();
            let list = |RecordColumn { name: column, list, bound, .. }: RecordColumn| {
                let key = column.replace('\'', "''");
                let bound = bound.map(|(kind, length)| format!(", '{kind}', {length}")).unwrap_or_default();
                (column, format!("{list}({}, '{key}', '{name}'{bound})", written(&arguments)))
            };
            columns.into_iter().map(list).collect()
        }
        Some(columns) => columns
            .iter()
            .map(|(column, list)| {
                let column = if column.is_empty() { name.as_str() } else { column };
                (column.to_owned(), format!("{list}({})", written(&arguments)))
            })
            .collect(),
        None if name == "unnest" => {
            arguments.iter().map(|argument| ("unnest".to_owned(), argument.to_string())).collect()
        }
        None if gives_value(&name) => {
            let bare = KEYWORDS.contains(&name.as_str()) && arguments.is_empty();
            let value = if bare { name.clone() } else { format!("{name}({})", written(&arguments)) };
            vec![(name.clone(), value)]
        }
        None => return Ok(()),
    };
    let is_value_of = lists.len() == 1 && gives_value(&name);
    let mut names: Vec<String> = lists.iter().map(|(column, _)| column.clone()).collect();
    if ordinality {
        names.push("ordinality".to_owned());
    }
    // A function's alias also names its column, where it has but one of no name of its own.
    // The alias is the row as well, and the row of one column its value.
    let nameless = matches!(columns(&name), None | Some([("", _)]));
    if let (Some(alias), 1) = (alias.as_ref(), lists.len())
        && (nameless || is_value(&alias.name.value))
    {
        names[0].clone_from(&alias.name.value);
    }
    // Columns of the same name are told apart, though not by the client.
    for at in 1..names.len() {
        if names[..at].contains(&names[at]) {
            names[at] = numbered(&names[at], at);
        }
    }
    let mut shown = alias.take().unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name.clone()),
        columns: Vec::new(),
        at: None,
    });
    for (at, name) in names.iter().enumerate() {
        if at >= shown.columns.len() {
            shown.columns.push(TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None });
        }
    }
    let whole = name == "generate_series" && arguments.iter().all(|argument| is_whole(argument)) && !ordinality;
    if whole {
        let bigints = numbered(&name, 0);
        if shown.name.value == bigints || !arguments.iter().all(|argument| is_integer(argument)) {
            if let TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } = factor {
                *alias = Some(shown);
            }
            return Ok(());
        }
        let text = format!("SELECT c0::integer FROM {name}({}) \"{bigints}\" (c0)", written(&arguments));
        let subquery = parsed_query(&text)?;
        *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(shown), sample: None };
        return Ok(());
    }
    let mut items: Vec<String> = lists
        .iter()
        .enumerate()
        .map(|(at, (_, list))| {
            if is_value_of {
                return format!("{list} AS c{at}");
            }
            if let Some(data_type) = types.get(at) {
                return format!("CAST(unnest({list}) AS {data_type}) AS c{at}");
            }
            let called = list.split('(').next().unwrap_or_default();
            format!("{} AS c{at}", as_document(format!("unnest({list})"), called, &name))
        })
        .collect();
    if ordinality && is_value_of {
        items.push("1::bigint AS c1".to_owned());
    } else if ordinality {
        let places: Vec<String> = lists.iter().map(|(_, list)| format!("list_length({list})")).collect();
        items.push(format!("unnest(series_list(1::bigint, greatest({}))) AS c{}", places.join(", "), lists.len()));
    }
    let subquery = parsed_query(&format!("SELECT {}", items.join(", ")))?;
    *factor = TableFactor::Derived { lateral: !first, subquery, alias: Some(shown), sample: None };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let Statement::Query(query) = parse(sql) else { panic!("no query: {sql}") };
        let SetExpr::Select(mut select) = *query.body else { panic!("no select: {sql}") };
        let outcome = rewrite(&mut select).map_or_else(|error| error.message, |()| select.to_string());
        expected.assert_eq(&outcome.replace('\u{1}', "~"));
    }

    #[test]
    fn calls_become_lists_that_are_unnested() {
        check(
            "SELECT * FROM generate_series(1, 3) x",
            expect![[
                r#"SELECT * FROM (SELECT c0::INTEGER FROM generate_series(1, 3) "generate_series~0" (c0)) x ("x")"#
            ]],
        );
        check(
            "SELECT * FROM t, jsonb_each(t.d) AS e",
            expect![[
                r#"SELECT * FROM t, LATERAL (SELECT unnest(json_member_keys(t.d)) AS c0, CAST(unnest(json_member_values(t.d)) AS JSONB) AS c1) AS e ("key", "value")"#
            ]],
        );
        check(
            "SELECT * FROM unnest(ARRAY[1]) WITH ORDINALITY AS u(v)",
            expect![[
                r#"SELECT * FROM (SELECT unnest(ARRAY[1]) AS c0, unnest(series_list(1::BIGINT, greatest(list_length(ARRAY[1])))) AS c1) AS u (v, "ordinality")"#
            ]],
        );
        check(
            "SELECT * FROM unnest(a, b)",
            expect![[r#"SELECT * FROM (SELECT unnest(a) AS c0, unnest(b) AS c1) AS unnest ("unnest", "unnest~1")"#]],
        );
        check(
            "SELECT * FROM t, abs(t.a) AS u(b), current_user",
            expect![[
                r#"SELECT * FROM t, LATERAL (SELECT abs(t.a) AS c0) AS u (b), LATERAL (SELECT current_user AS c0) AS current_user ("current_user")"#
            ]],
        );
        check("SELECT * FROM cells('t')", expect!["SELECT * FROM cells('t')"]);
        check(
            "SELECT * FROM t, jsonb_to_recordset(t.d) AS x(a int, \"b's\" text[], c jsonb)",
            expect![[
                r#"SELECT * FROM t, LATERAL (SELECT CAST(unnest(json_record_texts(t.d, 'a', 'jsonb_to_recordset')) AS INT) AS c0, CAST(unnest(json_record_arrays(t.d, 'b''s', 'jsonb_to_recordset')) AS TEXT[]) AS c1, CAST(unnest(json_record_values(t.d, 'c', 'jsonb_to_recordset')) AS JSONB) AS c2) AS x (a, "b's", c)"#
            ]],
        );
        check(
            "SELECT * FROM jsonb_to_record(d) AS x(a, b)",
            expect![[r#"a column definition list is required for functions returning "record""#]],
        );
        check("SELECT jsonb_object_keys(d) FROM t", expect!["SELECT unnest(json_member_keys(d)) FROM t"]);
        check("SELECT jsonb_each(d) FROM t", expect!["jsonb_each in a select list is not supported"]);
    }
}
