//! What `serve` and `demo` take: where the store is, how it is served, what it may take of the machine.

use crate::log::LogFormat;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use keyspan_gateway::{
    audit::{Audit, BYTES_MAX as AUDIT_BYTES},
    auth::access::AccessRules,
    http::HttpOptions,
    resources::{Age, Memory, Size, TEMP_BYTES},
    server::{CONNECTIONS_MAX, CONNECTIONS_RESERVED, TlsOptions},
    traces::Collector,
};
use keyspan_storage::engine::{Codec, EngineOptions, LOG_FILE_BYTES, PIN_AGE_MAX_MICROS};
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::ToSocketAddrs,
    path::{Path, PathBuf},
};
use url::Url;

/// Where the store is and how it is served.
#[derive(Clone, Debug, Args)]
pub struct ServeOptions {
    /// The store's folder; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "./keyspan-data")]
    pub store: PathBuf,

    /// A file with these options, in TOML: names with _ for -, such as `connections_max = 200`. The command line comes
    /// before the environment, and the environment before the file. `keyspan config --print` shows one with all of
    /// them.
    #[arg(long, value_name = "FILE", env = "KEYSPAN_CONFIG")]
    pub config: Option<PathBuf>,

    /// Where to listen; port 0 takes a free one. The address in use is printed as "listening on ADDR:PORT".
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5433")]
    pub listen: String,

    /// The server's certificate, and those above it, in PEM. Clients may then connect with TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,

    /// Refuse connections without TLS (28000). Cancel requests, which say nothing but a secret number, come in the
    /// clear from most clients and are taken.
    #[arg(long, requires = "tls_cert")]
    pub tls_required: bool,

    /// Certificates in PEM. Clients must connect with TLS and show a certificate that one of these has signed, besides
    /// their password.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,

    /// Rules of who may log in from where, in the form of PostgreSQL's pg_hba.conf (host, hostssl, hostnossl;
    /// scram-sha-256, reject). The first rule that fits decides, and a connection that none fits is refused. SIGHUP
    /// reads the file anew [default: everybody may try]
    #[arg(long, value_name = "FILE")]
    pub access: Option<PathBuf>,

    /// The folder of the audit log: log-ins and refusals, definitions, grants, drops, exports, ended sessions, a line
    /// of JSON for each; made if it is not there [default: audit in the store's folder]
    #[arg(long, value_name = "DIR")]
    pub audit: Option<PathBuf>,

    /// Where to answer over HTTP: / for the console, /metrics for Prometheus, /healthz, /readyz. Port 0 takes a free
    /// one; the address in use is printed as "metrics on http://ADDR:PORT/metrics" [default: nowhere]
    ///
    /// The console and /metrics want an operator's name and password, or the token of --http-token. There is no
    /// encryption: listen on the loopback, or behind a proxy.
    #[arg(long, value_name = "ADDR:PORT", env = "KEYSPAN_HTTP")]
    pub http: Option<String>,

    /// A file with a token that stands for an operator's password at /metrics, as "Authorization: Bearer TOKEN".
    #[arg(long, value_name = "FILE", requires = "http", env = "KEYSPAN_HTTP_TOKEN")]
    pub http_token: Option<PathBuf>,

    /// Sends a span of each statement to an OpenTelemetry collector, by OTLP over HTTP with protobuf: its URL, such as
    /// http://127.0.0.1:4318. Spans have statements without their values. While the collector is down they are dropped
    /// [default: nowhere]
    #[arg(long, value_name = "URL", env = "KEYSPAN_OTLP")]
    pub otlp: Option<String>,

    /// The form of the log on standard error. The keys of the JSON are those of PostgreSQL's jsonlog.
    #[arg(long, value_name = "FORMAT", value_enum, env = "KEYSPAN_LOG_FORMAT", default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Log statements that take at least so many milliseconds, without their constants and with the outline of their
    /// plan; -1 logs none. Operators set log_min_duration_statement for databases, roles and sessions, too.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = -1, allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1..))]
    pub log_min_duration_statement: i64,

    /// What the files of the audit log may take; beyond it the oldest goes. 0 keeps none.
    #[arg(long, value_name = "SIZE", default_value_t = Size(AUDIT_BYTES))]
    pub audit_max: Size,

    /// The folder into which COPY … TO writes files; made if it is not there [default: exports in the store's folder]
    #[arg(long, value_name = "DIR")]
    pub copy_dir: Option<PathBuf>,

