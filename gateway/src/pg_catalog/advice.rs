//! `keyspan.advice`: what would make tables better, and the statements that would do it.
//!
//! Here is collected what the room [`advice`] looks at, and its remedies become text. A tenant sees the
//! advice on its own tables, and on shared ones what its own statements say of them; an operator in database `keyspan`
//! all, of shared tables what all tenants do.

use super::{
    columns::{Cell, Row},
    create,
    objects::count,
};
use crate::{
    advice::{self, Advice, Remake, Remedy, tables},
    context::StatementContext,
    instance::Instance,
    pg::ident::quote_ident,
    pg_catalog::columns::row,
    shares::{Share, access::Seen},
};
use keyspan_catalog::{
    Table, Tenant, TenantId, TenantState,
    table::{DefaultValue, Identity},
};
use serde_json::{Value, json};
use std::{cmp::Reverse, collections::HashSet, sync::Arc};

/// Advice that is given, that with most bytes first.
const ADVICE_MAX: usize = 1_000;
/// Advice that the console shows.
const SHOWN_MAX: usize = 100;

/// An advice, and on what.
struct Listed {
    tenant: Option<(u32, String)>,
    table: Option<(u32, String)>,
    advice: Advice,
    statement: Option<String>,
}

/// The rows of `keyspan.advice`.
pub(super) fn rows(statement: &StatementContext) -> Vec<Row> {
    let one = |of: Listed| {
        let (oid, tenant) = of.tenant.unzip();
        let (table_oid, table_name) = of.table.unzip();
        row! {
            "oid" => oid, "tenant" => tenant, "table_oid" => table_oid, "table_name" => table_name,
            "kind" => of.advice.kind.name(), "advice" => of.advice.text, "seen" => count(of.advice.seen),
            "bytes" => of.advice.bytes.map_or(Cell::Null, |bytes| Cell::Int(count(bytes))),
            "statement" => of.statement,
        }
    };
    all(statement).into_iter().map(one).collect()
}

/// What the console shows of it: all, as an operator sees it.
pub(crate) fn shown(instance: &Arc<Instance>) -> Value {
    let statement = StatementContext::of_operator(instance);
    let all = all(&statement);
    let one = |of: &Listed| {
        json!({
            "tenant": of.tenant.as_ref().map(|(_, name)| name), "table": of.table.as_ref().map(|(_, name)| name),
            "kind": of.advice.kind.name(), "advice": of.advice.text, "seen": of.advice.seen,
            "bytes": of.advice.bytes, "statement": of.statement,
        })
    };
    json!({ "count": all.len(), "advice": all.iter().take(SHOWN_MAX).map(one).collect::<Vec<_>>() })
}

/// All advice that the statement's session sees, that with most bytes first.
fn all(statement: &StatementContext) -> Vec<Listed> {
    let Some(instance) = &statement.instance else { return Vec::new() };
    let mut found = Vec::new();
    if statement.operator {
        let shares = instance.shares.all();
        for table in statement.snapshot.tables.values() {
            let of_all = shares.iter().filter_map(|share| seen(share, table)).reduce(Seen::and);
            add(&mut found, (statement, None), table, &of_all.unwrap_or_default());
        }
        let active = statement.snapshot.tenants.values().filter(|tenant| tenant.state == TenantState::Active);
        let mut private = Vec::new();
        for tenant in active {
            private.extend(of_tenant(&mut found, statement, instance, tenant));
        }
        let sized: Vec<_> = private.iter().map(|(table, bytes)| (table, *bytes)).collect();
        let operator = as_operator(statement);
        found.extend(tables::of_tenants(&sized).into_iter().map(|advice| listed(&operator, (None, None), advice)));
    } else if let Some(tenant) = statement.tenant.as_ref().and_then(|id| statement.snapshot.tenants.get(id)) {
        let share = instance.shares.of(Some(tenant.oid));
        for table in statement.snapshot.tables.values() {
            if let Some(seen) = seen(&share, table) {
                add(&mut found, (statement, Some(tenant)), table, &seen);
            }
        }
        of_tenant(&mut found, statement, instance, tenant);
    }
    found.sort_by_key(|of| (Reverse(of.advice.bytes), of.advice.kind, Reverse(of.advice.seen)));
    found.truncate(ADVICE_MAX);
    found
}

