//! The program `keyspan`: its command line, and its way from start to end.
//!
//! Here belongs what a user of the program sees before and beside the server: options, notices, exit codes, the
//! operator's password in a file, progress bars. What a server does belongs to [`keyspan_gateway`], what `keyspan
//! bench` measures to [`keyspan_bench`].
//!
//! [`main`] parses, opens the store and the catalog ([`open`](mod@open)), sets the operator's password ([`password`]),
//! starts the [`server`](keyspan_gateway::server) and waits for a signal. `keyspan demo` fills the store before that
//! ([`demo`]); `check`, `backup` and `restore` only work on the store's [`files`], `completions` and `man` write the
//! [`manual`]. An error before the server listens
//! is one line on standard error and exit code 1. Standard output says `listening on ADDR:PORT`, for programs that
//! start this one.

pub mod advise;
pub mod client;
pub mod config;
pub mod demo;
pub mod files;
pub mod log;
pub mod manual;
pub mod open;
pub mod options;
pub mod password;
pub mod permissions;
pub mod proto;
pub mod tenant_files;
pub mod version;

use anyhow::{Context, Result};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use config::{Arguments, Values};
use demo::DemoOptions;
use keyspan_bench::{Bench, Signals};
use keyspan_gateway::{
    instance::Instance,
    resources::raise_open_files,
    server::{Server, ServerOptions},
};
use log::LogFormat;
use open::OpenStore;
use options::ServeOptions;
use std::{
    io::{Write, stderr, stdout},
    net::{SocketAddr, ToSocketAddrs},
    process::ExitCode,
    sync::atomic::Ordering,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Bytes of a worker's stack: plans of deeply nested queries recurse.
const STACK_BYTES: usize = 8 << 20;

/// A Postgres server in front of one big wide-column table.
///
/// Each tenant is a Postgres database, its rows a span of row keys; SQL predicates become key ranges inside the store.
/// psql, drivers and BI tools connect as to PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "keyspan", version = version::line(), after_long_help = AFTER_HELP, max_term_width = 120, args_override_self = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  keyspan demo                            load real flights, ask three queries, serve
  keyspan serve                           serve ./keyspan-data on 127.0.0.1:5433
  keyspan serve --store /srv/keyspan --listen 0.0.0.0:5432 --tls-cert server.crt --tls-key server.key
  keyspan serve --config /etc/keyspan/keyspan.toml     these options in a file: keyspan config --print shows all
  keyspan serve --memory 4GiB --segments s3://bucket/prefix    rows in a bucket, the log on the local disk
  keyspan backup /backup/today            copy ./keyspan-data, which may be served meanwhile
  keyspan backup /backup/alto --tenant alto             one tenant of it, alone
  keyspan restore /backup/today --tenant alto --as old  copy a tenant of a backup into the running server
  keyspan advise                          what a running server would have in another way, and the statements
  keyspan proto import telemetry.pb       let columns hold protobuf messages
  keyspan bench scan                      what scans and space cost over plain Parquet files, on this machine

Connect:
  psql \"host=127.0.0.1 port=5433 user=keyspan dbname=keyspan\"      the operator: tables, tenants, roles
  psql \"host=127.0.0.1 port=5433 user=ana dbname=altostrat\"        a role in a tenant's database

Environment:
  KEYSPAN_PASSWORD   the operator's password; without it one is made at the first start, shown once, and kept in the store's folder
                     in the file operator-password, readable by its owner alone
  KEYSPAN_CONFIG     the configuration file, as --config
  KEYSPAN_…          the options of storage, see keyspan serve --help: an option on the command line comes before it
  KEYSPAN_LOG        what is logged to standard error, for example info or keyspan=debug (default: warn)

Stop it with Ctrl-C or SIGTERM: running statements get ten seconds to finish. A second signal stops at once; what was
acknowledged is on the disk either way.";

/// What to do with a configuration.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub struct ConfigOptions {
    /// Print a file with all options, each with what it means and its default.
    #[arg(long)]
    print: bool,

    /// Check a file, and name the line of what is wrong.
    #[arg(long, value_name = "FILE")]
    check: Option<std::path::PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a store.
    Serve {
        #[command(flatten)]
        serve: ServeOptions,
    },
    /// Show or check configuration files.
    Config(ConfigOptions),
    /// Fill an empty store with real flights, ask three queries through the own wire, then serve it.
    Demo {
        #[command(flatten)]
        serve: ServeOptions,
        #[command(flatten)]
        demo: DemoOptions,
    },
    /// Read every file of a store that is not in use, and name what is damaged.
    #[command(after_help = files::CHECK_HELP)]
    Check {
        #[command(flatten)]
        store: files::StoreLocation,
    },
    /// Copy a store, or one tenant of it, in use or not, into an empty folder.
    #[command(after_help = files::BACKUP_HELP)]
    Backup {
        #[command(flatten)]
        backup: files::BackupOptions,
    },
    /// Make a store of a backup, in an empty folder, or copy one tenant of it into a running server.
    #[command(after_help = files::RESTORE_HELP)]
    Restore {
        #[command(flatten)]
        restore: files::RestoreOptions,
    },
    /// Say what would make the tables of a running server better, and the statements that would do it.
    #[command(after_help = advise::HELP)]
    Advise {
        #[command(flatten)]
        advise: advise::AdviseOptions,
    },
    /// Protobuf descriptors of a running server.
    #[command(subcommand)]
    Proto(proto::Proto),
    /// Measure on this machine what is promised of speed and space.
    #[command(subcommand)]
    Bench(Bench),
    /// Write the completions of a shell to standard output.
    #[command(after_help = manual::COMPLETIONS_HELP)]
    Completions {
        /// The shell.
        shell: manual::Shell,
    },
    /// Write the manual, in the form of man, to standard output or to a folder.
    #[command(after_help = manual::MAN_HELP)]
    Man {
        #[command(flatten)]
        man: manual::ManOptions,
    },
}

