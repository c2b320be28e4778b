//! Settings: which there are, what values they take, and which of them are reported to the client.
//!
//! Ours, and those of PostgreSQL that mean something here, are [`KNOWN`]; all others of PostgreSQL's are kept and
//! change nothing ([`postgres`]); a name with a point (`app.user`) is whatever a client keeps there. Names are in lower
//! case.

pub(crate) mod pending;
pub(crate) mod postgres;
mod takes;

use crate::{
    identity::Identity,
    pg::{
        datetime::{Style, settings::INTERVAL_STYLES},
        error::{Result, SqlError, SqlState},
        names::SearchPath,
        version::{SERVER_VERSION_NUM, SERVER_VERSION_WITH_PRODUCT},
    },
    sql::ast::session::Isolation,
};
use postgres::Parameter;
use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};
pub(crate) use takes::millis;
use takes::{NAME_BYTES_MAX, Takes, timestamp};

/// A setting: its name, the value at start, what it takes, the name under which it is reported to the client (`None`:
/// it is not), what it is.
type Setting = (&'static str, &'static str, Takes, Option<&'static str>, &'static str);

/// Settings of a session with a point in their name, at most.
const CUSTOM_MAX: usize = 64;

const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "notice", "warning", "error"];

/// Every setting, by name.
const KNOWN: &[Setting] = &[
    ("application_name", "", Takes::Text, Some("application_name"), "The name of the program that is connected."),
    ("bytea_output", "hex", Takes::Word(&["escape", "hex"]), None, "How bytea is printed."),
    (
        "client_encoding",
        "UTF8",
        Takes::Only(&["UTF8", "utf-8", "unicode"]),
        Some("client_encoding"),
        "The client's encoding.",
    ),
    ("client_min_messages", "notice", Takes::Word(LEVELS), None, "Messages of a lower level are not sent."),
    ("data_directory", "", Takes::Nothing, None, "The store's folder, for operators."),
    ("datestyle", "ISO, MDY", Takes::DateStyle, Some("DateStyle"), "How dates are printed, and in which order read."),
    (
        "default_table_access_method",
        "keyspan",
        Takes::Word(&["keyspan", "heap"]),
        None,
        "How rows of new tables are stored; both words mean the same.",
    ),
    ("default_tablespace", "", Takes::Only(&[""]), None, "Where new tables are stored; there is one place."),
    (
        "default_transaction_isolation",
        "read committed",
        Takes::Word(&["read committed", "repeatable read"]),
        None,
        "The isolation of new transactions.",
    ),
    (
        "default_transaction_read_only",
        "off",
        Takes::Bool,
        Some("default_transaction_read_only"),
        "Whether new transactions may not write.",
    ),
    ("extra_float_digits", "1", Takes::Int(-15, 3), None, "Digits of floating-point numbers; exact from 1 on."),
    (
        "idle_in_transaction_session_timeout",
        "0",
        Takes::Millis,
        None,
        "The time without a statement after which a session in a transaction is ended.",
    ),
    (
        "idle_session_timeout",
        "0",
        Takes::Millis,
        None,
        "The time without a statement after which a session outside of a transaction is ended.",
    ),
    ("in_hot_standby", "off", Takes::Nothing, Some("in_hot_standby"), "Whether the server only reads."),
    ("integer_datetimes", "on", Takes::Nothing, Some("integer_datetimes"), "Whether times are integers."),
    ("intervalstyle", "postgres", Takes::Word(INTERVAL_STYLES), Some("IntervalStyle"), "How intervals are printed."),
    ("is_superuser", "off", Takes::Nothing, Some("is_superuser"), "Whether the role is an operator."),
    ("jit", "off", Takes::Bool, None, "Nothing here is compiled at run time."),
    (
        "keyspan.cell_time",
        "",
        Takes::Timestamp,
        None,
        "The timestamp of cells that are written, in place of the time of the commit; empty for that.",
    ),
    ("keyspan.columnar", "on", Takes::Bool, None, "Whether scans of many rows read row groups of typed columns."),
    ("keyspan.dump_shared", "off", Takes::Bool, None, "Whether pg_dump dumps the rows of shared tables."),
    ("keyspan.point", "on", Takes::Bool, None, "Whether short statements by key go around the optimizer."),
    ("keyspan.pushdown", "on", Takes::Bool, None, "Whether predicates become ranges of keys."),
    (
        "keyspan.transactions",
        "commit",
        Takes::Word(&["commit", "row"]),
        None,
        "Whether several rows on a server may be changed each by itself, where they cannot be changed as one.",
    ),
    ("lc_collate", "C", Takes::Nothing, None, "The order of texts."),
    ("lc_ctype", "C", Takes::Nothing, None, "The classes of characters."),
    ("lc_messages", "C", Takes::Text, None, "The language of messages; there is one."),
    ("lc_monetary", "C", Takes::Text, None, "How money is printed."),
    ("lc_numeric", "C", Takes::Text, None, "How to_char prints numbers."),
    ("lc_time", "C", Takes::Text, None, "How to_char prints times."),
    ("lock_timeout", "0", Takes::Millis, None, "How long advisory locks are waited for; 0 is for ever."),
    ("max_connections", "200", Takes::Nothing, None, "Connections that there may be at a time."),
    ("max_identifier_length", "63", Takes::Nothing, None, "The length of a name in bytes."),
    ("max_index_keys", "32", Takes::Nothing, None, "Columns of a key."),
    (
        "max_parallel_workers_per_gather",
        "2",
        Takes::Int(0, 1024),
        None,
        "Streams in which a query runs, at most: one for 0, and no more than there are cores, but two.",
    ),
    (
        "plan_cache_mode",
        "auto",
        Takes::Word(&["auto", "force_generic_plan", "force_custom_plan"]),
        None,
        "Whether prepared statements keep their plans: all but force_custom_plan do.",
    ),
    ("role", "none", Takes::OwnRole, None, "The role whose rights hold: the session's own."),
    ("row_security", "on", Takes::Bool, None, "A tenant sees its own rows in any case."),
    ("search_path", "\"$user\", public", Takes::Text, None, "Where names without a schema are looked up."),
    ("server_encoding", "UTF8", Takes::Nothing, Some("server_encoding"), "The server's encoding."),
    ("server_version", SERVER_VERSION_WITH_PRODUCT, Takes::Nothing, Some("server_version"), "The version."),
    ("server_version_num", SERVER_VERSION_NUM, Takes::Nothing, None, "The version as a number."),
    ("session_authorization", "", Takes::OwnRole, Some("session_authorization"), "The role."),
    (
        "standard_conforming_strings",
        "on",
        Takes::OnlyBool(true),
        Some("standard_conforming_strings"),
        "Whether a backslash in a string is itself.",
    ),
    ("statement_timeout", "0", Takes::Millis, None, "The time after which a statement is cancelled."),
    ("superuser_reserved_connections", "3", Takes::Nothing, None, "Connections that are kept for operators."),
    ("timezone", "UTC", Takes::Zone, Some("TimeZone"), "The zone in which times are read and printed."),
    ("transaction_isolation", "read committed", Takes::Nothing, None, "The isolation of the transaction."),
    ("transaction_read_only", "off", Takes::Nothing, None, "Whether the transaction may not write."),
];

