//! The passwords of the demo's roles: random, and kept in the store's folder as the operator's is, so that a later
//! start prints them again. The file holds a line `role:password` for each role and is readable by its owner alone.

use anyhow::{Context, Result};
use keyspan_gateway::demo::ROLES;
use rand::distr::{Alphanumeric, SampleString};
use std::{
    fs::{self, OpenOptions},
    io::{ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The file, in the store's folder.
const FILE: &str = "demo-passwords";
/// Letters and digits of a password.
const LENGTH: usize = 20;

/// The passwords of [`ROLES`] in the folder's file; missing ones are made and saved.
///
/// # Errors
/// If the file cannot be read or written.
pub(super) fn read_or_make(folder: &Path) -> Result<[String; ROLES.len()]> {
    let path = folder.join(FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let found =
        |role: &str| text.lines().find_map(|line| line.strip_prefix(role)?.strip_prefix(':').map(str::to_owned));
    let found = ROLES.map(|role| found(role).filter(|password| !password.is_empty()));
    if let [Some(first), Some(second)] = found {
        return Ok([first, second]);
    }
    let passwords =
        found.map(|password| password.unwrap_or_else(|| Alphanumeric.sample_string(&mut rand::rng(), LENGTH)));
    let lines: String = ROLES.iter().zip(&passwords).map(|(role, password)| format!("{role}:{password}\n")).collect();
    save(&path, &lines).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(passwords)
}

/// Replaces the file as a whole: a crash leaves the old one or the new one.
fn save(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn passwords_are_kept_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let passwords = read_or_make(folder.path()).unwrap();
        assert_eq!(passwords, read_or_make(folder.path()).unwrap());
        assert_ne!(passwords[0], passwords[1]);
        let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_line_that_is_missing_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(FILE), format!("{}:kept\n", ROLES[0])).unwrap();
        let passwords = read_or_make(folder.path()).unwrap();
        assert_eq!((passwords[0].as_str(), passwords[1].len()), ("kept", LENGTH));
        assert_eq!(passwords, read_or_make(folder.path()).unwrap());
    }
}