    /// Connections that may be open at a time.
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS_MAX)]
    pub connections_max: usize,

    /// Connections of these that are kept for operators: others get 53300 when no more are free.
    #[arg(long, value_name = "NUMBER", default_value_t = CONNECTIONS_RESERVED)]
    pub connections_reserved: usize,

    /// Run queries as they come, without turns between databases and with the priority of short statements: for
    /// comparison.
    #[arg(long, hide = true)]
    pub without_gate: bool,

    /// What of the machine and how it stores.
    #[command(flatten)]
    pub storage: StorageOptions,
}

/// What the store may take of the machine, and how it stores.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Storage")]
pub struct StorageOptions {
    /// Where segments, the bulk of the rows, are kept: s3://BUCKET/PREFIX, gs://…, az://…, file:///DIR [default: in the
    /// store's folder]
    ///
    /// The log, the manifest and the lock stay in the store's folder, which is small then. Credentials are those of the
    /// environment, under the names that the clouds' own tools use (AWS_ACCESS_KEY_ID, AWS_REGION, AWS_ENDPOINT,
    /// GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, …). A store is started with the same URL every time.
    #[arg(long, value_name = "URL", env = "KEYSPAN_SEGMENTS")]
    pub segments: Option<Url>,

    /// Memory that the server may take, as 512MiB or 2GB [default: a quarter of the machine's]
    ///
    /// Half of it is for running queries (what does not fit goes to temporary files), three eighths for the store's
    /// memtables and caches, the rest for what is on its way. The process takes some 100 MiB beside it for itself. At
    /// least 32MiB. What is used of it stands in keyspan.memory.
    #[arg(long, value_name = "SIZE", env = "KEYSPAN_MEMORY")]
    pub memory: Option<Size>,

    /// The folder for temporary files of queries; made if it is not there [default: temp in the store's folder]
    ///
    /// They end with their query, or with the next start.
    #[arg(long, value_name = "DIR", env = "KEYSPAN_TEMP")]
    pub temp: Option<PathBuf>,

    /// What the temporary files of all running queries may take; beyond it a query fails with 53200.
    #[arg(long, value_name = "SIZE", env = "KEYSPAN_TEMP_MAX", default_value_t = Size(TEMP_BYTES))]
    pub temp_max: Size,

    /// How segments that compaction has written are compressed: zstd is smaller by about a fifth, lz4 two to three
    /// times faster to read.
    #[arg(long, value_name = "CODEC", env = "KEYSPAN_COLD_CODEC", value_enum, default_value_t = ColdCodec::Lz4)]
    pub cold_codec: ColdCodec,

    /// How long a statement or a REPEATABLE READ transaction may read the state that it began with; then it fails with
    /// 72000.
    ///
    /// Rows that were changed or deleted since keep their room for as long: a purge after DROP DATABASE waits for it.
    #[arg(long, value_name = "TIME", env = "KEYSPAN_PIN_MAX_AGE", default_value_t = PIN_AGE_MAX)]
    pub pin_max_age: Age,

    /// Size at which the rows in memory are written to a segment [default: a sixteenth of the memory, at most 64MiB]
    #[arg(long, value_name = "SIZE", env = "KEYSPAN_MEMTABLE_SIZE", help_heading = "Advanced", hide_short_help = true)]
    pub memtable_size: Option<Size>,

    /// Size of a file of the log; it is allocated before it is needed. At least 64KiB.
    #[arg(long, value_name = "SIZE", env = "KEYSPAN_LOG_FILE_SIZE", help_heading = "Advanced", hide_short_help = true,
          default_value_t = Size(LOG_FILE_BYTES))]
    pub log_file_size: Size,
}

/// The least `--log-file-size`: with less, every few commits would wait for a new file.
pub const LOG_FILE_BYTES_MIN: u64 = 64 << 10;
/// [`PIN_AGE_MAX_MICROS`] in the form of the option.
const PIN_AGE_MAX: Age = Age(PIN_AGE_MAX_MICROS.unsigned_abs() / 1_000_000);

/// How segments that compaction has written are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColdCodec {
    /// LZ4: fast to read.
    Lz4,
    /// Zstandard: small.
    Zstd,
}

