//! Queries: a DataFusion session for each statement, over the tables that its [`View`] sees.

use crate::{error::Result, session::Session, view::View};
use datafusion::{
    execution::SendableRecordBatchStream, logical_expr::LogicalPlan, prelude::SessionContext, sql::sqlparser::ast,
};

/// A DataFusion session in which one statement is planned and run.
pub struct Query {
    /// DataFusion's.
    pub context: SessionContext,
    /// What it sees.
    pub view: View,
}

impl Query {
    /// Makes the session for one statement: tables of the view's snapshot (with a leading `tenant` column for the operator),
    /// `pg_catalog`, `information_schema`, functions, PostgreSQL's semantics.
    ///
    /// # Errors
    /// What a definition contradicts.
    pub fn new(session: &Session, view: View) -> Result<Self> {
        let _ = (session, view);
        todo!()
    }

    /// Plans a parsed query, with types of parameters inferred where they can be.
    ///
    /// # Errors
    /// What is wrong with the query, with its SQLSTATE.
    pub async fn plan(&self, query: &ast::Statement) -> Result<LogicalPlan> {
        let _ = query;
        todo!()
    }

    /// Runs a plan whose parameters were replaced by values.
    ///
    /// # Errors
    /// What planning further finds.
    pub async fn run(&self, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
        let _ = plan;
        todo!()
    }
}