/// Values by name: of those that are [`KNOWN`] all, of others those that were set.
pub(crate) type Values = BTreeMap<Cow<'static, str>, String>;

/// What the server was started with, by the name of the setting that shows it.
pub(crate) type ServerSettings = Vec<(&'static str, String)>;

/// A setting by its name.
enum Found {
    Known(&'static Setting),
    Postgres(&'static Parameter),
    /// The client's.
    Custom(String),
}

impl Found {
    fn name(&self) -> Cow<'static, str> {
        match self {
            Self::Known((name, ..)) => Cow::Borrowed(*name),
            Self::Postgres(parameter) => Cow::Borrowed(parameter.name),
            Self::Custom(name) => Cow::Owned(name.clone()),
        }
    }

    /// The value at start, without startup parameters.
    fn start(&self) -> String {
        match self {
            Self::Known((_, start, ..)) => (*start).to_owned(),
            Self::Postgres(parameter) => parameter.shown_start(),
            Self::Custom(_) => String::new(),
        }
    }

    /// A value in its normal form, and where there is none, whether there can be.
    fn read(
        &self,
        value: Option<&str>,
        current: &str,
        (operator, role): (bool, Option<&str>),
    ) -> Result<Option<String>> {
        match (self, value) {
            (Self::Known((name, _, Takes::OwnRole, ..)), Some(value)) => {
                let is_own = role.is_none_or(|role| role == value) || (*name == "role" && value == "none");
                if is_own {
                    Ok(Some(value.to_owned()))
                } else {
                    Err(SqlError::unsupported("changing the role of a session"))
                }
            }
            (Self::Known((name, _, takes, ..)), Some(value)) => takes.read(name, value, current).map(Some),
            (Self::Known((name, _, Takes::Nothing, ..)), None) => Err(fixed(name)),
            (Self::Postgres(parameter), Some(value)) => parameter.value(value, operator).map(Some),
            (Self::Postgres(parameter), None) => parameter.value(parameter.start, operator).map(|_| None),
            (Self::Custom(name), Some(value)) => Takes::Text.read(name, value, current).map(Some),
            (_, None) => Ok(None),
        }
    }
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    values: Values,
    /// The values at start, for RESET: startup parameters count as such.
    initial: Values,
    /// The value that was last reported to the client.
    reported: BTreeMap<&'static str, String>,
    /// Whether nothing was set since.
    is_reported: bool,
    operator: bool,
    /// What each statement asks for, of `values`.
    read: Read,
}

/// Values as they are used.
#[derive(Clone, Debug)]
struct Read {
    cell_time: Option<i64>,
    pushdown: bool,
    columnar: bool,
    point: bool,
    rows_by_themselves: bool,
    read_only: bool,
    deferrable: bool,
    isolation: Isolation,
    statement_timeout: Option<Duration>,
    search_path: Arc<SearchPath>,
    style: Arc<Style>,
}

impl Read {
    fn of(values: &Values, operator: bool) -> Self {
        let value = |name: &'static str| values.get(name).map_or("", String::as_str);
        Self {
            cell_time: timestamp(value("keyspan.cell_time")),
            pushdown: value("keyspan.pushdown") == "on",
            columnar: value("keyspan.columnar") == "on",
            point: value("keyspan.point") == "on",
            rows_by_themselves: value("keyspan.transactions") == "row",
            read_only: value("default_transaction_read_only") == "on",
            deferrable: value("default_transaction_deferrable") == "on",
            isolation: match value("default_transaction_isolation") {
                "repeatable read" => Isolation::RepeatableRead,
                _ => Isolation::ReadCommitted,
            },
            statement_timeout: timeout(value("statement_timeout")),
            search_path: Arc::new(SearchPath::of(value("search_path"), operator)),
            style: style(values),
        }
    }
}

/// The style of values; those that have set nothing share it.
fn style(values: &Values) -> Arc<Style> {
    static INITIAL: LazyLock<Arc<Style>> = LazyLock::new(Arc::default);
    let style = Style::of_settings(|name| values.get(name).map_or("", String::as_str));
    if style == **INITIAL { INITIAL.clone() } else { Arc::new(style) }
}

impl Settings {
    /// The settings of a new session; those of the server come by name.
    pub(crate) fn new(identity: &Identity, server: &ServerSettings) -> Self {
        let mut values: Values =
            KNOWN.iter().map(|(name, value, ..)| (Cow::Borrowed(*name), (*value).to_owned())).collect();
        values.insert("session_authorization".into(), identity.role.clone());
        values.insert("is_superuser".into(), if identity.operator { "on" } else { "off" }.to_owned());
        let operator = identity.operator;
        let shown = server.iter().filter(|(name, _)| operator || *name != "data_directory");
        values.extend(shown.map(|(name, value)| (Cow::Borrowed(*name), value.clone())));
        let read = Read::of(&values, operator);
        Self { initial: values.clone(), values, reported: BTreeMap::new(), is_reported: false, operator, read }
    }

    /// Takes other values.
    fn replace(&mut self, change: impl FnOnce(&mut Values)) {
        change(&mut self.values);
        self.read = Read::of(&self.values, self.operator);
        self.is_reported = false;
    }

    /// Sets a setting; `None` resets it.
    ///
    /// # Errors
    /// 42704 for an unknown one, 55P02 for a read-only one, 42501 for one that only operators set, 22023 for a value
    /// that it cannot have, 54000 for more than [`CUSTOM_MAX`] of the client's own.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        self.set_by(self.operator, name, value)
    }

    /// Sets what was stored for the session's role or database, where it was checked who may store it.
    ///
    /// # Errors
    /// As [`set`](Self::set), but for 42501.
    pub(crate) fn set_stored(&mut self, name: &str, value: &str) -> Result<()> {
        self.set_by(true, name, Some(value))
    }

    fn set_by(&mut self, operator: bool, name: &str, value: Option<&str>) -> Result<()> {
        let found = find(name)?;
        let role = self.value("session_authorization");
        let value =
            found.read(value, self.values.get(&found.name()).map_or("", String::as_str), (operator, Some(role)))?;
        let name = found.name();
        if let (Found::Custom(_), Some(_)) = (&found, &value)
            && !self.values.contains_key(&name)
            && self.values.keys().filter(|name| matches!(name, Cow::Owned(_))).count() >= CUSTOM_MAX
        {
            let message = format!("a session has at most {CUSTOM_MAX} parameters of its own");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let value = value.or_else(|| self.initial.get(&name).cloned());
        self.replace(|values| match value {
            Some(value) => {
                values.insert(name, value);
            }
            None => {
                values.remove(&name);
            }
        });
        Ok(())
    }

    /// A setting as it is known, the value that it would have (`None` for that at start), and how that is written; as
    /// an operator sets it, or somebody else.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn checked(
        name: &str,
        value: Option<&str>,
        operator: bool,
    ) -> Result<(Cow<'static, str>, Option<String>, String)> {
        let found = find(name)?;
        let value = found.read(value, "", (operator, None))?;
        Ok((found.name(), value.clone(), value.unwrap_or_else(|| found.start())))
    }

    /// Resets all settings that can be set.
    pub fn reset_all(&mut self) {
        let initial = self.initial.clone();
        self.replace(|values| *values = initial);
    }

    /// What is set now is what RESET goes back to: after the startup parameters.
    pub fn keep_as_initial(&mut self) {
        self.initial = self.values.clone();
    }

    /// What RESET goes back to.
    pub fn initial(&self) -> &Values {
        &self.initial
    }

    /// The value of a setting.
    ///
    /// # Errors
    /// 42704.
    pub fn get(&self, name: &str) -> Result<String> {
        let found = find(name)?;
        match (self.values.get(&found.name()), found) {
            (Some(value), _) => Ok(value.clone()),
            (None, Found::Custom(name)) => Err(unknown(&name)),
            (None, found) => Ok(found.start()),
        }
    }

    /// `log_min_duration_statement`, if it is set: `None` within if no statement is to be logged.
    pub(crate) fn log_min_duration(&self) -> Option<Option<Duration>> {
        let value = self.values.get("log_min_duration_statement")?;
        Some(millis(value).and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis))
    }

    /// The value of a setting that is known to be there.
    fn value(&self, name: &'static str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Settings by name: without those of PostgreSQL that mean nothing here and were not set.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.values.iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    /// The value of a setting that is not among [`all`](Self::all): of a parameter of PostgreSQL the one at start.
    pub fn at_start(name: &str) -> Option<String> {
        postgres::find(name).map(Parameter::shown_start)
    }

    /// How a setting is written, and what it is.
    pub fn describe(name: &str) -> Option<(Cow<'static, str>, &'static str)> {
        Some(match find(name).ok()? {
            Found::Known((known, _, _, shown, text)) => (Cow::Borrowed(shown.unwrap_or(known)), *text),
            Found::Postgres(parameter) => (Cow::Borrowed(parameter.name), postgres::ABOUT),
            Found::Custom(name) => (Cow::Owned(name), "The client's own."),
        })
    }

    /// Takes the values of `other`, but not what was reported to the client.
    pub fn restore(&mut self, other: Self) {
        self.replace(|values| *values = other.values);
    }

    /// The settings whose value was not yet reported to the client.
    pub fn take_reports(&mut self) -> Vec<(String, String)> {
        let mut changed = Vec::new();
        if std::mem::replace(&mut self.is_reported, true) {
            return changed;
        }
        for (name, _, _, shown, _) in KNOWN {
            let (Some(shown), value) = (shown, &self.values[*name]) else { continue };
            if self.reported.get(name) != Some(value) {
                self.reported.insert(name, value.clone());
                changed.push(((*shown).to_owned(), value.clone()));
            }
        }
        changed
    }

    /// `keyspan.cell_time`, in microseconds since 1970-01-01 UTC.
    pub fn cell_time(&self) -> Option<i64> {
        self.read.cell_time
    }

    /// `keyspan.pushdown`
    pub fn pushdown(&self) -> bool {
        self.read.pushdown
    }

    /// `keyspan.columnar`
    pub fn columnar(&self) -> bool {
        self.read.columnar
    }

    /// Whether `keyspan.transactions` is `row`.
    pub fn rows_by_themselves(&self) -> bool {
        self.read.rows_by_themselves
    }

    /// `keyspan.point`
    pub fn point(&self) -> bool {
        self.read.point
    }

    /// `default_transaction_read_only`
    pub fn read_only(&self) -> bool {
        self.read.read_only
    }

    /// `default_transaction_deferrable`
    pub fn deferrable(&self) -> bool {
        self.read.deferrable
    }

    /// `default_transaction_isolation`
    pub fn isolation(&self) -> Isolation {
        self.read.isolation
    }

    /// `statement_timeout`; `None` for no limit.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.read.statement_timeout
    }

    /// `search_path`, in a database without schemas that users created.
    pub fn search_path(&self) -> &Arc<SearchPath> {
        &self.read.search_path
    }

    /// `search_path` for a role; `has` says which of the schemas that users created it may use.
    pub fn search_path_among(&self, role: &str, has: impl Fn(&str) -> bool) -> SearchPath {
        SearchPath::among(self.values.get("search_path").map_or("", String::as_str), false, role, has)
    }

    /// `TimeZone`, `DateStyle` and what else says how values are read and printed.
    pub fn style(&self) -> &Arc<Style> {
        &self.read.style
    }

    /// A setting that is a time; `None` for 0, which is no limit.
    pub fn timeout(&self, name: &'static str) -> Option<Duration> {
        timeout(self.value(name))
    }
}

