//! Where the server is, and how patient the client is.

use crate::{Error, Result};
use std::time::Duration;

/// Connections of a client. A server accepts about a hundred streams on each.
pub const CONNECTIONS: usize = 4;
/// How much later than the client the server may give up, so that the client is the one that says so.
pub const TIMEOUT_MARGIN: Duration = Duration::from_millis(200);
/// Bytes of one message, in either direction: a row may have 256 MiB, and its message a little more.
pub const MESSAGE_BYTES_MAX: usize = (256 << 20) + (1 << 20);

/// A server, and an instance on it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The project.
    pub project: String,
    /// The instance.
    pub instance: String,
    /// The application profile; empty for the default one.
    pub app_profile: String,
    /// The URI of the data service, `http` or `https`.
    pub data_uri: String,
    /// The URI of the administration service.
    pub admin_uri: String,
    /// Whether requests carry credentials; an emulator takes none.
    pub authenticated: bool,
    /// How long one attempt may take. For a stream: how long it may be silent.
    pub attempt_timeout: Duration,
    /// How long an operation may take with all of its attempts. For a stream: how long it may take to the next row.
    pub operation_timeout: Duration,
    /// How long an administrative operation may take. A drop of rows waits for another one.
    pub admin_timeout: Duration,
    /// Seed of the random parts of pauses.
    pub seed: u64,
}

impl Settings {
    /// An instance of Google's service, with application default credentials.
    pub fn google(project: &str, instance: &str) -> Self {
        Self {
            project: project.into(),
            instance: instance.into(),
            app_profile: String::new(),
            data_uri: "https://bigtable.googleapis.com".into(),
            admin_uri: "https://bigtableadmin.googleapis.com".into(),
            authenticated: true,
            attempt_timeout: Duration::from_secs(20),
            operation_timeout: Duration::from_secs(60),
            admin_timeout: Duration::from_secs(300),
            seed: rand::random(),
        }
    }

    /// An instance of the emulator at `host:port`, without encryption and credentials.
    pub fn emulator(host: &str, project: &str, instance: &str) -> Self {
        let uri = format!("http://{host}");
        Self { data_uri: uri.clone(), admin_uri: uri, authenticated: false, ..Self::google(project, instance) }
    }

    /// An instance of the emulator that the variable `BIGTABLE_EMULATOR_HOST` names, else of Google's service.
    pub fn from_env(project: &str, instance: &str) -> Self {
        match std::env::var("BIGTABLE_EMULATOR_HOST") {
            Ok(host) if !host.is_empty() => Self::emulator(&host, project, instance),
            _ => Self::google(project, instance),
        }
    }

    /// Checks the names.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty name, or one with a character that would change the resource's path.
    pub fn check(&self) -> Result<()> {
        for (what, name) in [("project", &self.project), ("instance", &self.instance)] {
            // A project of a domain is `example.com:name`.
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
            if name.is_empty() || !name.bytes().all(fits) {
                return Err(Error::Config(format!("{what} {name:?} is not a name of letters, digits and -_.:")));
            }
        }
        Ok(())
    }

    /// The resource name of the instance.
    pub fn instance_name(&self) -> String {
        format!("projects/{}/instances/{}", self.project, self.instance)
    }

    /// The resource name of a table.
    pub fn table_name(&self, table: &str) -> String {
        format!("{}/tables/{table}", self.instance_name())
    }
}