/// Adds the advice on a tenant's own tables, which it gives with the bytes that were measured of them.
fn of_tenant(
    found: &mut Vec<Listed>,
    statement: &StatementContext,
    instance: &Instance,
    tenant: &Arc<Tenant>,
) -> Vec<(Arc<Table>, Option<u64>)> {
    let Some(own) = statement.snapshot.private.get(&tenant.id) else { return Vec::new() };
    let share = instance.shares.of(Some(tenant.oid));
    let mut sized = Vec::new();
    for table in own.tables.values() {
        add(found, (statement, Some(tenant)), table, &seen(&share, table).unwrap_or_default());
        let measured = share.work.of_table(table.id.0).and_then(|work| work.last_measured());
        sized.push((Arc::clone(table), measured.map(|(_, bytes)| bytes)));
    }
    let as_tenant = as_tenant(statement, &tenant.id);
    let of_many: Vec<_> = sized.iter().map(|(table, bytes)| (table, *bytes)).collect();
    let many = tables::of_database(&of_many);
    found.extend(many.into_iter().map(|advice| listed(&as_tenant, (Some(tenant), None), advice)));
    sized
}

fn seen(share: &Share, table: &Table) -> Option<Seen> {
    share.work.of_table(table.id.0).map(|work| work.access.seen())
}

fn add(
    found: &mut Vec<Listed>,
    (statement, tenant): (&StatementContext, Option<&Arc<Tenant>>),
    table: &Table,
    seen: &Seen,
) {
    let advice = advice::of_table(table, seen);
    if advice.is_empty() {
        return;
    }
    let maker = match tenant.filter(|_| table.is_private()) {
        Some(tenant) => as_tenant(statement, &tenant.id),
        None => as_operator(statement),
    };
    found.extend(advice.into_iter().map(|advice| listed(&maker, (tenant.map(Arc::as_ref), Some(table)), advice)));
}

/// Who makes shared tables.
fn as_operator(statement: &StatementContext) -> StatementContext {
    StatementContext { tenant: None, operator: true, ..statement.clone() }
}

fn as_tenant(statement: &StatementContext, tenant: &TenantId) -> StatementContext {
    StatementContext { tenant: Some(tenant.clone()), operator: false, ..statement.clone() }
}

fn listed(maker: &StatementContext, (tenant, table): (Option<&Tenant>, Option<&Table>), advice: Advice) -> Listed {
    let statement = match &advice.remedy {
        Remedy::Remake(remake) => Some(made(remake, maker)),
        Remedy::Statement(statement) => Some(statement.clone()),
        Remedy::Words => None,
    };
    let tenant = tenant.map(|tenant| (tenant.oid, tenant.id.to_string()));
    Listed { tenant, table: table.map(|table| (table.id.0, table.name.clone())), advice, statement }
}

/// The statements that make a table anew: CREATE TABLE, and INSERT with the rows; sequences go on behind them.
fn made(remake: &Remake, maker: &StatementContext) -> String {
    let Remake { name, table, values, from } = remake;
    let taken: HashSet<&str> = maker.tables().map(|table| table.name.as_str()).collect();
    let mut names = std::iter::once(name.clone()).chain((2_u32..).map(|number| format!("{name}{number}")));
    let free = names.find(|name| !taken.contains(name.as_str())).unwrap_or_else(|| name.clone());
    let new = quote_ident(&free);
    let mut text = format!("{};", create::table_named(table, &free, maker));
    if values.is_empty() {
        return text;
    }
    let names = values.iter().map(|(name, _)| quote_ident(name)).collect::<Vec<_>>().join(", ");
    let select = values.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(", ");
    let always = table.columns.iter().any(|column| column.identity == Some(Identity::Always));
    let overriding = if always { " OVERRIDING SYSTEM VALUE" } else { "" };
    text += &format!("\nINSERT INTO {new} ({names}){overriding}\nSELECT {select}\nFROM {from};");
    for column in table.columns.iter().filter(|column| owns_sequence(table, column, maker)) {
        let (literal, column) = (new.replace('\'', "''"), &column.name);
        text += &format!(
            "\nSELECT setval(pg_get_serial_sequence('{literal}', '{}'), max({})) FROM {new};",
            column.replace('\'', "''"),
            quote_ident(column)
        );
    }
    text
}

/// Whether a column gets a sequence of its own with the table.
fn owns_sequence(table: &Table, column: &keyspan_catalog::Column, maker: &StatementContext) -> bool {
    let Some(DefaultValue::Next(oid)) = column.default.as_ref().map(|default| &default.value) else { return false };
    let sequence = maker.snapshot.sequence_of(maker.tenant.as_ref(), *oid);
    sequence.is_some_and(|sequence| sequence.owner == Some((table.id, column.id)))
}
