//! Random key schemas, rows and predicates: ranges and residual select the rows that the predicates select.

use crate::{
    pg::types,
    provider::{keys::Keys, pushdown::Pushdown, testing::table},
};
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch},
    datatypes::{DataType, Field, Schema},
};
use bytes::Bytes;
use datafusion::{
    common::DFSchema,
    logical_expr::{BinaryExpr, ColumnarValue, Expr, Like, Operator, cast, col, lit, utils::conjunction},
    prelude::SessionContext,
    scalar::ScalarValue,
};
use keyspan_catalog::{KeyEncoding, KeyPart, PartOrder, SqlType, Table, Value};
use proptest::{prelude::*, sample::select};
use std::sync::Arc;

/// A few values, close to each other and to the special cases of the encodings.
fn values(kind: SqlType) -> Vec<Value> {
    let texts = ["", "a", "a#", "a$", "ab", "a b", "b", "\u{1}", "é", "\u{10ffff}", "a.b", "ab.b", ".b", "a..b", "b."];
    match kind {
        SqlType::Bool => vec![Value::Bool(false), Value::Bool(true)],
        SqlType::Int2 => [-32_768, -1, 0, 1, 2, 32_767].map(Value::Int).to_vec(),
        SqlType::Int4 => [i64::from(i32::MIN), -10, -9, 0, 9, 10, i64::from(i32::MAX)].map(Value::Int).to_vec(),
        SqlType::Int8 => [i64::MIN, -1, 0, 1, i64::MAX].map(Value::Int).to_vec(),
        SqlType::Float8 => [f64::NEG_INFINITY, -1.5, 0.0, 1.5, f64::NAN].map(Value::Float).to_vec(),
        SqlType::Numeric { scale, .. } => {
            [-100, -1, 0, 1, 10, 100].map(|unscaled| Value::Numeric { unscaled, scale }).to_vec()
        }
        SqlType::Bytea => texts.map(|text| Value::Bytes(Bytes::copy_from_slice(text.as_bytes()))).to_vec(),
        SqlType::Date => [-1, 0, 1, 15_000].map(Value::Date).to_vec(),
        SqlType::Timestamptz(_) | SqlType::Timestamp(_) => {
            [-1, 0, 1, 86_400_000_000, 1_357_095_845_000_000].map(Value::Timestamp).to_vec()
        }
        SqlType::Uuid => [[0; 16], [1; 16], [255; 16]].map(Value::Uuid).to_vec(),
        _ => texts.map(|text| Value::Text(text.into())).to_vec(),
    }
}

fn part() -> impl Strategy<Value = (SqlType, PartOrder)> {
    let kinds = vec![
        SqlType::Bool,
        SqlType::Int2,
        SqlType::Int4,
        SqlType::Int8,
        SqlType::Float8,
        SqlType::Numeric { precision: 10, scale: 2 },
        SqlType::Text,
        SqlType::Bytea,
        SqlType::Date,
        SqlType::Timestamptz(None),
        SqlType::Timestamp(None),
        SqlType::Uuid,
    ];
    let orders = vec![PartOrder::Ascending, PartOrder::Ascending, PartOrder::Descending, PartOrder::Reversed];
    (select(kinds), select(orders))
}

/// A table with keys of one to three parts that its encoding can have.
pub(super) fn schema() -> impl Strategy<Value = Arc<Table>> {
    let encodings = select(vec![KeyEncoding::Delimited, KeyEncoding::Ordered]);
    let salts = select(vec![0, 0, 2, 3, 16]);
    (encodings, prop::collection::vec(part(), 1..4), salts).prop_map(|(encoding, parts, salt)| {
        let delimited = encoding == KeyEncoding::Delimited;
        let fitted = parts.into_iter().enumerate().map(|(number, (kind, order))| {
            let kind = match kind {
                SqlType::Float8 | SqlType::Numeric { .. } if delimited => SqlType::Int4,
                kind => kind,
            };
            let stays = delimited && matches!(kind, SqlType::Text | SqlType::Bytea);
            let reversible = matches!(kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8 | SqlType::Text);
            let order = match order {
                PartOrder::Descending if stays => PartOrder::Ascending,
                PartOrder::Reversed if !reversible => PartOrder::Ascending,
                order => order,
            };
            KeyPart { name: format!("p{number}"), kind, order }
        });
        let mut made = Table::clone(&table("random", encoding, fitted.collect(), &[("v", SqlType::Int8, "m")]));
        made.key.salt = salt;
        Arc::new(made)
    })
}

