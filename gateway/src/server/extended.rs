//! The extended protocol: Parse, Bind, Describe, Execute, Close.

use crate::{
    execute::{
        Outcome,
        text::{FromText, Parsed},
    },
    pg::{
        codec::{format::Format, parameter},
        datetime::Style,
        error::{Result, SqlError, SqlState},
        types::ParameterType,
    },
    resources::Held,
    rights::Needs,
    server::{
        connection::{Connection, Failure},
        copy,
        counting::End,
        rows::{Form, RowsUnderWay},
    },
    session::{NamedStatement, Prepared, Source, kept_bytes},
    sql::ast::{
        Statement,
        session::{Setting, Transaction},
    },
    statistics::Kind,
    wire::{
        encoder::RowEncoder,
        frontend::{Bind, Target},
        reply,
    },
};
use arrow::datatypes::SchemaRef;
use datafusion::scalar::ScalarValue;
use pgwire::api::Type;
use std::sync::{Arc, OnceLock};

/// Portals of a connection, at most.
const PORTALS_MAX: usize = 256;

/// A statement with its parameters.
pub(crate) struct Portal {
    statement: Arc<NamedStatement>,
    encoder: Option<RowEncoder>,
    formats: Vec<Format>,
    state: PortalState,
    /// The memory of its values.
    _held: Held,
}

impl Portal {
    /// The encoder of its rows: that of the columns that were told, if some were.
    fn encoder_of(&self, columns: SchemaRef, style: &Arc<Style>) -> Result<RowEncoder> {
        match &self.encoder {
            Some(encoder) => Ok(encoder.clone()),
            None => RowEncoder::new(columns, &self.formats, style.clone()),
        }
    }
}

enum PortalState {
    Bound(Vec<ScalarValue>),
    /// With the rights that the rows need.
    Running(RowsUnderWay, Arc<Needs>),
    Done,
}

impl Connection {
    /// Prepares a statement.
    pub(crate) async fn parse(&mut self, name: String, sql: &str, types: &[u32]) -> Result<(), Failure> {
        self.session.statements.check_free(&name, sql)?;
        if name.is_empty() {
            self.session.statements.remove("");
        }
        let declared: Vec<_> = types.iter().map(|oid| Type::from_oid(*oid)).collect();
        let parsed = self.parse_long(sql).await?;
        let prepared = match self.session.statement(sql, parsed, types)? {
            None => None,
            Some(FromText::Cached(prepared)) => Some(prepared),
            Some(FromText::Parsed(parsed)) => Some(self.prepare_parsed(*parsed, sql, &declared).await?),
        };
        let wanted = prepared.as_ref().map_or(&[][..], |prepared| &prepared.parameters);
        let types: Vec<Type> = wanted
            .iter()
            .enumerate()
            .map(|(at, data)| match declared.get(at) {
                Some(Some(kind)) if *kind != Type::UNKNOWN => kind.clone(),
                _ => data.pg_type(),
            })
            .collect();
        if let Some(prepared) = &prepared {
            prepared.note_text((sql, 0));
        }
        // One without a name is gone with the next, and shown nowhere.
        let text = if name.is_empty() { String::new() } else { sql.to_owned() };
        let at_micros = self.session.instance.clock.now_micros();
        let source = Source { text, at_micros, by_statement: false };
        let bytes = kept_bytes(&name, sql);
        let statement = NamedStatement { prepared, types, encoder: OnceLock::new(), source, bytes };
        self.session.statements.insert(name, statement)?;
        reply::parse_complete(&mut self.output.buffer);
        Ok(())
    }

    /// Analyses a statement of a text.
    async fn prepare_parsed(
        &mut self,
        parsed: Parsed,
        sql: &str,
        declared: &[Option<Type>],
    ) -> Result<Prepared, Failure> {
        let hints: Vec<_> = declared.iter().map(|kind| kind.as_ref().and_then(ParameterType::declared)).collect();
        let (mut guard, session, _) = self.begin();
        let prepared = guard.run(session.prepare_parsed(parsed, &hints)).await;
        prepared?.map_err(|error| Failure::from(error).with_position((sql, 0), &self.session.identity.database))
    }

