//! Who may read the store: the user of the process alone, as PostgreSQL has it.
//!
//! What the program makes has no rights for group and others ([`keep_to_owner`]). A store's folder that was made
//! otherwise, by an earlier version or by hand, is closed at the start, with a warning ([`close`]): nobody reaches what
//! is below a closed folder. PostgreSQL refuses such a start; that would stop every store that was made before. What
//! belongs to another user cannot be closed from here: it is refused if it is open to everybody. Rights of its group
//! stay, since they may be how the process comes in, as with volumes of Kubernetes.

use anyhow::{Context, Result, bail};
use rustix::{
    fs::Mode,
    process::{geteuid, umask},
};
use std::{
    fs::{self, Permissions},
    io::ErrorKind,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

/// Rights of the group and of others.
const FOREIGN: u32 = 0o077;
/// Rights of others.
const OTHERS: u32 = 0o007;

/// From now on the files and folders that the process makes are for its user alone.
pub fn keep_to_owner() {
    umask(Mode::RWXG | Mode::RWXO);
}

/// What is to be done about a folder.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing.
    Closed,
    /// Its mode is to be this one.
    Close(u32),
    /// It cannot be closed, and must not be used.
    Refuse,
}

/// Judges a folder's mode; `is_ours` tells whether this process may change it.
fn judge(mode: u32, is_ours: bool) -> Verdict {
    match (mode & FOREIGN, is_ours) {
        (0, _) => Verdict::Closed,
        (_, true) => Verdict::Close(mode & 0o7777 & !FOREIGN),
        (foreign, false) if foreign & OTHERS == 0 => Verdict::Closed,
        (_, false) => Verdict::Refuse,
    }
}

/// Closes a store's folder, if it exists, to everybody but its owner.
///
/// # Errors
/// If it belongs to another user and is open to everybody, or the system refuses.
pub fn close(folder: &Path) -> Result<()> {
    let shown = folder.display();
    let metadata = match fs::metadata(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        metadata => metadata.with_context(|| format!("cannot use the folder {shown}"))?,
    };
    let user = geteuid();
    let mode = metadata.mode() & 0o7777;
    match judge(mode, user.is_root() || metadata.uid() == user.as_raw()) {
        Verdict::Closed => {}
        Verdict::Close(closed) => {
            let hint = || format!("cannot take the folder {shown} from group and others: chmod -R go= {shown}");
            fs::set_permissions(folder, Permissions::from_mode(closed)).with_context(hint)?;
            tracing::warn!("the folder {shown} was open to others: its mode {mode:04o} is {closed:04o} now");
        }
        Verdict::Refuse => {
            bail!("the folder {shown} is open to everybody (mode {mode:04o}) and another user's: chmod -R go= {shown}")
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_ours_is_closed_and_one_of_others_refused_if_it_is_open_to_all() {
        for (mode, ours, others) in [
            (0o40_700, Verdict::Closed, Verdict::Closed),
            (0o40_755, Verdict::Close(0o700), Verdict::Refuse),
            (0o40_750, Verdict::Close(0o700), Verdict::Closed),
            (0o42_770, Verdict::Close(0o2700), Verdict::Closed),
            (0o42_775, Verdict::Close(0o2700), Verdict::Refuse),
            (0o41_777, Verdict::Close(0o1700), Verdict::Refuse),
            (0o40_701, Verdict::Close(0o700), Verdict::Refuse),
        ] {
            assert_eq!((judge(mode, true), judge(mode, false)), (ours, others), "{mode:o}");
        }
    }

    #[test]
    fn a_folder_is_closed_once() {
        let folder = tempfile::tempdir().unwrap();
        let mode = || fs::metadata(folder.path()).unwrap().mode() & 0o7777;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        close(folder.path()).unwrap();
        assert_eq!(mode(), 0o700);
        close(folder.path()).unwrap();
        assert_eq!(mode(), 0o700);
        close(&folder.path().join("none")).unwrap();
    }
}
