//! The store of a server that cannot even be named: every request fails with the same reason.

use super::*;

/// A store that fails all requests.
#[derive(Debug)]
pub struct Down(String);

impl Down {
    /// A store that says why it is down.
    pub fn new(why: &Error) -> Self {
        Self(why.to_string())
    }

    fn error(&self) -> Error {
        Error::Unreachable(self.0.clone())
    }
}

#[async_trait]
impl Store for Down {
    async fn create_table(&self, _: &TableName, _: TableSchema) -> Result<()> {
        Err(self.error())
    }

    async fn drop_table(&self, _: &TableName) -> Result<()> {
        Err(self.error())
    }

    async fn tables(&self) -> Result<Vec<(TableName, TableSchema)>> {
        Err(self.error())
    }

    async fn modify_families(&self, _: &TableName, _: Vec<FamilyChange>) -> Result<()> {
        Err(self.error())
    }

    async fn pin(&self) -> Result<Pin> {
        Err(self.error())
    }

    fn scan(&self, _: &TableName, _: Scan) -> RowStream {
        failed(self.error())
    }

    async fn sample_row_keys(&self, _: &TableName) -> Result<Vec<RowSample>> {
        Err(self.error())
    }

    async fn commit(&self, _: Commit) -> Result<i64> {
        Err(self.error())
    }

    async fn mutate_rows(&self, _: &TableName, _: Vec<RowMutation>) -> Result<Vec<Result<()>>> {
        Err(self.error())
    }

    async fn check_and_mutate(&self, _: &TableName, _: CheckAndMutate) -> Result<bool> {
        Err(self.error())
    }

    async fn read_modify_write(&self, _: &TableName, _: RowKey, _: Vec<ReadModifyWrite>) -> Result<Row> {
        Err(self.error())
    }

    async fn drop_row_range(&self, _: &TableName, _: Bytes) -> Result<()> {
        Err(self.error())
    }

    /// Those of no store: nothing that is promised here is relied on.
    fn promises(&self) -> Promises {
        Promises {
            atomicity: crate::Atomicity::Row,
            snapshots: false,
            history: false,
            purge: false,
            exact_samples: false,
            ..Promises::local()
        }
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}
