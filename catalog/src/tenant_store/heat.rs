//! The table of the store that keeps the heat of keys: small values by name, each within the span of the tenant whose
//! keys it tells of, so that it goes with the tenant.
//!
//! ```text
//! alto#0#000029654321   family "h", qualifier "": a value of one period, of alto's keys
//! #1#000029654320       the same of keys that are no tenant's alone
//! ```
//!
//! The values are the writer's own. Rows of a tenant are written while it is active only: a drop deletes them.

use super::{TenantStore, join, span, tenant_of};
use crate::{Result, Tenant, TenantId, catalog::Catalog, tenant::TENANT_DELIMITER};
use bytes::Bytes;
use keyspan_storage::{
    Atomicity, Commit, ErrorKind, Family, FamilyName, GcRule, KeyRange, Mutation, RowKey, RowMutation, Scan, StoreExt,
    TableName, TableSchema, Validation, Write,
};
use std::sync::Arc;

/// The name of the store's table. No other table can have it, since their names end with a number.
pub const HEAT_TABLE: &str = "heat";
/// When a value is forgotten by itself, in microseconds after it was written: 32 days.
const AGE_MAX_MICROS: i64 = 32 * 24 * 60 * 60 * 1_000_000;
const FAMILY: &str = "h";

/// The table.
pub(crate) fn heat_table() -> TableName {
    TableName::new(HEAT_TABLE).expect("the constant is a name")
}

fn family() -> FamilyName {
    FamilyName::new(FAMILY).expect("the constant is a name")
}

fn schema() -> TableSchema {
    let gc = GcRule::Union(vec![GcRule::MaxVersions(1), GcRule::MaxAgeMicros(AGE_MAX_MICROS)]);
    TableSchema::of([(family(), Family { gc, aggregate: None })])
}

/// The prefix of the rows of a tenant, or of none.
fn prefix(tenant: Option<&TenantId>) -> Bytes {
    tenant.map_or_else(|| Bytes::from_static(&[TENANT_DELIMITER]), span)
}

/// A value of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatRow {
    /// The tenant whose keys it tells of; `None` for keys that are no tenant's alone.
    pub tenant: Option<TenantId>,
    /// Its name.
    pub name: Bytes,
    /// The value.
    pub value: Bytes,
}

impl Catalog {
    /// All values. There are few thousands of them.
    ///
    /// # Errors
    /// The store's.
    pub async fn heat(&self) -> Result<Vec<HeatRow>> {
        let rows = match self.store().read_rows(&heat_table(), Scan::all()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            rows => rows?,
        };
        let one = |row: &keyspan_storage::Row| {
            let tenant = tenant_of(&row.key).ok();
            let name = row.key.bytes().slice(prefix(tenant.as_ref()).len().min(row.key.len())..);
            let value = row.newest(FAMILY, b"")?.value.clone();
            Some(HeatRow { tenant, name, value })
        };
        Ok(rows.iter().filter_map(one).collect())
    }

    /// Writes values of a tenant, or of none, by name; without a value the row is deleted. All of them or none.
    ///
    /// # Errors
    /// [`NoTenant`](crate::ErrorKind::NoTenant) for a tenant that is not active; the store's, among them
    /// [`Unsupported`](ErrorKind::Unsupported) for one that commits row by row.
    pub async fn put_heat(&self, tenant: Option<&Arc<Tenant>>, values: Vec<(Bytes, Option<Bytes>)>) -> Result<()> {
        let store = self.store();
        if store.promises().atomicity == Atomicity::Row {
            return Err(keyspan_storage::Error::Unsupported("heat in a store that commits row by row".into()).into());
        }
        let prefix = prefix(tenant.map(|tenant| &tenant.id));
        let mut commit = Commit::default();
        for (name, value) in values {
            let mutation = value.map_or(Mutation::DeleteFromRow, |value| Mutation::SetCell {
                family: family(),
                qualifier: Bytes::new(),
                timestamp: None,
                value,
            });
            let row = RowMutation { key: RowKey::new(join(&prefix, &name))?, mutations: vec![mutation] };
            commit.writes.push(Write::Row { table: heat_table(), row });
        }
        if let Some(tenant) = tenant {
            let rows = TenantStore::of_session(store.clone(), tenant);
            let pin = rows.pin().await?;
            let active = rows.active_tenant_row(&tenant.id, &pin).await?;
            commit.validation = Some(Validation { pin, rows: vec![active] });
        }
        match store.commit(commit.clone()).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match store.create_table(&heat_table(), schema()).await {
                    Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
                    _ => {}
                }
                store.commit(commit).await?;
            }
            done => drop(done?),
        }
        Ok(())
    }

    /// Deletes the values of a tenant; gives where their bytes may still be, for a purge.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn drop_heat(&self, tenant: &TenantId) -> Result<(TableName, KeyRange)> {
        match self.store().drop_row_range(&heat_table(), span(tenant)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            done => done?,
        }
        Ok((heat_table(), KeyRange::prefix(span(tenant))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edit, Quotas, Snapshot, TenantState};
    use keyspan_storage::{Store, clock::ManualClock, memory::MemoryStore};

    async fn tenant(catalog: &Catalog, id: &str) -> Arc<Tenant> {
        let create = |snapshot: &Snapshot| {
            Ok(Edit::CreateTenant(Tenant {
                id: TenantId::new(id).unwrap(),
                oid: snapshot.next_oid,
                state: TenantState::Active,
                created_micros: 1,
                quotas: Quotas::default(),
                settings: Default::default(),
                owner: None,
                comment: None,
            }))
        };
        catalog.commit(create).await.unwrap().tenant(id).unwrap().clone()
    }

    fn value(name: &'static str, value: Option<&'static str>) -> (Bytes, Option<Bytes>) {
        (name.into(), value.map(Bytes::from))
    }

    async fn texts(catalog: &Catalog) -> Vec<String> {
        let one = |row: HeatRow| {
            let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
            format!(
                "{}/{}={}",
                row.tenant.map_or_else(String::new, |id| id.to_string()),
                text(&row.name),
                text(&row.value)
            )
        };
        catalog.heat().await.unwrap().into_iter().map(one).collect()
    }

    #[tokio::test]
    async fn values_go_with_their_tenant() {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
        let catalog = Catalog::open(store).await.unwrap();
        assert!(texts(&catalog).await.is_empty());
        let (alto, bari) = (tenant(&catalog, "alto").await, tenant(&catalog, "bari").await);
        catalog.put_heat(Some(&alto), vec![value("a", Some("1")), value("b", Some("2"))]).await.unwrap();
        catalog.put_heat(Some(&bari), vec![value("a", Some("3"))]).await.unwrap();
        catalog.put_heat(None, vec![value("a", Some("4"))]).await.unwrap();
        catalog.put_heat(Some(&alto), vec![value("a", None)]).await.unwrap();
        assert_eq!(texts(&catalog).await, ["/a=4", "alto/b=2", "bari/a=3"]);
        catalog.drop_tenant(&alto.id, "keyspan", 5).await.unwrap();
        assert_eq!(texts(&catalog).await, ["/a=4", "bari/a=3"]);
        let error = catalog.put_heat(Some(&alto), vec![value("a", Some("5"))]).await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::NoTenant);
        let again = tenant(&catalog, "alto").await;
        assert_ne!(again.oid, alto.oid);
        assert!(catalog.put_heat(Some(&alto), vec![value("a", Some("5"))]).await.is_err());
    }
}
