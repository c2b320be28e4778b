//! ReadRows: a stream of rows that outlives the streams of the server.
//!
//! A [`ReadRows`] says what is wanted. When a stream breaks, the next one asks for what is left: the rows behind the
//! last key that was committed or scanned, and the limit less the rows that came. **When nothing is left, nothing is
//! asked**: a request without rows would be one for every row. Many ranges are asked for one request after the other.

use crate::{
    Client, Error, Result,
    chunks::Merger,
    retry::{Operation, timed_out},
};
use bytes::Bytes;
use futures::{Stream, stream};
use keyspan_bigtable_api::data::{
    self, ReadRowsRequest, ReadRowsResponse, RowFilter, RowRange,
    row_range::{EndKey, StartKey},
};
use keyspan_storage::{FamilyName, KeyRange, RowKey, RowSet};
use tokio::time::{Instant, sleep, timeout};
use tonic::Streaming;

/// Ranges of one request.
pub const REQUEST_RANGES_MAX: usize = 1_000;
/// A read of no more rows takes the time of a round trip.
const SMALL_ROWS_MAX: u64 = 16;
/// Bytes of the keys of one request.
pub const REQUEST_KEY_BYTES_MAX: usize = 400 << 10;

/// One timestamped value, as the server sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCell {
    /// The column family.
    pub family: FamilyName,
    /// The column within its family.
    pub qualifier: Bytes,
    /// Microseconds since 1970.
    pub timestamp_micros: i64,
    /// The value.
    pub value: Bytes,
    /// What a filter has labelled it with.
    pub labels: Vec<String>,
}

/// A row, its cells in the order in which the server sent them: families come in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRow {
    /// The key.
    pub key: RowKey,
    /// The cells.
    pub cells: Vec<ApiCell>,
}

/// A read of rows.
#[derive(Clone, Debug)]
pub struct ReadRows {
    /// The rows.
    pub rows: RowSet,
    /// What of them.
    pub filter: Option<RowFilter>,
    /// Maximum number of rows; `None` for all.
    pub rows_max: Option<u64>,
    /// Whether keys descend.
    pub reversed: bool,
}

impl ReadRows {
    /// Whether there is anything to ask for.
    fn is_done(&self) -> bool {
        self.rows.is_empty() || self.rows_max == Some(0)
    }

    /// Leaves out what a stream has given: rows up to this key.
    fn go_on_behind(&mut self, key: &[u8]) {
        let rest = if self.reversed {
            KeyRange::new(Bytes::new(), Some(Bytes::copy_from_slice(key)))
        } else {
            KeyRange::new([key, &[0]].concat(), None)
        };
        self.rows = self.rows.intersect(&rest.into());
    }

    /// The first rows, as many as one request takes, and the rest.
    fn split(&self) -> (Vec<KeyRange>, Vec<KeyRange>) {
        let mut bytes = 0;
        let mut fits = |range: &KeyRange| {
            bytes += range.start.len() + range.end.as_ref().map_or(0, Bytes::len);
            bytes <= REQUEST_KEY_BYTES_MAX
        };
        let all = self.rows.ranges();
        if self.reversed {
            let count = all.iter().rev().take(REQUEST_RANGES_MAX).take_while(|range| fits(range)).count().max(1);
            let (rest, first) = all.split_at(all.len().saturating_sub(count));
            (first.to_vec(), rest.to_vec())
        } else {
            let count = all.iter().take(REQUEST_RANGES_MAX).take_while(|range| fits(range)).count().max(1);
            let (first, rest) = all.split_at(count.min(all.len()));
            (first.to_vec(), rest.to_vec())
        }
    }
}

impl Client {
    /// Reads rows: batches as messages bring them, none empty. The stream ends after an error.
    pub fn read_rows(&self, table: &str, read: ReadRows) -> impl Stream<Item = Result<Vec<ApiRow>>> + Send + use<> {
        let reading = Reading {
            client: self.clone(),
            table: table.to_owned(),
            read,
            rest: Vec::new(),
            operation: self.operation(),
            current: None,
            asked: None,
        };
        stream::try_unfold(reading, async |mut reading| Ok(reading.next().await?.map(|rows| (rows, reading))))
    }
}

