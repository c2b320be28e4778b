//! `INSERT` of new rows, without ON CONFLICT and RETURNING: a commit, or a load if there are more rows than a commit
//! holds.
//!
//! ```text
//! source ─► rows of one commit, at most ─┬─ the source ends ──────► write set ─► the session
//!                                        └─ else ─► load, in parts ─► all rows become visible together
//! ```
//!
//! The source is read once, at the statement's pin: it may be the table itself. Where no load is possible, since the
//! statement is part of a transaction, or the table keeps history or merges cells, the bounds of a commit hold.

use super::{Failed, Load, PART_BYTES_MAX};
use crate::{
    dml::{
        insert::{LOOKUP_ROWS, NewRow, NewRows, check_rows, put_new},
        returning::Returned,
        target::Target,
    },
    pg::error::Result,
    query::Query,
    session::Session,
    write_set::{CELLS_MAX, WriteSet},
};
use std::collections::HashSet;

/// What became of the rows.
pub(crate) enum Inserted {
    /// They are to be written, so many.
    Rows(WriteSet, u64),
    /// They are stored, so many.
    Stored(u64),
}

/// Rows that wait until it is known whether they fit into a commit.
#[derive(Default)]
struct Waiting {
    rows: Vec<NewRow>,
    cells: usize,
    bytes: usize,
}

impl Waiting {
    fn add(&mut self, target: &Target, rows: Vec<NewRow>) {
        self.cells += rows.iter().map(|row| row.cells(target)).sum::<usize>();
        self.bytes += rows.iter().map(NewRow::bytes).sum::<usize>();
        self.rows.extend(rows);
    }

    fn are_too_many(&self) -> bool {
        self.cells > CELLS_MAX || self.bytes > PART_BYTES_MAX
    }
}

/// Reads the rows of an INSERT, and stores them if they are more than a commit holds.
///
/// # Errors
/// Those of the rows, 23514, 23505; 54000 where the bounds of a commit hold; those of [`Load::write`].
pub(crate) async fn run(
    session: &mut Session,
    (query, target): (&Query, &Target),
    mut source: NewRows,
) -> Result<Inserted> {
    let (mut waiting, mut may_load) = (Waiting::default(), true);
    let (mut written, mut seen, mut count) = (WriteSet::counted(query.view.memory.clone()), HashSet::new(), 0);
    loop {
        let rows = source.next(query, target).await?;
        let ended = rows.is_none();
        waiting.add(target, rows.unwrap_or_default());
        if may_load && waiting.are_too_many() {
            match Load::whole(session, query.view.clone(), target.table.clone()).await? {
                Some(load) => return load_all(session, (query, target), load, (waiting.rows, source)).await,
                None => may_load = false,
            }
        }
        if ended || !may_load {
            let mut rows = std::mem::take(&mut waiting.rows).into_iter();
            loop {
                let chunk: Vec<NewRow> = rows.by_ref().take(LOOKUP_ROWS).collect();
                if chunk.is_empty() {
                    break;
                }
                check_rows(query, target, &chunk).await?;
                let mut returned = Returned::new(None);
                let into = (&mut written, &mut returned);
                count += put_new((&query.view, target), chunk, false, &mut seen, into).await?;
            }
        }
        if ended {
            return Ok(Inserted::Rows(written, count));
        }
    }
}

/// Loads rows that were read, and the rest of the source.
async fn load_all(
    session: &mut Session,
    (query, target): (&Query, &Target),
    mut load: Load,
    (first, mut source): (Vec<NewRow>, NewRows),
) -> Result<Inserted> {
    let needs = query.statement_context().needs.clone();
    let (mut rows, mut count) = (Some(first), 0);
    while let Some(some) = rows {
        for row in some {
            load.put(row);
            count += 1;
            if load.is_full() {
                session.authorize(&needs)?;
                load.write(session, false).await.map_err(|Failed { error, .. }| error)?;
            }
        }
        rows = source.next(query, target).await?;
    }
    session.authorize(&needs)?;
    load.write(session, true).await.map_err(|Failed { error, .. }| error)?;
    Ok(Inserted::Stored(count))
}
