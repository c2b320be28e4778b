//! PostgreSQL beside Keyspan: a cluster in the run's folder, made and served by the installed programs until the run
//! ends.

use anyhow::{Context, Result, bail, ensure};
use keyspan_gateway::resources::Size;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::{
    env, fs,
    io::{BufRead, BufReader, Write, stderr},
    net::{Ipv4Addr, TcpListener},
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tokio_postgres::{Client, Config};

/// Where Debian and its derivatives put the programs of PostgreSQL 15, the version that the targets refer to.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// Users that PostgreSQL runs as if this program runs as root, which PostgreSQL refuses.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// A cluster that ends with the run.
pub(super) struct Postgres {
    server: Child,
    place: Place,
    /// The settings that differ from the defaults, as `name=value`.
    pub(super) settings: Vec<String>,
}

/// Where a cluster is, and who serves it.
#[derive(Clone)]
struct Place {
    folder: PathBuf,
    program: PathBuf,
    /// The user and group that it runs as, if they are not those of this program.
    user: Option<(u32, u32)>,
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGQUIT ends it at once, its children too.
        let _ = self.end(Signal::QUIT);
    }
}

impl Place {
    /// A program of PostgreSQL, with none of this process's environment but `PATH`.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.folder).env_clear().envs(env::var_os("PATH").map(|path| ("PATH", path)));
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }
}

impl Postgres {
    /// Makes a cluster in `folder` and serves it on a free port; returns how to connect, too, or `None` if PostgreSQL
    /// is not installed.
    pub(super) fn start(memory: Size, folder: &Path) -> Result<Option<(Self, Config)>> {
        let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else { return Ok(None) };
        fs::create_dir(folder)?;
        let user = other_user()?;
        if let Some((user, group)) = user {
            // The parent folder belongs to this user alone; PostgreSQL's user has to pass through it.
            fs::set_permissions(folder.parent().context("a folder")?, fs::Permissions::from_mode(0o711))?;
            chown(folder, Some(user), Some(group))?;
        }
        let place = Place { folder: folder.to_owned(), program: postgres, user };
        let mut made = place.command(&initdb);
        made.args(["--auth=trust", "--username=bench", "--locale=C", "--encoding=UTF8", "-D"]).arg(place.data());
        let made = made.output().context("cannot start initdb")?;
        ensure!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        Self::serve(place, settings(memory)).map(Some)
    }

    /// Serves a cluster on a free port.
    fn serve(place: Place, settings: Vec<String>) -> Result<(Self, Config)> {
        // If another process takes the port in between, the server fails and says so.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut server = place.command(&place.program);
        server.arg("-D").arg(place.data()).arg("-p").arg(port.to_string()).arg("-k").arg(&place.folder);
        server.args(["-h", "127.0.0.1"]).args(settings.iter().flat_map(|setting| ["-c", setting]));
        let server = server.spawn().context("cannot start postgres")?;
        let mut postgres = Self { server, place, settings };
        postgres.wait()?;
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("bench").dbname("postgres");
        Ok((postgres, config))
    }

    /// Stops the server after a checkpoint and starts it again; returns how to connect.
    pub(super) fn restart(&mut self) -> Result<Config> {
        self.end(Signal::INT)?;
        let (server, config) = Self::serve(self.place.clone(), self.settings.clone())?;
        *self = server;
        Ok(config)
    }

    /// Its version and its settings, for the report.
    ///
    /// # Errors
    /// If the server does not answer.
    pub(super) async fn description(&self, client: &Client) -> Result<String> {
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        Ok(format!("PostgreSQL {version}: {}", self.settings.join(", ")))
    }

    /// The folder of its files.
    pub(super) fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// Sends a signal to the server and waits until it has ended.
    fn end(&mut self, signal: Signal) -> Result<()> {
        // It may have ended by itself.
        if self.server.try_wait()?.is_none()
            && let Some(id) = i32::try_from(self.server.id()).ok().and_then(Pid::from_raw)
        {
            kill_process(id, signal)?;
        }
        self.server.wait()?;
        Ok(())
    }

    /// Waits until the server logs that it is ready, and reads the rest of its log in the background.
    fn wait(&mut self) -> Result<()> {
        let mut log = BufReader::new(self.server.stderr.take().context("its output")?).lines();
        let mut said = Vec::new();
        loop {
            let Some(line) = log.next().transpose()? else { bail!("postgres ended: {}", said.join("\n")) };
            if line.contains("database system is ready to accept connections") {
                break;
            }
            said.push(line);
        }
        std::thread::spawn(move || {
            for line in log.map_while(Result::ok).filter(|line| line.contains("ERROR") || line.contains("FATAL")) {
                // Nobody may be listening.
                let _ = writeln!(stderr(), "postgres: {line}");
            }
        });
        Ok(())
    }
}

/// Settings tuned for the machine: its memory, few checkpoints, full durability.
fn settings(memory: Size) -> Vec<String> {
    let shared = (memory.0 >> 20).max(128);
    [
        format!("shared_buffers={shared}MB"),
        format!("effective_cache_size={}MB", 3 * shared),
        "work_mem=64MB".into(),
        "maintenance_work_mem=256MB".into(),
        "wal_level=minimal".into(),
        "max_wal_senders=0".into(),
        "max_wal_size=8GB".into(),
        "checkpoint_timeout=30min".into(),
        "random_page_cost=1.1".into(),
        "fsync=on".into(),
        "synchronous_commit=on".into(),
    ]
    .into()
}

/// The path of an installed program of PostgreSQL.
fn program(name: &str) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    std::iter::once(PROGRAMS.into()).chain(folders).map(|folder: PathBuf| folder.join(name)).find(|path| path.is_file())
}

/// The user and group that PostgreSQL runs as, if it cannot run as this program's user.
fn other_user() -> Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let all = fs::read_to_string("/etc/passwd").context("cannot read the names of users")?;
    let numbers = |name: &str| {
        let fields: Vec<&str> =
            all.lines().map(|line| line.split(':').collect()).find(|line: &Vec<_>| line[0] == name)?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    };
    let found = USERS.into_iter().find_map(numbers);
    Ok(Some(found.context("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")?))
}