impl ServeOptions {
    /// The options of the engine.
    ///
    /// # Errors
    /// If `--store` is a URL, or `--log-file-size` is too small.
    pub fn engine(&self, memory: &Memory) -> Result<EngineOptions> {
        let folder = self.store.display();
        ensure!(
            !self.store.to_str().is_some_and(|folder| folder.contains("://")),
            "--store {folder} is no folder: other stores are not supported yet"
        );
        let (storage, defaults) = (&self.storage, EngineOptions::new(&self.store));
        let (log_file, least) = (storage.log_file_size, Size(LOG_FILE_BYTES_MIN));
        ensure!(log_file >= least, "--log-file-size {log_file} is less than {least}");
        Ok(EngineOptions {
            segments: storage.segments.clone(),
            memory_bytes: memory.engine_bytes,
            memtable_bytes: memory.memtable_bytes,
            base_codec: match storage.cold_codec {
                ColdCodec::Lz4 => Codec::Lz4,
                ColdCodec::Zstd => Codec::Zstd,
            },
            pin_age_max_micros: storage.pin_max_age.micros(),
            log_file_bytes: storage.log_file_size.0,
            queue_bytes_max: defaults.queue_bytes_max.min(usize::try_from(memory.queue_bytes).unwrap_or(usize::MAX)),
            ..defaults
        })
    }

    /// The certificate for TLS, and what is asked of clients.
    pub fn tls(&self) -> Option<TlsOptions> {
        let (certificate, key) = self.tls_cert.clone().zip(self.tls_key.clone())?;
        Some(TlsOptions { certificate, key, client_ca: self.tls_client_ca.clone(), required: self.tls_required })
    }

    /// The rules of `--access`; `None` without it.
    ///
    /// # Errors
    /// If the file cannot be read, or holds what is no rule.
    pub fn access_rules(&self) -> Result<Option<AccessRules>> {
        let Some(path) = &self.access else { return Ok(None) };
        let named = || format!("cannot use the access rules {}", path.display());
        let text = std::fs::read_to_string(path).with_context(named)?;
        Ok(Some(AccessRules::parse(&text).with_context(named)?))
    }

    /// Where metrics are told, and the token.
    ///
    /// # Errors
    /// If the address is none, or the file of the token cannot be read or holds none.
    pub fn http_options(&self) -> Result<Option<HttpOptions>> {
        /// Characters of a token, at least: what is shorter could be guessed.
        const TOKEN_CHARACTERS_MIN: usize = 16;
        let Some(listen) = &self.http else { return Ok(None) };
        let addresses = listen.to_socket_addrs().with_context(|| format!("--http {listen} is no ADDR:PORT"))?;
        let listen = addresses.into_iter().next().with_context(|| format!("--http {listen} names no address"))?;
        let token = match &self.http_token {
            None => None,
            Some(path) => {
                let named = || format!("cannot use the token {}", path.display());
                let token = std::fs::read_to_string(path).with_context(named)?.trim().to_owned();
                let is_long = token.chars().count() >= TOKEN_CHARACTERS_MIN;
                ensure!(is_long, "{}: it has fewer than {TOKEN_CHARACTERS_MIN} characters", named());
                Some(token)
            }
        };
        Ok(Some(HttpOptions { listen, token }))
    }

    /// The collector of traces, if there is one.
    ///
    /// # Errors
    /// If its URL is none.
    pub fn collector(&self) -> Result<Option<Collector>> {
        self.otlp.as_deref().map(Collector::at).transpose().context("--otlp")
    }

    /// The folder for temporary files: one of this store alone, which a start may empty.
    ///
    /// # Errors
    /// If the store's folder does not exist.
    pub fn temp_folder(&self) -> Result<PathBuf> {
        match &self.storage.temp {
            None => Ok(self.store.join("temp")),
            Some(folder) => Ok(folder.join(format!("keyspan-{:016x}", number_of(&self.store)?))),
        }
    }

    /// The audit log.
    ///
    /// # Errors
    /// If its folder cannot be made or written.
    pub fn audit_log(&self) -> Result<Audit> {
        if self.audit_max.0 == 0 {
            return Ok(Audit::default());
        }
        let folder = self.audit.clone().unwrap_or_else(|| self.store.join("audit"));
        let failed = || format!("cannot write the audit log in {}", folder.display());
        Audit::open(&folder, self.audit_max.0).with_context(failed)
    }

    /// The folder of `COPY … TO`, created.
    ///
    /// # Errors
    /// If it cannot be made or used.
    pub fn copy_folder(&self) -> Result<PathBuf> {
        let folder = self.copy_dir.clone().unwrap_or_else(|| self.store.join("exports"));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        folder.canonicalize().with_context(|| format!("cannot use the folder {}", folder.display()))
    }
}

impl StorageOptions {
    /// The memory, divided.
    ///
    /// # Errors
    /// If it is too small.
    pub fn memory(&self) -> Result<Memory> {
        Ok(Memory::of_machine(self.memory, self.memtable_size)?)
    }
}