    /// Makes a portal.
    pub(crate) fn bind(&mut self, bind: Bind) -> Result<()> {
        let statement = self.session.statements.get(&bind.statement)?;
        if !bind.portal.is_empty() && self.portals.contains_key(&bind.portal) {
            let message = format!("cursor \"{}\" already exists", bind.portal);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        if !self.portals.contains_key(&bind.portal) && self.portals.len() >= PORTALS_MAX {
            let message = format!("a connection has at most {PORTALS_MAX} portals");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let NamedStatement { prepared, types, .. } = &*statement;
        if bind.values.len() != types.len() {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {}",
                bind.values.len(),
                bind.statement,
                types.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        let formats = Format::for_each(&bind.formats, types.len(), "parameter")?;
        let wanted = prepared.as_ref().map_or(&[][..], |prepared| &prepared.parameters);
        let values = bind.values.iter().zip(types).zip(formats).zip(wanted);
        let input = self.session.input();
        let values = values.map(|(((value, kind), format), data)| {
            parameter::decode(value.as_deref(), kind, format, &data.data, input.input())
        });
        let values = values.collect::<Result<Vec<_>>>()?;
        let encoder = statement.encoder(self.session.style())?;
        let encoder = encoder.map(|encoder| encoder.with_formats(&bind.results)).transpose()?;
        let state = PortalState::Bound(values);
        let bytes = bind.values.iter().flatten().map(|value| value.len()).sum();
        let mut held = self.session.held();
        held.resize_for(bytes, "Run or close portals before more are bound.")?;
        self.portals.insert(bind.portal, Portal { statement, encoder, formats: bind.results, state, _held: held });
        reply::bind_complete(&mut self.output.buffer);
        Ok(())
    }

    /// Tells columns, and of a statement its parameters.
    pub(crate) fn describe(&mut self, target: &Target) -> Result<()> {
        let encoder = match target {
            Target::Statement(name) => {
                let statement = self.session.statements.get(name)?;
                reply::parameters(statement.types.iter().map(Type::oid), &mut self.output.buffer);
                statement.encoder(self.session.style())?
            }
            Target::Portal(name) => match self.portals.get(name) {
                Some(portal) => portal.encoder.clone(),
                // A cursor of DECLARE is a portal too: drivers ask for its columns before they FETCH.
                None => {
                    let columns = self.session.cursor_columns(name).ok_or_else(|| no_portal(name))?;
                    Some(RowEncoder::new(columns, &[], self.session.style().clone())?)
                }
            },
        };
        match encoder {
            Some(encoder) => encoder.describe(&mut self.output.buffer),
            None => reply::no_data(&mut self.output.buffer),
        }
        Ok(())
    }

    /// Runs a portal, or runs it on.
    pub(crate) async fn execute(&mut self, name: String, rows_max: Option<u64>) -> Result<(), Failure> {
        // Out of the map while it runs: a portal that fails is gone.
        let mut portal = self.portals.remove(&name).ok_or_else(|| no_portal(&name))?;
        self.session.received_again(&portal.statement.source.text);
        let kind = portal.statement.prepared.as_ref().map_or(Kind::Utility, |prepared| Kind::of(&prepared.statement));
        let begun = self.begun(kind);
        let done = self.execute_portal(&mut portal, rows_max).await;
        if let Some(prepared) = &portal.statement.prepared {
            let end = match &done {
                Ok(Reply::Complete(tag)) => End::Done(prepared, tag),
                Ok(Reply::Suspended | Reply::Empty) => End::Done(prepared, ""),
                Err(failure) => End::Failed(Some(prepared), failure.state()),
            };
            self.ended(&begun, &end, ("", 0));
        }
        let reply = done?;
        self.tell_notices();
        match reply {
            Reply::Complete(tag) => {
                if let Some(prepared) = &portal.statement.prepared {
                    self.completed(&prepared.statement.clone());
                }
                reply::complete(&tag, &mut self.output.buffer);
            }
            Reply::Suspended => reply::suspended(&mut self.output.buffer),
            Reply::Empty => reply::empty(&mut self.output.buffer),
        }
        self.portals.insert(name, portal);
        Ok(())
    }

    async fn execute_portal(&mut self, portal: &mut Portal, rows_max: Option<u64>) -> Result<Reply, Failure> {
        let Some(prepared) = &portal.statement.prepared else { return Ok(Reply::Empty) };
        // A portal runs on for as long as its session has rights.
        self.session.check_rights()?;
        let (mut guard, session, output) = self.begin();
        let _admitted = guard.admit(&prepared.statement).await?;
        if let PortalState::Bound(values) = &mut portal.state {
            let values = std::mem::take(values);
            portal.state = PortalState::Done;
            match guard.run(session.execute(prepared, values)).await?? {
                Outcome::Rows { tag, rows, needs } => {
                    let encoder = portal.encoder_of(rows.schema(), session.style())?;
                    portal.state = PortalState::Running(RowsUnderWay::new(tag, rows, Form::Rows(encoder)), needs);
                }
                Outcome::Found { rows, needs } => {
                    let encoder = portal.encoder_of(rows.schema().clone(), session.style())?;
                    portal.state = PortalState::Running(RowsUnderWay::found(rows, encoder), needs);
                }
                // As in PostgreSQL, the number of rows that Execute asks for does not bound a COPY.
                Outcome::CopyOut { rows, options } => {
                    let sent = copy::begin_out(rows, options, session, output)?.send(None, &mut guard, output).await?;
                    return Ok(Reply::Complete(sent.unwrap_or_default()));
                }
                Outcome::CopyIn(copy) => {
                    return Ok(Reply::Complete(copy::take(*copy, &mut guard, session, output).await?));
                }
                Outcome::Done(tag) => return Ok(Reply::Complete(tag)),
                Outcome::Empty => return Ok(Reply::Empty),
            }
        }
        let PortalState::Running(rows, needs) = &mut portal.state else {
            // Its rows were all sent before: there are none left.
            return Ok(Reply::Complete("SELECT 0".to_owned()));
        };
        session.authorize(needs)?;
        Ok(match rows.send(rows_max, &mut guard, output).await? {
            Some(tag) => {
                portal.state = PortalState::Done;
                Reply::Complete(tag)
            }
            None => Reply::Suspended,
        })
    }

    /// Forgets a statement or a portal; one that is not there too.
    pub(crate) fn close(&mut self, target: &Target) {
        match target {
            Target::Statement(name) => self.session.statements.remove(name),
            Target::Portal(name) => drop(self.portals.remove(name)),
        }
        reply::close_complete(&mut self.output.buffer);
    }

    /// What a finished command means for portals.
    pub(crate) fn completed(&mut self, statement: &Statement) {
        match statement {
            Statement::Setting(Setting::Discard("ALL"))
            | Statement::Transaction(Transaction::Commit { .. } | Transaction::Rollback { .. }) => self.portals.clear(),
            _ => {}
        }
    }
}

enum Reply {
    Complete(String),
    Suspended,
    Empty,
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
}
