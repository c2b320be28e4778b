//! The operator's password: from `KEYSPAN_PASSWORD`, or made at the first start and kept in the store's folder.

use anyhow::{Context, Result};
use keyspan_catalog::Catalog;
use keyspan_gateway::auth::{operator, scram::is_password_of};
use rand::distr::{Alphanumeric, SampleString};
use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The environment variable with the password.
pub const VARIABLE: &str = "KEYSPAN_PASSWORD";
/// The file with the password, in the store's folder.
pub const FILE: &str = "operator-password";
/// Letters and digits of a generated password: 142 bits.
const LENGTH: usize = 24;

/// The operator's password, as far as it is known.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// From the environment variable [`VARIABLE`].
    FromEnvironment(String),
    /// Generated at this start.
    Generated(String),
    /// From the file.
    FromFile(String),
    /// Set by SQL or by a former environment.
    Unknown,
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::FromEnvironment(_) => "FromEnvironment(…)",
            Self::Generated(_) => "Generated(…)",
            Self::FromFile(_) => "FromFile(…)",
            Self::Unknown => "Unknown",
        })
    }
}

impl Password {
    /// The password.
    ///
    /// # Errors
    /// If it is not known.
    pub fn text(&self) -> Result<&str> {
        match self {
            Self::FromEnvironment(password) | Self::Generated(password) | Self::FromFile(password) => Ok(password),
            Self::Unknown => anyhow::bail!("the operator's password is not known: set {VARIABLE}"),
        }
    }

    /// The notice at the start. Only a password generated at this start is shown.
    pub fn notice(&self, store: &Path) -> String {
        let file = store.join(FILE);
        let file = file.display();
        match self {
            Self::Generated(password) => {
                format!("the password of role keyspan is {password} (shown this once, kept in {file})\n")
            }
            Self::FromFile(_) => format!("the password of role keyspan is in {file}\n"),
            Self::FromEnvironment(_) | Self::Unknown => String::new(),
        }
    }
}

/// Makes the operator's role if it does not exist, and sets or finds its password.
///
/// # Errors
/// If the file cannot be read or written, or the catalog fails.
pub async fn ensure(catalog: &Catalog, store: &Path) -> Result<Password> {
    let from_environment = std::env::var(VARIABLE).ok().filter(|password| !password.is_empty());
    ensure_with(catalog, store, from_environment).await
}

async fn ensure_with(catalog: &Catalog, store: &Path, from_environment: Option<String>) -> Result<Password> {
    let path = store.join(FILE);
    let context = || format!("cannot use {}", path.display());
    let from_file = read(&path).with_context(context)?;
    if let Some(password) = from_environment {
        operator::ensure(catalog, &password).await.with_context(|| format!("cannot use {VARIABLE}"))?;
        if from_file.is_some_and(|from_file| from_file != password) {
            // The file's password is no longer valid.
            fs::remove_file(&path).with_context(context)?;
        }
        return Ok(Password::FromEnvironment(password));
    }
    let snapshot = catalog.snapshot();
    if let Some(role) = snapshot.role(operator::OPERATOR_ROLE) {
        let fits = |password: &String| role.secret.as_ref().is_some_and(|secret| is_password_of(password, secret));
        return Ok(from_file.filter(fits).map_or(Password::Unknown, Password::FromFile));
    }
    // Save the password before it is in force: after a crash in between, the next start takes it from the file.
    let password = match from_file {
        Some(password) => password,
        None => {
            let password = Alphanumeric.sample_string(&mut rand::rng(), LENGTH);
            save(&path, &password).with_context(context)?;
            password
        }
    };
    operator::ensure(catalog, &password).await.context("cannot make the operator's role")?;
    Ok(Password::Generated(password))
}

fn read(path: &Path) -> std::io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim_end().to_owned()).filter(|password| !password.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes the file atomically: a crash leaves no file or all of it.
fn save(path: &Path, password: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    writeln!(file, "{password}")?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspan_storage::{clock::ManualClock, memory::MemoryStore};
    use std::{os::unix::fs::PermissionsExt, sync::Arc};

    async fn catalog() -> Catalog {
        let store = MemoryStore::new(Box::new(ManualClock::new(1_000_000)));
        Catalog::open(Arc::new(store)).await.unwrap()
    }

    fn is_in_force(catalog: &Catalog, password: &str) -> bool {
        let snapshot = catalog.snapshot();
        let role = snapshot.role(operator::OPERATOR_ROLE).unwrap();
        role.operator && role.login && is_password_of(password, role.secret.as_ref().unwrap())
    }

    #[tokio::test]
    async fn a_password_is_made_once_and_kept_in_private() {
        let (folder, catalog) = (tempfile::tempdir().unwrap(), catalog().await);
        let made = ensure_with(&catalog, folder.path(), None).await.unwrap();
        let Password::Generated(password) = &made else { panic!("{made:?}") };
        assert!(is_in_force(&catalog, password) && made.notice(folder.path()).contains(password));
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = ensure_with(&catalog, folder.path(), None).await.unwrap();
        assert_eq!(again, Password::FromFile(password.clone()));
        assert!(!again.notice(folder.path()).contains(password));
    }

    #[tokio::test]
    async fn the_environment_has_the_last_word() {
        let (folder, catalog) = (tempfile::tempdir().unwrap(), catalog().await);
        ensure_with(&catalog, folder.path(), None).await.unwrap();
        let from_environment = Some("correct horse".to_owned());
        ensure_with(&catalog, folder.path(), from_environment).await.unwrap();
        assert!(is_in_force(&catalog, "correct horse"));
        assert!(!folder.path().join(FILE).exists());
        let later = ensure_with(&catalog, folder.path(), None).await.unwrap();
        assert_eq!((later.text().is_err(), later), (true, Password::Unknown));
    }
}