/// The time that a setting says; `None` for 0.
pub(crate) fn timeout(value: &str) -> Option<Duration> {
    let millis = millis(value).unwrap_or(0);
    u64::try_from(millis).ok().filter(|millis| *millis > 0).map(Duration::from_millis)
}

/// # Errors
/// 42704; 42602 for a client's own whose name is none.
fn find(name: &str) -> Result<Found> {
    let lower = name.to_lowercase();
    if let Some(known) = KNOWN.iter().find(|(known, ..)| *known == lower) {
        return Ok(Found::Known(known));
    }
    if let Some(parameter) = postgres::find(&lower) {
        return Ok(Found::Postgres(parameter));
    }
    let is_word = |word: &str| {
        let mut letters = word.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '$'))
    };
    match lower.split_once('.') {
        Some(("keyspan" | "datafusion", _)) => Err(unknown(name)),
        Some(_) if lower.len() <= NAME_BYTES_MAX && lower.split('.').all(is_word) => Ok(Found::Custom(lower)),
        Some(_) => {
            let message = format!("invalid configuration parameter name \"{name}\"");
            let error = SqlError::new(SqlState::INVALID_NAME, message);
            Err(error.with_detail(format!(
                "Names of a client's own parameters are words with points between, of at most {NAME_BYTES_MAX} bytes."
            )))
        }
        None => Err(unknown(name)),
    }
}

/// 42704
pub(crate) fn unknown(name: &str) -> SqlError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    SqlError::new(SqlState::UNDEFINED_OBJECT, message)
}

fn fixed(name: &str) -> SqlError {
    SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, format!("parameter \"{name}\" cannot be changed"))
}