fn literal(kind: SqlType) -> impl Strategy<Value = Expr> {
    let known = select(values(kind)).prop_map(move |value| lit(types::scalar_of_value(&value, kind)));
    let null = lit(ScalarValue::try_from(&types::data_type(kind)).unwrap());
    prop_oneof![15 => known, 1 => Just(null)]
}

/// A comparison in a wider type, where there is one.
fn widened(column: Expr, kind: SqlType, value: i64) -> Option<(Expr, Expr)> {
    let utc = |unit| DataType::Timestamp(unit, Some(types::UTC.into()));
    Some(match kind {
        SqlType::Int2 | SqlType::Int4 => (cast(column, DataType::Int64), lit(value * 3)),
        SqlType::Int8 => (
            cast(column, DataType::Decimal128(22, 2)),
            lit(ScalarValue::Decimal128(Some(i128::from(value) * 50), 22, 2)),
        ),
        SqlType::Numeric { .. } => (
            cast(column, DataType::Decimal128(20, 3)),
            lit(ScalarValue::Decimal128(Some(i128::from(value) * 5), 20, 3)),
        ),
        SqlType::Timestamptz(_) if value % 2 == 0 => {
            (cast(column, DataType::Date32), lit(ScalarValue::Date32(Some(i32::try_from(value).ok()?))))
        }
        SqlType::Timestamptz(_) => {
            let nanos = ScalarValue::TimestampNanosecond(Some(value * 500), Some(types::UTC.into()));
            (cast(column, utc(arrow::datatypes::TimeUnit::Nanosecond)), lit(nanos))
        }
        SqlType::Date => {
            let micros = ScalarValue::TimestampMicrosecond(Some(value * 43_200_000_000), None);
            (cast(column, types::TIMESTAMP), lit(micros))
        }
        _ => return None,
    })
}

fn compare(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

fn like(column: Expr, pattern: &str, negated: bool) -> Expr {
    let pattern = lit(ScalarValue::Utf8View(Some(pattern.into())));
    Expr::Like(Like::new(negated, Box::new(column), Box::new(pattern), None, false))
}

fn atom(name: String, kind: SqlType) -> BoxedStrategy<Expr> {
    let ops = vec![Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
    let column = col(&name);
    let (a, b, c, d) = (column.clone(), column.clone(), column.clone(), column.clone());
    let plain = (select(ops.clone()), literal(kind), any::<bool>()).prop_map(move |(op, value, turned)| match turned {
        true => compare(value, op, a.clone()),
        false => compare(a.clone(), op, value),
    });
    let list = (prop::collection::vec(literal(kind), 1..4), any::<bool>())
        .prop_map(move |(list, negated)| b.clone().in_list(list, negated));
    let between = (literal(kind), literal(kind)).prop_map(move |(low, high)| c.clone().between(low, high));
    let wide = (select(ops), -3..4_i64).prop_map(move |(op, value)| match widened(d.clone(), kind, value) {
        Some((left, right)) => compare(left, op, right),
        None => d.clone().is_null(),
    });
    let patterns = [
        "a%", "%", "a", "a_%", "%b", "a\\%", "a$%", "b%", "%.b", "%b.b", "%%.b", "a%.b", "_%.b", "%a_.b", "%a%.b",
        "a.b", "%.",
    ];
    let pattern = (select(patterns.to_vec()), any::<bool>()).prop_map(move |(pattern, negated)| match kind {
        SqlType::Text => like(column.clone(), pattern, negated),
        SqlType::Bool => column.clone(),
        _ => column.clone().is_not_null(),
    });
    prop_oneof![5 => plain, 2 => list, 2 => between, 2 => wide, 2 => pattern].boxed()
}

fn predicate(table: &Table) -> BoxedStrategy<Expr> {
    let parts = table.key.parts.iter().map(|part| atom(part.name.clone(), part.kind));
    let plain = col("v").gt(lit(1_i64));
    let leaf = prop::strategy::Union::new(parts.chain([Just(plain).boxed()]).collect::<Vec<_>>());
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| a.and(b)),
            3 => (inner.clone(), inner.clone()).prop_map(|(a, b)| a.or(b)),
            1 => inner.clone().prop_map(|a| Expr::Not(Box::new(a))),
            1 => inner.prop_map(|a| Expr::IsTrue(Box::new(a))),
        ]
    })
    .boxed()
}

