//! The audit log: who logged in or was refused, who defined, granted, dropped and exported what, which sessions were
//! ended.
//!
//! A line of JSON for each event, in `audit.jsonl`; a file that is full becomes `audit.1.jsonl`, and the oldest of
//! [`FILES`] goes. An event names roles, databases and relations, addresses and SQLSTATEs. No text of a statement, no
//! row key and no value is in it: a definition's text may hold some of each.
//!
//! A line is in the system's hands before the statement is answered; it is not synced. If it cannot be written the
//! server's log says so, and the statement goes on.

use crate::{lock::Mutex, pg::codec::time::write_timestamp};
use bytes::BytesMut;
use serde_json::{Map, Value};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Files of the log.
pub const FILES: u64 = 8;
/// The default bound of all files together.
pub const BYTES_MAX: u64 = 64 << 20;
/// Bytes of a text in a line: names are shorter.
const TEXT_BYTES_MAX: usize = 255;
/// Names in a line.
const NAMES_MAX: usize = 100;

/// The audit log of a server; a default one records nothing.
#[derive(Debug, Default)]
pub struct Audit(Option<Mutex<Log>>);

#[derive(Debug)]
struct Log {
    folder: PathBuf,
    file: File,
    bytes: u64,
    file_bytes_max: u64,
    /// Whether the last line could not be written.
    failed: bool,
}

/// An event, before it has its time.
#[derive(Clone, Debug)]
pub struct Event(Map<String, Value>);

impl Event {
    /// An event of a kind.
    pub fn new(kind: &'static str) -> Self {
        Self(Map::from_iter([("event".to_owned(), Value::from(kind))]))
    }

    /// With a text, cut to [`TEXT_BYTES_MAX`].
    #[must_use]
    pub fn text(self, name: &'static str, text: &str) -> Self {
        self.with(name, &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
    }

    /// With names, [`NAMES_MAX`] at most.
    #[must_use]
    pub fn names(self, name: &'static str, names: impl IntoIterator<Item = String>) -> Self {
        self.with(name, names.into_iter().take(NAMES_MAX).map(Value::from).collect::<Vec<_>>())
    }

    /// With another value.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// With who did it.
    #[must_use]
    pub fn by(self, role: &str, database: &str, process_id: i32) -> Self {
        self.text("role", role).text("database", database).with("pid", process_id)
    }
}

impl Audit {
    /// The log in a folder, which is made if it is not there. It goes on where it ended.
    ///
    /// # Errors
    /// The system's.
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let file = append(&path(folder, 0))?;
        let bytes = file.metadata()?.len();
        let file_bytes_max = (bytes_max / FILES).max(1);
        Ok(Self(Some(Mutex::new(Log { folder: folder.to_owned(), file, bytes, file_bytes_max, failed: false }))))
    }

    /// Writes an event that happened at a time in microseconds.
    pub fn record(&self, now_micros: i64, event: Event) {
        let Some(log) = &self.0 else { return };
        let mut line = serde_json::to_vec(&with_time(now_micros, event)).unwrap_or_default();
        line.push(b'\n');
        let mut log = log.lock();
        match log.write(&line) {
            Ok(()) if log.failed => {
                log.failed = false;
                tracing::warn!("the audit log is written again");
            }
            Ok(()) => {}
            Err(error) if !log.failed => {
                log.failed = true;
                tracing::error!(%error, folder = %log.folder.display(), "the audit log cannot be written");
            }
            Err(_) => {}
        }
    }
}

impl Log {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.file_bytes_max {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// Begins a new file; the oldest is written over.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (0..FILES - 1).rev() {
            match fs::rename(path(&self.folder, number), path(&self.folder, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.file = append(&path(&self.folder, 0))?;
        self.bytes = 0;
        Ok(())
    }
}

/// The event as a line says it: the time first, then what happened.
fn with_time(now_micros: i64, Event(fields): Event) -> Value {
    let mut time = BytesMut::new();
    write_timestamp(now_micros, "Z", &mut time);
    let time = String::from_utf8_lossy(&time).replace(' ', "T");
    Value::Object(Map::from_iter([("time".to_owned(), Value::from(time))].into_iter().chain(fields)))
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(if number == 0 { "audit.jsonl".to_owned() } else { format!("audit.{number}.jsonl") })
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path, number: u64) -> Vec<Value> {
        let text = fs::read_to_string(path(folder, number)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn an_event_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("audit");
        let audit = Audit::open(&folder, BYTES_MAX).unwrap();
        audit.record(
            1_700_000_000_123_456,
            Event::new("log_in").by("a\"na", "alto", 7).text("reason", &"x".repeat(300)),
        );
        drop(audit);
        Audit::open(&folder, BYTES_MAX).unwrap().record(0, Event::new("end").names("objects", ["t".to_owned()]));
        let lines = lines(&folder, 0);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["time"], "2023-11-14T22:13:20.123456Z");
        assert_eq!((&lines[0]["role"], &lines[0]["pid"]), (&Value::from("a\"na"), &Value::from(7)));
        assert_eq!(lines[0]["reason"].as_str().unwrap().len(), TEXT_BYTES_MAX);
        assert_eq!(lines[1]["objects"][0], "t");
        Audit::default().record(0, Event::new("nothing"));
    }

    #[test]
    fn files_are_bounded_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        // A line has some 50 bytes: two in a file.
        let audit = Audit::open(folder.path(), 120 * FILES).unwrap();
        for number in 0..100 {
            audit.record(0, Event::new("numbered").with("n", number));
        }
        let newest_first: Vec<_> =
            (0..FILES).flat_map(|number| lines(folder.path(), number).into_iter().rev()).collect();
        let numbers: Vec<_> = newest_first.iter().map(|line| line["n"].as_i64().unwrap()).collect();
        assert!(numbers.len() >= FILES as usize);
        assert!(numbers.iter().zip(numbers.iter().skip(1)).all(|(newer, older)| newer - 1 == *older), "{numbers:?}");
        assert_eq!(numbers[0], 99);
        assert!(!path(folder.path(), FILES).exists());
        assert!((0..FILES).all(|number| fs::metadata(path(folder.path(), number)).unwrap().len() <= 120));
    }
}