/// The program: parses the arguments of the process, runs, gives its exit code.
pub fn main() -> ExitCode {
    let arguments = match Arguments::of_process() {
        Ok(arguments) => arguments,
        Err(error) => return wrong_configuration(&format!("{error:#}")),
    };
    let (cli, values) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => match arguments.located(&error, &Cli::command()) {
            Some(located) => return wrong_configuration(&located),
            None => error.exit(),
        },
    };
    log::begin(match &cli.command {
        Command::Serve { serve } | Command::Demo { serve, .. } => serve.log_format,
        _ => LogFormat::Auto,
    });
    permissions::keep_to_owner();
    let files = raise_open_files();
    tracing::info!(?files, "how many files may be open");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(STACK_BYTES).build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(Box::pin(run(cli, values))),
        Err(error) => Err(error).context("cannot start threads"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = format!("{error:#}");
            if let Some(located) = arguments.with_line(&text) {
                return wrong_configuration(&located);
            }
            // A closed standard error is no reason to fail otherwise.
            let _ = writeln!(stderr(), "keyspan: {text}");
            ExitCode::FAILURE
        }
    }
}

/// The command of some arguments, and what the options of `serve` are set to.
fn parse(arguments: &Arguments) -> Result<(Cli, Values), clap::Error> {
    let matches = Cli::command().try_get_matches_from(&arguments.all)?;
    let values = matches.subcommand().map(|(_, own)| config::values(own)).unwrap_or_default();
    Ok((Cli::from_arg_matches(&matches)?, values))
}

/// Says what is wrong with the configuration: exit code 2, as for a wrong command line.
fn wrong_configuration(what: &str) -> ExitCode {
    let _ = writeln!(stderr(), "keyspan: {what}");
    ExitCode::from(2)
}

fn configuration(options: &ConfigOptions) -> Result<()> {
    if let Some(file) = &options.check {
        config::check(file, &Cli::command())?;
    }
    if options.print {
        write!(stdout(), "{}", config::print()).context("cannot write to standard output")?;
    }
    Ok(())
}

