//! Which changes views allow.

use super::*;
use crate::{ColumnDefinition, SqlType, TableDefinition};
use expect_test::{Expect, expect};

fn table(id: u32, name: &str) -> Table {
    let column = |name: &str| ColumnDefinition {
        name: name.into(),
        kind: SqlType::Text,
        not_null: false,
        family: None,
        encoding: None,
        qualifier: None,
    };
    let definition = TableDefinition {
        remote: None,
        name: name.into(),
        columns: vec![column("a"), column("b")],
        primary_key: vec![("a".into(), false.into())],
        families: Vec::new(),
        options: Vec::new(),
    };
    Table::define_private(TableId(id), &definition).unwrap()
}

fn view(id: u32, name: &str, uses: &[(u32, &[u16])]) -> SqlView {
    let column = ViewColumn { number: 1, name: "a".into(), type_oid: 25, modifier: -1 };
    let uses = uses.iter().map(|(number, columns)| (*number, columns.iter().copied().collect())).collect();
    SqlView {
        id,
        name: name.into(),
        schema: 2200,
        columns: vec![column],
        sql: "SELECT".into(),
        uses,
        comments: Comments::default(),
        materialized: None,
    }
}

/// The table `t` (1) with the views `v` (2), of its column `a`, and `w` (3), of `v`.
fn own() -> Private {
    Private {
        tables: [(TableId(1), Arc::new(table(1, "t")))].into(),
        views: [view(2, "v", &[(1, &[1])]), view(3, "w", &[(2, &[1])])].map(|view| (view.id, Arc::new(view))).into(),
        ..Private::default()
    }
}

fn checked(change: impl FnOnce(&mut Private), expected: Expect) {
    let before = own();
    let mut after = before.clone();
    change(&mut after);
    let none = SharedTables::new();
    let told = match check((&before, &after), (&none, &none), "") {
        Ok(()) => "done".to_owned(),
        Err(error) => format!("{:?} {error}\n{}", error.kind(), error.detail.as_deref().unwrap_or_default()),
    };
    expected.assert_eq(&told);
}

fn put(own: &mut Private, table: Table) {
    own.tables.insert(table.id, Arc::new(table));
}

#[test]
fn what_a_view_uses_stays() {
    checked(
        |own| own.tables.clear(),
        expect![[r#"
            InUse cannot drop table t because other objects depend on it
            view v depends on table t
            view w depends on view v"#]],
    );
    checked(
        |own| drop(own.views.remove(&2)),
        expect![[r#"
            InUse cannot drop view v because other objects depend on it
            view w depends on view v"#]],
    );
    checked(|own| drop(own.views.remove(&3)), expect!["done"]);
    checked(
        |own| {
            own.views.clear();
            own.tables.clear();
        },
        expect!["done"],
    );
}

#[test]
fn columns_that_a_view_uses_stay_as_they_are() {
    checked(|own| put(own, table(1, "t").drop_column("b").unwrap()), expect!["done"]);
    checked(|own| put(own, table(1, "t").rename_column("a", "c").unwrap().rename("u").unwrap()), expect!["done"]);
    let mut without = table(1, "t");
    without.columns.remove(0);
    checked(
        |own| put(own, without),
        expect![[r#"
            InUse cannot drop column a of table t because other objects depend on it
            view v depends on column a of table t
            view w depends on view v"#]],
    );
    let mut other = table(1, "t");
    other.columns[0].kind = SqlType::Int4;
    checked(
        |own| put(own, other),
        expect![[r#"
            Unsupported cannot alter type of a column used by a view or rule
            rule _RETURN on view v depends on column "a""#]],
    );
}

#[test]
fn no_view_reads_itself_or_what_is_not_there() {
    checked(
        |own| drop(own.views.insert(2, Arc::new(view(2, "v", &[(3, &[1])])))),
        expect![[r#"
            Recursion infinite recursion detected in rules for relation "v"
        "#]],
    );
    checked(
        |own| drop(own.views.insert(4, Arc::new(view(4, "x", &[(9, &[])])))),
        expect![[r#"
            Conflict a relation that view "x" reads was changed by another at the same moment
        "#]],
    );
}

#[test]
fn a_view_is_replaced_by_one_with_its_columns() {
    let check = |change: fn(&mut SqlView), expected: Expect| {
        let old = view(2, "v", &[]);
        let mut new = old.clone();
        change(&mut new);
        expected.assert_eq(&old.check_replaced_by(&new).map_or_else(|error| error.to_string(), |()| "done".into()));
    };
    check(|new| new.columns[0].name = "b".into(), expect![[r#"cannot change name of view column "a" to "b""#]]);
    check(|new| new.columns[0].type_oid = 23, expect![[r#"cannot change data type of view column "a""#]]);
    check(|new| new.columns.clear(), expect!["cannot drop columns from view"]);
    check(
        |new| new.columns.push(ViewColumn { number: 2, name: "b".into(), type_oid: 25, modifier: -1 }),
        expect!["done"],
    );
}