/// A hash of a folder's path, the same at every start.
fn number_of(folder: &Path) -> Result<u64> {
    let folder = folder.canonicalize().with_context(|| format!("cannot use the folder {}", folder.display()))?;
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use keyspan_gateway::resources::{MEMORY_BYTES, MEMORY_BYTES_MIN, machine_bytes};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeOptions,
    }

    fn options(words: &[&str]) -> ServeOptions {
        Line::try_parse_from([&["serve"], words].concat()).unwrap().serve
    }

    #[test]
    fn the_engine_gets_what_was_said() {
        let said = options(&[
            "--memory=64MiB",
            "--memtable-size=256KiB",
            "--log-file-size=1MiB",
            "--cold-codec=zstd",
            "--pin-max-age=5min",
            "--segments=s3://bucket/a",
        ]);
        let memory = said.storage.memory().unwrap();
        let engine = said.engine(&memory).unwrap();
        assert_eq!((engine.memory_bytes, engine.memtable_bytes), (24 << 20, Some(256 << 10)));
        assert_eq!((engine.log_file_bytes, engine.queue_bytes_max), (1 << 20, 2 << 20));
        assert_eq!((engine.base_codec, engine.pin_age_max_micros), (Codec::Zstd, 300_000_000));
        assert_eq!(engine.segments.unwrap().as_str(), "s3://bucket/a");
    }

    #[test]
    fn what_was_not_said_is_the_engines_own() {
        let memory = Memory::of(8 << 30, None);
        let (engine, defaults) = (options(&[]).engine(&memory).unwrap(), EngineOptions::new("."));
        assert_eq!(
            (engine.log_file_bytes, engine.queue_bytes_max),
            (defaults.log_file_bytes, defaults.queue_bytes_max)
        );
        assert_eq!((engine.base_codec, engine.pin_age_max_micros), (defaults.base_codec, defaults.pin_age_max_micros));
        assert_eq!((engine.segments, engine.memtable_bytes), (None, None));
    }

    #[test]
    fn the_default_memory_is_a_share_of_the_machine() {
        let memory = options(&[]).storage.memory().unwrap();
        let expected = machine_bytes().map_or(MEMORY_BYTES, |bytes| bytes / 4).max(MEMORY_BYTES_MIN);
        assert_eq!(memory.all_bytes, expected);
    }

    #[test]
    fn too_little_memory_is_refused() {
        let error = options(&["--memory", "1MB"]).storage.memory().unwrap_err();
        assert_eq!(error.to_string(), "--memory 976.5KiB is less than 32MiB");
        for words in [["--memory", "much"], ["--pin-max-age", "0s"], ["--cold-codec", "gzip"], ["--segments", "here"]] {
            assert!(Line::try_parse_from([&["serve"][..], &words].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn tls_is_asked_of_clients_by_a_server_with_a_certificate() {
        let tls =
            |words: &[&str]| options(&[&["--tls-cert", "c", "--tls-key", "k"][..], words].concat()).tls().unwrap();
        assert!(options(&[]).tls().is_none());
        let asked = |tls: TlsOptions| (tls.required, tls.client_ca);
        assert_eq!(asked(tls(&[])), (false, None));
        assert_eq!(asked(tls(&["--tls-required"])), (true, None));
        assert_eq!(asked(tls(&["--tls-client-ca", "a"])), (false, Some("a".into())));
        for words in [&["--tls-required"][..], &["--tls-client-ca", "a"], &["--tls-cert", "c"]] {
            assert!(Line::try_parse_from([&["serve"][..], words].concat()).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_log_of_tiny_files_is_refused() {
        let memory = Memory::of(8 << 30, None);
        let said = |size: &str| options(&["--log-file-size", size]).engine(&memory);
        assert_eq!(said("1").unwrap_err().to_string(), "--log-file-size 1B is less than 64KiB");
        assert_eq!(said("64KiB").unwrap().log_file_bytes, 64 << 10);
    }

    #[test]
    fn temporary_files_of_two_stores_do_not_meet() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let temp = |at: usize| {
            let store = folders[at].path().to_str().unwrap();
            options(&["--store", store, "--temp", "/tmp/t"]).temp_folder().unwrap()
        };
        assert_eq!(temp(0), temp(0));
        assert_ne!(temp(0), temp(1));
        assert!(temp(0).starts_with("/tmp/t"));
        assert_eq!(options(&["--store", "s"]).temp_folder().unwrap(), Path::new("s/temp"));
    }
}