/// A read in progress.
struct Reading {
    client: Client,
    table: String,
    /// What is left of the current request.
    read: ReadRows,
    /// The ranges of later requests.
    rest: Vec<KeyRange>,
    operation: Operation,
    current: Option<(Streaming<ReadRowsResponse>, Merger)>,
    /// When a small read was asked for, until its first answer.
    asked: Option<Instant>,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<Vec<ApiRow>>> {
        loop {
            if self.current.is_none() && !self.begin()? {
                return Ok(None);
            }
            let failure = match timeout(self.operation.attempt_timeout(Instant::now()), self.step()).await {
                Ok(Ok(Some(rows))) if rows.is_empty() => continue,
                Ok(Ok(Some(rows))) => return Ok(Some(rows)),
                // What the request asked for has come.
                Ok(Ok(None)) => {
                    self.read.rows = RowSet::none();
                    continue;
                }
                Ok(Err(Error::Status(failure))) => *failure,
                Ok(Err(other)) => return Err(other),
                Err(_) => timed_out(),
            };
            self.break_off();
            sleep(self.operation.again(failure, Instant::now())?).await;
        }
    }

    /// Whether there is something to ask for; takes the ranges of the next request when the last one is through.
    fn begin(&mut self) -> Result<bool> {
        if self.read.rows.is_empty() {
            self.read.rows = RowSet::new(std::mem::take(&mut self.rest));
        }
        if self.read.is_done() {
            return Ok(false);
        }
        let (first, rest) = self.read.split();
        if !rest.is_empty() {
            (self.read.rows, self.rest) = (RowSet::new(first), [rest, std::mem::take(&mut self.rest)].concat());
        }
        Ok(true)
    }

    /// The rows that the next message completes; none at the end of the stream.
    async fn step(&mut self) -> Result<Option<Vec<ApiRow>>> {
        if self.current.is_none() {
            let request = self.client.request(&self.table, self.message(), &self.operation).await?;
            self.asked = self.read.rows_max.filter(|most| *most <= SMALL_ROWS_MAX).map(|_| Instant::now());
            let stream = self.client.0.data.clone().read_rows(request).await?.into_inner();
            self.current = Some((stream, Merger::new(self.read.reversed)));
        }
        let Some((stream, merger)) = &mut self.current else { return Ok(None) };
        let message = stream.message().await?;
        if let Some(asked) = self.asked.take() {
            self.client.answered(asked);
        }
        let Some(message) = message else {
            if let Some((_, merger)) = self.current.take() {
                merger.finish()?;
            }
            return Ok(None);
        };
        let mut rows = Vec::new();
        for chunk in message.chunks {
            rows.extend(merger.push(chunk)?);
        }
        if !message.last_scanned_row_key.is_empty() {
            merger.scanned(message.last_scanned_row_key)?;
            self.operation.progressed(Instant::now());
        }
        if !rows.is_empty() {
            self.operation.progressed(Instant::now());
            if let Some(most) = &mut self.read.rows_max {
                let came = rows.len() as u64;
                *most = most.checked_sub(came).ok_or(Error::Protocol("more rows came than were asked for"))?;
            }
        }
        Ok(Some(rows))
    }

    /// Ends the current stream: the next one goes on behind its last key.
    fn break_off(&mut self) {
        if let Some((_, merger)) = self.current.take()
            && let Some(key) = merger.last_key()
        {
            self.read.go_on_behind(key);
        }
    }

    fn message(&self) -> ReadRowsRequest {
        let settings = &self.client.0.settings;
        ReadRowsRequest {
            table_name: settings.table_name(&self.table),
            app_profile_id: settings.app_profile.clone(),
            rows: Some(rows_of(self.read.rows.ranges())),
            filter: self.read.filter.clone(),
            rows_limit: self.read.rows_max.map_or(0, |most| i64::try_from(most).unwrap_or(i64::MAX)),
            reversed: self.read.reversed,
            ..ReadRowsRequest::default()
        }
    }
}

/// The ranges as the API writes them; at least one, since none would be all.
fn rows_of(ranges: &[KeyRange]) -> data::RowSet {
    let mut rows = data::RowSet::default();
    for range in ranges {
        match range.as_point() {
            Some(key) if !key.is_empty() => rows.row_keys.push(Bytes::copy_from_slice(key)),
            _ => rows.row_ranges.push(RowRange {
                start_key: start_of(&range.start),
                end_key: range.end.clone().map(EndKey::EndKeyOpen),
            }),
        }
    }
    rows
}

/// The least key: the one behind a key is said to be that, as other clients say it.
fn start_of(start: &Bytes) -> Option<StartKey> {
    match start.strip_suffix(&[0]) {
        Some(before) if !before.is_empty() => Some(StartKey::StartKeyOpen(start.slice(..before.len()))),
        _ => (!start.is_empty()).then(|| StartKey::StartKeyClosed(start.clone())),
    }
}

#[cfg(test)]
mod tests;
