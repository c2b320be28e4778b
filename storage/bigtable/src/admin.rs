//! Tables and families.

use crate::{Client, Error, Result, retry::Operation};
use bytes::Bytes;
use keyspan_bigtable_api::admin::{
    CreateTableRequest, DeleteTableRequest, DropRowRangeRequest, GetTableRequest, ListTablesRequest,
    ModifyColumnFamiliesRequest, Table, drop_row_range_request::Target, modify_column_families_request::Modification,
    table::View,
};
use tokio::time::{Instant, sleep};
use tonic::{Code, Status};

/// Pages of a list of tables; an instance has a thousand tables.
const PAGES_MAX: usize = 1_000;

impl Client {
    /// Creates a table.
    ///
    /// # Errors
    /// `ALREADY_EXISTS`, and what the server finds wrong.
    pub async fn create_table(&self, id: &str, table: Table) -> Result<()> {
        let message = CreateTableRequest {
            parent: self.0.settings.instance_name(),
            table_id: id.into(),
            table: Some(table),
            initial_splits: Vec::new(),
        };
        let mut operation = self.admin_operation();
        let send = |request| {
            let mut client = self.0.admin.clone();
            async move { client.create_table(request).await }
        };
        self.unary(&mut operation, id, message, false, send).await.map(drop)
    }

    /// Deletes a table and its rows. The server keeps it for some days, in case someone wants it back.
    ///
    /// # Errors
    /// `NOT_FOUND`, and what the server finds wrong.
    pub async fn delete_table(&self, id: &str) -> Result<()> {
        let message = DeleteTableRequest { name: self.0.settings.table_name(id) };
        let mut operation = self.admin_operation();
        let send = |request| {
            let mut client = self.0.admin.clone();
            async move { client.delete_table(request).await }
        };
        self.unary(&mut operation, id, message, false, send).await
    }

    /// The names of the tables, in no order.
    ///
    /// # Errors
    /// Those of the server.
    pub async fn list_tables(&self) -> Result<Vec<String>> {
        let parent = self.0.settings.instance_name();
        let (mut names, mut page_token) = (Vec::new(), String::new());
        for _ in 0..PAGES_MAX {
            let view = View::NameOnly.into();
            let message = ListTablesRequest { parent: parent.clone(), view, page_size: 0, page_token };
            let mut operation = self.admin_operation();
            let send = |request| {
                let mut client = self.0.admin.clone();
                async move { client.list_tables(request).await }
            };
            let page = self.unary(&mut operation, "", message, true, send).await?;
            let id = |table: &Table| table.name.rsplit('/').next().map(str::to_owned);
            names.extend(page.tables.iter().filter_map(id));
            if page.next_page_token.is_empty() {
                return Ok(names);
            }
            page_token = page.next_page_token;
        }
        Err(Error::Protocol("a list of tables has no end"))
    }

    /// A table and its families.
    ///
    /// # Errors
    /// `NOT_FOUND`, and other errors of the server.
    pub async fn get_table(&self, id: &str) -> Result<Table> {
        let message = GetTableRequest { name: self.0.settings.table_name(id), view: View::SchemaView.into() };
        // Reads and writes of rows wait for it.
        let mut operation = self.operation();
        let send = |request| {
            let mut client = self.0.admin.clone();
            async move { client.get_table(request).await }
        };
        self.unary(&mut operation, id, message, true, send).await
    }

    /// Creates, changes and drops families; returns the table after it.
    ///
    /// # Errors
    /// What the server finds wrong.
    pub async fn modify_families(&self, id: &str, modifications: Vec<Modification>) -> Result<Table> {
        let name = self.0.settings.table_name(id);
        // Warnings are about rules that keep more than before in replicated tables: the caller has decided.
        let message = ModifyColumnFamiliesRequest { name, modifications, ignore_warnings: true };
        let mut operation = self.admin_operation();
        let send = |request| {
            let mut client = self.0.admin.clone();
            async move { client.modify_column_families(request).await }
        };
        self.unary(&mut operation, id, message, false, send).await
    }

    /// Deletes the rows whose keys start with `prefix`, which is not empty. Waits while the server is at another such
    /// deletion of the table.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for an empty prefix, before it is sent; errors of the server.
    pub async fn drop_row_range(&self, id: &str, prefix: Bytes) -> Result<()> {
        if prefix.is_empty() {
            return Err(Status::invalid_argument("a prefix to drop is empty").into());
        }
        let name = self.0.settings.table_name(id);
        let message = DropRowRangeRequest { name, target: Some(Target::RowKeyPrefix(prefix)) };
        let mut operation = self.admin_operation();
        let send = |request| {
            let mut client = self.0.admin.clone();
            async move { client.drop_row_range(request).await }
        };
        loop {
            match self.unary(&mut operation, id, message.clone(), true, &send).await {
                Err(Error::Status(failure)) if is_ongoing(&failure) => {
                    let patient = Status::unavailable(failure.message());
                    sleep(operation.again(patient, Instant::now())?).await;
                }
                other => return other,
            }
        }
    }

    fn admin_operation(&self) -> Operation {
        let most = self.0.settings.admin_timeout;
        self.operation_within(most, most)
    }
}

/// Whether the server is at another deletion of rows.
fn is_ongoing(failure: &Status) -> bool {
    failure.code() == Code::FailedPrecondition && failure.message().contains("already ongoing")
}