async fn run(cli: Cli, values: Values) -> Result<()> {
    let (options, demo) = match cli.command {
        Command::Serve { serve } => (serve, None),
        Command::Demo { serve, demo } => (serve, Some(demo)),
        Command::Config(options) => return configuration(&options),
        Command::Check { store } => return files::check(store).await,
        Command::Backup { backup } => return files::backup(backup).await,
        Command::Restore { restore } => return files::restore(restore).await,
        Command::Advise { advise } => return advise::run(advise).await,
        Command::Proto(command) => return proto::run(command).await,
        Command::Completions { shell } => return manual::completions(Cli::command(), shell),
        Command::Man { man } => return manual::write(Cli::command(), &man),
        Command::Bench(bench) => return Box::pin(keyspan_bench::run(bench)).await,
    };
    // Before the store is opened: a wrong address should not cost the replay of a log.
    let listen = resolve(&options.listen)?;
    let access = options.access_rules()?;
    let (http, traces) = (options.http_options()?, options.collector()?);
    let opened = Box::pin(open::open(&options)).await?;
    set_log_min_duration(&opened.instance, &options);
    let password = password::ensure(&opened.instance.catalog, &options.store).await?;
    let passwords = match &demo {
        Some(demo) => Some(Box::pin(demo::fill(&opened.instance, &options.store, demo)).await?),
        None => None,
    };
    let server = Server::start(ServerOptions {
        listen,
        tls: options.tls(),
        access,
        http,
        traces,
        connections_max: options.connections_max,
        connections_reserved: options.connections_reserved,
        data_directory: Some(options.store.clone()),
        ..ServerOptions::new(opened.instance.clone())
    })
    .await?;
    let mut signals = Signals::new()?;
    // Before the server says that it listens, since one that is told to reload may not end. A demo goes with its terminal
    // as long as psql has it.
    let hang_up = if demo.is_none() { Some(hang_ups()?) } else { None };
    print_notices(&server, &opened, &password, &options)?;
    if let (Some(demo), Some(passwords)) = (&demo, &passwords) {
        let shown = Box::pin(demo::show(server.address(), password.text()?, passwords)).await;
        if let Ok(text) = &shown {
            write!(stdout(), "{text}")?;
        }
        if demo.exit || shown.is_err() {
            server.shutdown().await.context("cannot close the store")?;
            return shown.map(drop);
        }
        if let Some(mut psql) = demo::psql(server.address(), passwords) {
            // Ctrl-C on the terminal is for psql while it runs.
            tokio::select! {
                _ = psql.wait() => signals = Signals::new()?,
                () = signals.terminated() => {
                    drop(psql);
                    return server.shutdown().await.context("cannot close the store");
                }
            }
            writeln!(stdout(), "The demo serves on, at {}: Ctrl-C ends it.", server.address())?;
        }
    }
    let hang_up = hang_up.map_or_else(hang_ups, Ok)?;
    wait(server, (signals, hang_up), (&opened.instance, options, values)).await
}

/// The signals that say to read the configuration anew.
fn hang_ups() -> Result<Signal> {
    signal(SignalKind::hangup()).context("cannot listen for signals")
}

/// The address of `host:port`.
fn resolve(listen: &str) -> Result<SocketAddr> {
    let addresses = listen.to_socket_addrs().with_context(|| format!("--listen {listen} is no ADDR:PORT"))?;
    addresses.into_iter().next().with_context(|| format!("--listen {listen} names no address"))
}

/// Prints the notices to standard error, and the address to standard output.
fn print_notices(
    server: &Server,
    opened: &OpenStore,
    password: &password::Password,
    options: &ServeOptions,
) -> Result<()> {
    let mut text = opened.notice(options);
    text.push_str(&password.notice(&options.store));
    // A closed standard error is no reason to stop.
    let _ = stderr().write_all(text.as_bytes());
    writeln!(stdout(), "listening on {}", server.address()).context("cannot write to standard output")?;
    if let Some(address) = server.http_address() {
        writeln!(stdout(), "metrics on http://{address}/metrics").context("cannot write to standard output")?;
    }
    stdout().flush().context("cannot write to standard output")
}

