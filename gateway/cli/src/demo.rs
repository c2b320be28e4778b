//! `keyspan demo`: fills an empty store, says how to connect, asks three queries through its own socket, drops a
//! tenant, kills a server, then serves, with psql in the foreground where there is one and a terminal.

mod passwords;
mod progress;
mod queries;
mod tour;

use anyhow::{Context, Result, bail};
use indicatif::{HumanCount, HumanDuration};
use keyspan_catalog::ids::OPERATOR_DATABASE;
use keyspan_gateway::{
    auth::operator::OPERATOR_ROLE,
    demo::{self, ROLES, Size, State},
    instance::Instance,
};
use progress::LoadProgress;
use queries::Login;
use std::{
    fmt::Write as _,
    io::{IsTerminal as _, Write as _, stderr},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Instant,
};

/// What can be chosen of the demo itself.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoOptions {
    /// Rows of the generated table "readings"; they count only when the store is filled.
    #[arg(long, value_name = "ROWS", default_value_t = 20_000)]
    pub readings: u64,

    /// What the readings are made from: the same seed gives the same rows.
    #[arg(long, value_name = "NUMBER", default_value_t = 2013)]
    pub seed: u64,

    /// Stop after the tour, without psql.
    #[arg(long)]
    pub exit: bool,
}

/// The passwords of the demo's tenants, in the order of [`ROLES`].
#[derive(Debug)]
pub struct Passwords([String; ROLES.len()]);

/// Fills the store, if it is empty. `folder` is the store's, where the passwords are kept.
///
/// # Errors
/// If the store holds something else, or only a part of the demo, or the load fails.
pub async fn fill(instance: &Arc<Instance>, folder: &Path, options: &DemoOptions) -> Result<Passwords> {
    let state = demo::state(&instance.catalog.snapshot());
    if let State::Other(missing) = state {
        bail!(
            "the store in {0} is not empty and not the whole demo: {missing}\n\
             If a load was interrupted, remove the folder and start again. If the data is yours, name another folder with --store.",
            folder.display()
        );
    }
    let passwords = passwords::read_or_make(folder)?;
    if state == State::Whole {
        demo::set_passwords(instance, &passwords).await?;
        return Ok(Passwords(passwords));
    }
    let began = Instant::now();
    let mut bar = LoadProgress::new();
    let size = Size { readings: options.readings, seed: options.seed };
    let loaded = demo::load(instance, size, &passwords, &mut |progress| bar.step(progress)).await;
    bar.finish();
    loaded.context("the demo could not be loaded; remove the store's folder before the next try")?;
    let took = HumanDuration(began.elapsed());
    // A closed standard error is no reason to stop.
    let _ = writeln!(stderr(), "{:>10} {took}, {} readings made up", "loaded in", HumanCount(size.readings));
    Ok(Passwords(passwords))
}

/// How to connect to the server at `address`, the queries with their answers, and the rest of the tour, as text.
///
/// # Errors
/// If a query fails.
pub async fn show(address: SocketAddr, operator_password: &str, passwords: &Passwords) -> Result<String> {
    let address = reachable(address);
    let operator = Login { role: OPERATOR_ROLE, password: operator_password, database: OPERATOR_DATABASE };
    let tenant = |at: usize| Login { role: ROLES[at], password: &passwords.0[at], database: ROLES[at] };
    let mut text = String::from("\nConnect with any client that speaks to PostgreSQL:\n\n");
    for (who, login) in [("operator", &operator), ("tenant", &tenant(0)), ("tenant", &tenant(1))] {
        writeln!(text, "    {who:<10} psql \"{}\"", url(address, login))?;
    }
    text.push('\n');
    text.push_str(&queries::ask(address, &tenant(0), &operator).await?);
    tour::drop_a_tenant(address, &operator, &mut text).await?;
    tour::kill_a_server(&mut text).await?;
    Ok(text)
}

/// psql as the demo's first tenant, on this terminal; `None` without a terminal or psql.
pub fn psql(address: SocketAddr, passwords: &Passwords) -> Option<tokio::process::Child> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return None;
    }
    let login = Login { role: ROLES[0], password: "", database: ROLES[0] };
    let address = reachable(address);
    let mut command = tokio::process::Command::new("psql");
    // The password is in the environment, which others on the machine do not see.
    command.env("PGPASSWORD", &passwords.0[0]).arg("--host").arg(address.ip().to_string());
    command.arg("--port").arg(address.port().to_string()).args(["--username", login.role, "--dbname", login.database]);
    command.kill_on_drop(true).spawn().ok()
}

/// An address for clients on this machine: the loopback if the server listens on all addresses.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn url(address: SocketAddr, login: &Login<'_>) -> String {
    let Login { role, password, database } = login;
    format!("postgresql://{role}:{}@{address}/{database}", percent_encoded(password))
}

/// Escapes every byte but the unreserved ones of RFC 3986.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(listening: &str, password: &str, expected: Expect) {
        let login = Login { role: "vx", password, database: "vx" };
        expected.assert_eq(&url(reachable(listening.parse().unwrap()), &login));
    }

    #[test]
    fn urls_can_be_pasted() {
        check("127.0.0.1:5433", "abc", expect!["postgresql://vx:abc@127.0.0.1:5433/vx"]);
        check("0.0.0.0:1", "a@b/c d é", expect!["postgresql://vx:a%40b%2Fc%20d%20%C3%A9@127.0.0.1:1/vx"]);
        check("[::]:5433", "-._~", expect!["postgresql://vx:-._~@[::1]:5433/vx"]);
    }
}
