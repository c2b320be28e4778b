//! Names that are bound, and what becomes of them.

use super::*;
use crate::{
    lookup,
    query::testing::{parse, snapshot},
};
use expect_test::{Expect, expect};
use keyspan_catalog::Snapshot;
use std::sync::Arc;

fn query(sql: &str) -> Query {
    let ast::Statement::Query(query) = parse(sql) else { panic!("{sql} is no query") };
    *query
}

/// What is stored; then, after `change`, what is planned and what is shown.
fn check(sql: &str, change: impl FnOnce(&mut Snapshot), expected: Expect) {
    let mut snapshot = snapshot();
    let bound = match bind(&query(sql), "ua", |name| Ok(snapshot.table(name).map(Relation::Table))) {
        Ok(bound) => bound,
        Err(error) => return expected.assert_eq(&format!("{} {}", error.state.0, error.message)),
    };
    change(&mut snapshot);
    let (sql, uses, comments) = (bound.sql, bound.uses, Default::default());
    let view = SqlView {
        id: 1,
        name: "v".into(),
        schema: keyspan_catalog::rights::PUBLIC_SCHEMA,
        columns: Vec::new(),
        sql,
        uses,
        comments,
        materialized: None,
    };
    let numbered = |number| lookup::numbered(&snapshot, None, number);
    let (opened, shown) = (opened(&view, numbered).unwrap(), text_of(&view, numbered, |_| true).unwrap());
    expected.assert_eq(&format!("{}\n{opened}\n{shown}\n{:?}", view.sql, view.uses));
}

fn renamed(snapshot: &mut Snapshot) {
    let table = snapshot.tables.values().next().unwrap();
    let table = table.rename("trips").unwrap().rename_column("dest", "to").unwrap();
    snapshot.tables.insert(table.id, Arc::new(table));
}

#[test]
fn columns_that_may_be_meant_are_named() {
    check(
        "SELECT origin FROM flights f WHERE f.delay > 5",
        |_| (),
        expect![[r#"
            SELECT origin FROM "bound"."16400:1,5" AS "f" ("origin", "delay") WHERE f.delay > 5
            SELECT origin FROM (SELECT "origin" AS "origin", "delay" AS "delay" FROM "public"."flights") AS "f" WHERE f.delay > 5
             SELECT origin FROM flights f WHERE f.delay > 5;
            {16400: {1, 5}}"#]],
    );
    check(
        "SELECT count(*) FROM public.flights",
        |_| (),
        expect![[r#"
            SELECT count(*) FROM "bound"."16400:" AS "flights"
            SELECT count(*) FROM (SELECT NULL AS nothing FROM "public"."flights") AS "flights"
             SELECT count(*) FROM flights;
            {16400: {}}"#]],
    );
    check(
        "SELECT a.* FROM flights AS a (x, y), flights",
        |_| (),
        expect![[r#"
            SELECT a.* FROM "bound"."16400:1,2,3,4,5,6,7,8,9,10" AS "a" ("x", "y", "at", "flight", "delay", "tail", "price", "u", "j", "n"), "bound"."16400:1,2,3,4,5,6,7,8,9,10" AS "flights" ("origin", "dest", "at", "flight", "delay", "tail", "price", "u", "j", "n")
            SELECT a.* FROM (SELECT "origin" AS "x", "dest" AS "y", "at" AS "at", "flight" AS "flight", "delay" AS "delay", "tail" AS "tail", "price" AS "price", "u" AS "u", "j" AS "j", "n" AS "n" FROM "public"."flights") AS "a", (SELECT "origin" AS "origin", "dest" AS "dest", "at" AS "at", "flight" AS "flight", "delay" AS "delay", "tail" AS "tail", "price" AS "price", "u" AS "u", "j" AS "j", "n" AS "n" FROM "public"."flights") AS "flights"
             SELECT a.x, a.y, a.at, a.flight, a.delay, a.tail, a.price, a.u, a.j, a.n FROM (SELECT "origin" AS "x", "dest" AS "y", "at" AS "at", "flight" AS "flight", "delay" AS "delay", "tail" AS "tail", "price" AS "price", "u" AS "u", "j" AS "j", "n" AS "n" FROM "public"."flights") AS "a", flights;
            {16400: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}"#]],
    );
}

#[test]
fn other_names_are_the_same_columns() {
    check(
        "SELECT dest, count(*) FROM flights GROUP BY dest",
        renamed,
        expect![[r#"
            SELECT dest, count(*) FROM "bound"."16400:2" AS "flights" ("dest") GROUP BY dest
            SELECT dest, count(*) FROM (SELECT "to" AS "dest" FROM "public"."trips") AS "flights" GROUP BY dest
             SELECT dest, count(*) FROM (SELECT "to" AS "dest" FROM "public"."trips") AS "flights" GROUP BY dest;
            {16400: {2}}"#]],
    );
}

#[test]
fn names_of_with_are_no_relations() {
    check(
        "WITH flights AS (SELECT n FROM flights), b AS (SELECT n FROM flights) SELECT n FROM b, pg_class WHERE EXISTS (SELECT 1 FROM flights)",
        |_| (),
        expect![[r#"
            WITH flights AS (SELECT n FROM "bound"."16400:10" AS "flights" ("n")), b AS (SELECT n FROM flights) SELECT n FROM b, "pg_catalog"."pg_class" AS "pg_class" WHERE EXISTS (SELECT 1 FROM flights)
            WITH flights AS (SELECT n FROM (SELECT "n" AS "n" FROM "public"."flights") AS "flights"), b AS (SELECT n FROM flights) SELECT n FROM b, "pg_catalog"."pg_class" AS "pg_class" WHERE EXISTS (SELECT 1 FROM flights)
             WITH flights AS (SELECT n FROM flights), b AS (SELECT n FROM flights) SELECT n FROM b, "pg_catalog"."pg_class" AS "pg_class" WHERE EXISTS (SELECT 1 FROM flights);
            {16400: {10}}"#]],
    );
}

#[test]
fn what_cannot_be_bound_is_refused() {
    check("SELECT * FROM cells('flights')", |_| (), expect!["0A000 cells() in a view is not supported"]);
    check("SELECT * FROM bound.\"16400:1\"", |_| (), expect![[r#"3F000 schema "bound" does not exist"#]]);
    check(
        "SELECT * FROM flights AS f (a, b, c, d, e, f, g, h, i, j, k)",
        |_| (),
        expect![[r#"42P10 table "f" has 10 columns available but 11 columns specified"#]],
    );
}