pub(super) fn rows(table: &Table) -> BoxedStrategy<Vec<Vec<Value>>> {
    let parts: Vec<_> = table.key.parts.iter().map(|part| select(values(part.kind))).collect();
    prop::collection::vec(
        (parts, 0..4_i64).prop_map(|(mut key, v)| {
            key.push(Value::Int(v));
            key
        }),
        0..30,
    )
    .boxed()
}

#[derive(Debug)]
struct Case {
    table: Arc<Table>,
    rows: Vec<Vec<Value>>,
    filters: Vec<Expr>,
    ranges_max: usize,
    operator: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let of_table = |table: Arc<Table>| {
        let filters = prop::collection::vec(predicate(&table), 1..4);
        (rows(&table), filters, select(vec![1, 2, 5, 10_000]), any::<bool>(), Just(table))
    };
    schema().prop_flat_map(of_table).prop_map(|(rows, filters, ranges_max, operator, table)| Case {
        table,
        rows,
        filters,
        ranges_max,
        operator,
    })
}

/// Which rows satisfy all filters, by DataFusion.
fn satisfied(session: &SessionContext, table: &Table, rows: &[Vec<Value>], filters: &[Expr]) -> Vec<bool> {
    let Some(all) = conjunction(filters.to_vec()) else { return vec![true; rows.len()] };
    let kinds: Vec<SqlType> = table.columns.iter().map(|column| column.kind).collect();
    let fields: Vec<Field> =
        table.columns.iter().map(|column| types::field_of(&column.name, column.kind, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let column = |at: usize| -> ArrayRef {
        ScalarValue::iter_to_array(rows.iter().map(|row| types::scalar_of_value(&row[at], kinds[at]))).unwrap()
    };
    let batch = RecordBatch::try_new(Arc::clone(&schema), (0..kinds.len()).map(column).collect()).unwrap();
    let logical = DFSchema::try_from(schema.as_ref().clone()).unwrap();
    let expr = session.create_physical_expr(all, &logical).unwrap();
    match expr.evaluate(&batch).unwrap() {
        ColumnarValue::Array(array) => array.as_boolean().iter().map(|is| is == Some(true)).collect(),
        ColumnarValue::Scalar(value) => vec![value == ScalarValue::Boolean(Some(true)); rows.len()],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 768, ..ProptestConfig::default() })]

    #[test]
    fn ranges_and_residual_are_the_predicate(case in case()) {
        let Case { table, rows, filters, ranges_max, operator } = case;
        prop_assume!(!rows.is_empty());
        let session = SessionContext::new();
        let keys = Keys::of_table(&table, operator);
        let plan = Pushdown::plan_within(&filters, &keys, ranges_max);
        prop_assert!(plan.rows.ranges().len() <= ranges_max.max(plan_boxes(&filters)));
        let mut schema = table.key.clone();
        schema.with_tenant = operator;
        let wanted = satisfied(&session, &table, &rows, &filters);
        let residual = satisfied(&session, &table, &rows, &plan.residual);
        for (at, row) in rows.iter().enumerate() {
            let mut parts = row[..row.len() - 1].to_vec();
            if operator {
                parts.insert(0, Value::Text("aa".into()));
            }
            let key = schema.encode(&parts).unwrap();
            let read = plan.rows.ranges().iter().any(|range| range.contains(&key));
            prop_assert_eq!(
                read && residual[at], wanted[at],
                "row {:?}, key {:?}, ranges {:?}, residual {:?}", row, key, plan.rows.ranges(), plan.residual
            );
            for (part, value) in plan.constants.iter().filter(|_| read) {
                // By the text: NaN does not equal itself.
                prop_assert_eq!(format!("{:?}", parts[*part]), format!("{value:?}"));
            }
        }
    }

    /// Filters that come later may not break the promise that was made for those before them, while nothing is
    /// coalesced.
    #[test]
    fn promises_hold_when_filters_come_later(case in case(), first in 1..3_usize) {
        let Case { table, filters, operator, .. } = case;
        let keys = Keys::of_table(&table, operator);
        let first = first.min(filters.len());
        let (early, all) = (Pushdown::plan(&filters[..first], &keys), Pushdown::plan(&filters, &keys));
        prop_assume!(!all.coalesced);
        for (filter, (early, all)) in filters.iter().zip(early.promises.iter().zip(&all.promises)) {
            if *early == datafusion::logical_expr::TableProviderFilterPushDown::Exact {
                prop_assert_eq!(all, early, "{}", filter);
            }
        }
    }
}

/// A bound of the boxes that predicates can make: each of them makes a range at least.
fn plan_boxes(filters: &[Expr]) -> usize {
    super::super::predicate::BOXES_MAX.min(1 << filters.len().max(14))
}