/// Serves until a signal, then drains connections; a second signal stops at once. SIGHUP reads the configuration and
/// the access rules anew.
async fn wait(
    server: Server,
    (mut signals, mut hang_up): (Signals, Signal),
    (instance, mut options, mut values): (&Instance, ServeOptions, Values),
) -> Result<()> {
    loop {
        tokio::select! {
            () = signals.next() => break,
            _ = hang_up.recv() => {
                reconfigure(instance, &mut options, &mut values);
                reload(&server, &options);
            }
        }
    }
    tracing::info!("stopping");
    tokio::select! {
        closed = server.shutdown() => closed.context("cannot close the store"),
        () = signals.next() => anyhow::bail!("stopped by a second signal"),
    }
}

/// Reads the configuration anew; one that is wrong changes nothing.
fn reconfigure(instance: &Instance, options: &mut ServeOptions, values: &mut Values) {
    if options.config.is_none() {
        return;
    }
    let parsed = Arguments::of_process().map_err(|error| format!("{error:#}")).and_then(|arguments| {
        let located = |error| arguments.located(&error, &Cli::command()).unwrap_or_else(|| error.to_string());
        parse(&arguments).map_err(located)
    });
    match parsed {
        Ok((Cli { command: Command::Serve { serve } | Command::Demo { serve, .. } }, new)) => {
            for name in config::needs_restart(values, &new) {
                tracing::warn!(option = name, "the configuration has changed: this option needs a restart");
            }
            options.access = serve.access;
            options.log_min_duration_statement = serve.log_min_duration_statement;
            set_log_min_duration(instance, options);
            *values = new;
            tracing::warn!("the configuration was read anew");
        }
        Ok(_) => {}
        Err(error) => tracing::error!("{error}; what was read before still holds"),
    }
}

fn set_log_min_duration(instance: &Instance, options: &ServeOptions) {
    instance.log_min_duration_millis.store(options.log_min_duration_statement, Ordering::Relaxed);
}

/// Reads the access rules anew. Those that are wrong change nothing.
fn reload(server: &Server, options: &ServeOptions) {
    match options.access_rules() {
        Ok(rules) => {
            server.set_access(rules);
            tracing::warn!("the access rules were read anew");
        }
        Err(error) => tracing::error!("{error:#}; those that were read before still hold"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io, path::PathBuf};
    use tracing_subscriber::EnvFilter;

    /// The example of the help text: a filter's target is a prefix.
    const LOG_OF_ALL_CRATES: &str = "keyspan=debug";

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn one_name_in_the_log_filter_means_all_crates_of_the_program() {
        let filter = EnvFilter::new(LOG_OF_ALL_CRATES);
        let logged = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::sink).finish();
        tracing::subscriber::with_default(logged, || {
            assert!(tracing::enabled!(target: "keyspan_gateway::server", tracing::Level::DEBUG));
            assert!(tracing::enabled!(target: "keyspan_cli::open", tracing::Level::DEBUG));
            assert!(tracing::enabled!(target: "keyspan_storage::engine", tracing::Level::DEBUG));
            assert!(!tracing::enabled!(target: "datafusion", tracing::Level::DEBUG));
        });
        assert!(AFTER_HELP.contains(LOG_OF_ALL_CRATES));
    }

    #[test]
    fn the_defaults_are_those_that_other_programs_rely_on() {
        let Command::Serve { serve } = Cli::parse_from(["keyspan", "serve"]).command else { panic!("serve") };
        assert_eq!((serve.store, serve.listen.as_str()), (PathBuf::from("./keyspan-data"), "127.0.0.1:5433"));
        let Command::Demo { demo, .. } = Cli::parse_from(["keyspan", "demo", "--exit", "--listen", "[::1]:0"]).command
        else {
            panic!("demo")
        };
        assert!(demo.exit);
    }

    #[test]
    fn an_address_is_one_or_is_refused() {
        assert_eq!(resolve("127.0.0.1:0").unwrap(), SocketAddr::from(([127, 0, 0, 1], 0)));
        for listen in ["127.0.0.1", "127.0.0.1:99999", ":"] {
            assert!(format!("{:#}", resolve(listen).unwrap_err()).starts_with("--listen"), "{listen}");
        }
    }
}
