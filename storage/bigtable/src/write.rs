//! MutateRows: many rows, each by itself.
//!
//! Rows are sent in requests of bounded size, several at a time. Each row has a status; only those that failed for a
//! while, and may be repeated without harm, are sent again. A stream that breaks leaves rows without a status, which
//! are sent again as well.

use crate::{
    Client, Error, Result,
    retry::{Operation, asked_pause, is_transient, status_of, timed_out},
    settings::TIMEOUT_MARGIN,
};
use futures::{StreamExt, TryStreamExt, stream};
use keyspan_bigtable_api::{
    data::{MutateRowsRequest, Mutation, mutate_rows_request},
    rpc,
};
use keyspan_storage::RowKey;
use prost::Message;
use std::iter;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};

/// Rows of one request.
pub const REQUEST_ROWS_MAX: usize = 1_000;
/// Mutations of one request; a server takes no more.
pub const REQUEST_MUTATIONS_MAX: usize = 100_000;
/// Bytes after which a request ends.
pub const REQUEST_BYTES_TARGET: usize = 4 << 20;
/// Requests of one call at a time.
pub const REQUESTS_IN_FLIGHT: usize = 8;
/// Bytes of bulk writes of a client at a time. A larger row goes alone.
pub const BYTES_IN_FLIGHT_MAX: usize = 64 << 20;

/// The mutations of a row.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The row.
    pub key: RowKey,
    /// Applied in order.
    pub mutations: Vec<Mutation>,
    /// Whether they may be applied twice: they have no cell that the server stamps, and add nothing.
    pub repeatable: bool,
}

impl Client {
    /// Mutates many rows; returns a result for each, in order. Rows of one key are applied in any order.
    ///
    /// # Errors
    /// What keeps this client from asking at all. Everything else is an error of the rows concerned.
    pub async fn mutate_rows(
        &self,
        table: &str,
        entries: impl IntoIterator<Item = Entry, IntoIter: Send>,
    ) -> Result<Vec<Result<()>>> {
        // Entries are made when there is room for their request: others are under way meanwhile.
        let requests = stream::iter(requests_of(entries));
        let done = requests.map(|request| self.mutate_some(table, request)).buffered(REQUESTS_IN_FLIGHT);
        done.try_concat().await
    }

    /// The rows of one request, and how many bytes they have.
    async fn mutate_some(&self, table: &str, (entries, bytes): (Vec<Entry>, usize)) -> Result<Vec<Result<()>>> {
        let permits = u32::try_from(bytes.min(BYTES_IN_FLIGHT_MAX)).unwrap_or(u32::MAX);
        let held = self.0.in_flight.acquire_many(permits).await;
        let _held = held.map_err(|_| Error::from(Status::unavailable("the client is closed")))?;
        let mut operation = self.operation();
        let mut results: Vec<Option<Result<()>>> = vec![None; entries.len()];
        // The rows that are still to be done, by their number.
        let mut left: Vec<usize> = (0..entries.len()).collect();
        loop {
            let mut answers: Vec<Option<Status>> = vec![None; left.len()];
            let failure = self.attempt(table, &entries, &left, &mut answers, &operation).await?.err();
            let mut again = Vec::new();
            // The failure that says how long to wait.
            let mut reason = failure.clone();
            for (&number, answer) in left.iter().zip(answers) {
                // A server that has answered, but not for this row, would not do so at another time either.
                let missing = || failure.clone().unwrap_or_else(|| Status::internal("a row has no status"));
                let answer = answer.unwrap_or_else(missing);
                if answer.code() == Code::Ok {
                    results[number] = Some(Ok(()));
                } else if entries[number].repeatable && (is_transient(&answer) || asked_pause(&answer).is_some()) {
                    again.push((number, answer.clone()));
                    reason.get_or_insert(answer);
                } else {
                    results[number] = Some(Err(answer.into()));
                }
            }
            let pause = reason.filter(|_| !again.is_empty()).map(|reason| operation.again(reason, Instant::now()));
            match pause {
                None => break,
                Some(Ok(pause)) => sleep(pause).await,
                Some(Err(_)) => {
                    again.into_iter().for_each(|(number, answer)| results[number] = Some(Err(answer.into())));
                    break;
                }
            }
            left = again.into_iter().map(|(number, _)| number).collect();
        }
        let missing = || Err(timed_out().into());
        Ok(results.into_iter().map(|result| result.unwrap_or_else(missing)).collect())
    }

    /// One attempt for the rows that are left. The inner result is that of the stream.
    async fn attempt(
        &self,
        table: &str,
        entries: &[Entry],
        left: &[usize],
        answers: &mut [Option<Status>],
        operation: &Operation,
    ) -> Result<Result<(), Status>> {
        self.0.rate.wait().await;
        let entry = |&number: &usize| mutate_rows_request::Entry {
            row_key: entries[number].key.bytes().clone(),
            mutations: entries[number].mutations.clone(),
            idempotency: None,
        };
        let message = MutateRowsRequest {
            table_name: self.0.settings.table_name(table),
            app_profile_id: self.0.settings.app_profile.clone(),
            entries: left.iter().map(entry).collect(),
            ..MutateRowsRequest::default()
        };
        let most = operation.attempt_timeout(Instant::now());
        let mut request = self.request(table, message, operation).await?;
        request.set_timeout(most + TIMEOUT_MARGIN);
        Ok(self.answers(request, Instant::now() + most, answers).await)
    }

    async fn answers(
        &self,
        request: tonic::Request<MutateRowsRequest>,
        deadline: Instant,
        answers: &mut [Option<Status>],
    ) -> Result<(), Status> {
        let late = |_| timed_out();
        let mut client = self.0.data.clone();
        let mut stream = timeout_at(deadline, client.mutate_rows(request)).await.map_err(late)??.into_inner();
        while let Some(message) = timeout_at(deadline, stream.message()).await.map_err(late)?? {
            if let Some(info) = &message.rate_limit_info {
                self.0.rate.heed(info, Instant::now());
            }
            for entry in message.entries {
                let at = usize::try_from(entry.index).ok().and_then(|index| answers.get_mut(index));
                // A row that was not sent has no place; its status says nothing about the others.
                if let Some(at) = at {
                    *at = Some(status_of(&entry.status.unwrap_or_else(rpc::Status::default)));
                }
            }
        }
        Ok(())
    }
}

/// The rows, cut into requests, each with its bytes.
fn requests_of(entries: impl IntoIterator<Item = Entry>) -> impl Iterator<Item = (Vec<Entry>, usize)> {
    let mut entries = entries.into_iter();
    let mut next = entries.next();
    iter::from_fn(move || {
        let first = next.take()?;
        let (mut bytes, mut mutations) = (size(&first), first.mutations.len());
        let mut request = vec![first];
        for entry in entries.by_ref() {
            let (more_bytes, more) = (size(&entry), entry.mutations.len());
            let is_full = request.len() >= REQUEST_ROWS_MAX
                || mutations + more > REQUEST_MUTATIONS_MAX
                || bytes + more_bytes > REQUEST_BYTES_TARGET;
            if is_full {
                next = Some(entry);
                break;
            }
            bytes += more_bytes;
            mutations += more;
            request.push(entry);
        }
        Some((request, bytes))
    })
}

fn size(entry: &Entry) -> usize {
    entry.key.len() + entry.mutations.iter().map(Message::encoded_len).sum::<usize>()
}

#[cfg(test)]
mod tests;
