//! Tables and their families.

use super::{
    Inner,
    schema::{self, column_family, modification, rule_of, table_of},
};
use keyspan_bigtable_api::admin::{ColumnFamily, modify_column_families_request::modification::Mod};
use keyspan_storage::{Error, FamilyChange, Result, TableName, TableSchema, model::limits::TABLES_MAX};

impl Inner {
    pub(super) async fn create_table(&self, table: &TableName, schema: TableSchema) -> Result<()> {
        self.check_open()?;
        schema.check()?;
        // Bigtable's names begin with a letter, a digit or an underscore.
        if table.as_str().starts_with(['-', '.']) {
            return Err(Error::Invalid(format!("the table name {table:?} cannot begin like that in Bigtable")));
        }
        let count = self.client.list_tables().await.map_err(super::convert::error)?.len() + 1;
        if count > TABLES_MAX {
            return Err(Error::TooMany { what: "tables", count, limit: TABLES_MAX });
        }
        self.forget(table);
        let created = self.client.create_table(table.as_str(), table_of(&schema)?).await;
        created.map_err(|error| self.error(table, error))
    }

    /// All tables. Those whose names or families no store can have are left out, with a warning.
    pub(super) async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        self.check_open()?;
        let mut tables = Vec::new();
        for name in self.client.list_tables().await.map_err(super::convert::error)? {
            let found = match TableName::new(&name) {
                Ok(table) => self.refreshed(&table).await.map(|known| (table, known.schema.clone())),
                Err(error) => Err(error),
            };
            match found {
                Ok(found) => tables.push(found),
                // It was dropped meanwhile.
                Err(Error::NoTable(_)) => {}
                Err(error @ (Error::Invalid(_) | Error::Unsupported(_))) => {
                    tracing::warn!(table = name, %error, "a table in Bigtable is not shown");
                }
                Err(error) => return Err(error),
            }
        }
        tables.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(tables)
    }

    pub(super) async fn modify_families(&self, table: &TableName, changes: Vec<FamilyChange>) -> Result<()> {
        // The server may apply a part of a list that it refuses: it is checked here against what the server has now.
        let known = self.refreshed(table).await?;
        let (mut after, now_micros) = (known.schema.clone(), self.now());
        let mut modifications = Vec::new();
        for change in changes {
            after = after.changed(table, change.clone(), now_micros)?;
            modifications.push(match change {
                FamilyChange::Create(name, family) => {
                    schema::check_name(&name)?;
                    modification(&name, Mod::Create(column_family(&family)?))
                }
                FamilyChange::SetGc(name, rule) => {
                    let family = ColumnFamily { gc_rule: Some(rule_of(&rule)?), value_type: None };
                    modification(&name, Mod::Update(family))
                }
                FamilyChange::Drop(name) => modification(&name, Mod::Drop(true)),
                FamilyChange::SetErased(..) => return Err(schema::no_erasure()),
                FamilyChange::SetHistory(_) => {
                    return Err(Error::Unsupported("a table in Bigtable keeps no history".into()));
                }
            });
        }
        after.check()?;
        if modifications.is_empty() {
            return Ok(());
        }
        let modified = self.client.modify_families(table.as_str(), modifications).await;
        self.forget(table);
        modified.map(drop).map_err(|error| self.error(table, error))
    }
}
