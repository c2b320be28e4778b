//! A load of rows here: what it relies on is pinned in all stores.

use super::RoutedStore;
use crate::{Error, Load, NewRows, Result, TableName, Validation};
use async_trait::async_trait;
use std::collections::BTreeSet;

/// A load of the store here.
#[derive(Debug)]
pub(super) struct RoutedLoad {
    load: Box<dyn Load>,
    /// The tables that were on servers when it was begun.
    routed: BTreeSet<TableName>,
}

impl RoutedLoad {
    pub(super) fn new(load: Box<dyn Load>, routed: BTreeSet<TableName>) -> Self {
        Self { load, routed }
    }
}

#[async_trait]
impl Load for RoutedLoad {
    async fn add(&mut self, rows: NewRows) -> Result<()> {
        self.load.add(rows).await
    }

    async fn seal(&mut self) -> Result<()> {
        self.load.seal().await
    }

    async fn finish(&mut self, validation: Option<Validation>) -> Result<i64> {
        let validation = match validation {
            Some(Validation { rows, .. }) if rows.iter().any(|(table, _)| self.routed.contains(table)) => {
                return Err(Error::Unsupported("a write here cannot rely on rows of a server".into()));
            }
            Some(Validation { pin, rows }) => Some(Validation { pin: RoutedStore::part(&pin, None)?, rows }),
            None => None,
        };
        self.load.finish(validation).await
    }
}
