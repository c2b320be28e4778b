//! `DELETE … ERASE`: the rows of whole key prefixes, with their history, and a certificate of it.
//!
//! The plan of the DELETE says which ranges of keys it reads. They are deleted as ranges, so that rows whose keys do
//! not conform go too, and so does what history keeps of rows that are gone by now. The certificate says how much there
//! was, and is part of the same commit.

use crate::{
    dml::{ATTEMPTS_MAX, bound_write::BoundWrite},
    pg::error::{Result, SqlError, SqlState},
    query::parameter_values::ParameterValues,
    session::Session,
    sql::ast::Statement,
    write_set::WriteSet,
};
use keyspan_catalog::{ErasureKind, SpanSize, Table, TenantId, erasure::Target};
use keyspan_storage::KeyRange;
use std::sync::Arc;

/// Runs the statement; returns its command tag, with the number of rows.
///
/// # Errors
/// 25001 in a transaction; 0A000 for a condition that is not of whole key prefixes; those of a DELETE.
pub(super) async fn erase(
    session: &mut Session,
    statement: &Statement,
    parameters: &ParameterValues,
) -> Result<String> {
    if session.in_transaction() {
        let message = "DELETE ... ERASE cannot run inside a transaction block";
        return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
    }
    let mut attempt = 1;
    loop {
        match once(session, statement, parameters).await {
            Err(error) if error.state == SqlState::SERIALIZATION_FAILURE && attempt < ATTEMPTS_MAX => attempt += 1,
            done => return done.map(|rows| format!("DELETE {rows}")),
        }
        tokio::task::yield_now().await;
    }
}

async fn once(session: &mut Session, statement: &Statement, parameters: &ParameterValues) -> Result<u64> {
    let requested_micros = session.instance.clock.now_micros();
    let view = session.view().await?;
    let query = session.query(view)?.with_parameters(parameters);
    let write = BoundWrite::new(&query, statement, &[]).await?;
    let (table, ranges) = write.whole_prefixes(&query, parameters).await?;
    super::truncate::refuse_remote(&table, "DELETE … ERASE")?;
    let (rows, pin) = (query.view.rows.clone(), query.view.pin.clone());
    drop((write, query));
    if ranges.is_empty() {
        return Ok(0);
    }
    let (tenant, oid) = tenant_of(session, &ranges)?;
    let mut size = SpanSize::default();
    for range in &ranges {
        size = size + rows.size_with_history(&table, range, &pin).await?;
    }
    let prefixes = ranges.iter().map(|range| rows.range_in_store(&table, range).start.to_vec()).collect();
    let target = Target::Rows { physical: table.physical.clone(), prefixes };
    let what = what(&table, &ranges);
    let order = session.erasure((ErasureKind::Prefix, target), &table, what, size, requested_micros);
    let written =
        WriteSet { ranges: ranges.into_iter().map(|range| (table.clone(), range)).collect(), ..WriteSet::default() };
    session.erase((&tenant, oid), written, vec![order]).await?;
    Ok(size.rows)
}

/// The tenant whose rows these are: the session's, or the one that the operator's ranges begin with.
fn tenant_of(session: &Session, ranges: &[KeyRange]) -> Result<(TenantId, u32)> {
    let rows = &session.identity.rows;
    if let (Some(tenant), Some(oid)) = (rows.tenant(), rows.oid()) {
        return Ok((tenant.clone(), oid));
    }
    let snapshot = session.instance.catalog.snapshot();
    let of = |range: &KeyRange| {
        let id = range.start.split(|byte| *byte == keyspan_catalog::tenant::TENANT_DELIMITER).next()?;
        let is_whole = range.start.len() > id.len();
        snapshot.tenant(std::str::from_utf8(id).ok().filter(|_| is_whole)?).cloned()
    };
    let tenants: Option<Vec<_>> = ranges.iter().map(of).collect();
    match tenants.as_deref() {
        Some([first, others @ ..]) if others.iter().all(|other| other.oid == first.oid) => {
            Ok((first.id.clone(), first.oid))
        }
        _ => Err(SqlError::unsupported("DELETE … ERASE of the rows of several tenants")
            .with_hint("Name one tenant: WHERE tenant = '…' ERASE.")),
    }
}

/// The number of prefixes, without a value of them.
fn what(table: &Arc<Table>, ranges: &[KeyRange]) -> String {
    let parts: Vec<&str> = table.key.parts.iter().map(|part| part.name.as_str()).collect();
    let count = ranges.len();
    format!("{count} {} of ({})", if count == 1 { "prefix" } else { "prefixes" }, parts.join(", "))
}
