//! The certificates of dropped tenants as files: `certificates/TENANT-OID.json` in the store's folder.
//!
//! The catalog has the certificates; a file is a copy, for those who archive it. It is written at the drop and again at
//! each step of the purge ([`purge`](crate::purge)), whole or not at all. A file that is missing or differs is written
//! again after a start.

use crate::lock::Mutex;
use keyspan_catalog::{DropCertificate, Exports, PurgeState, Tenant};
use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder within the store's folder.
pub const FOLDER: &str = "certificates";

/// Writes the files.
#[derive(Debug, Default)]
pub struct Certificates {
    /// `None` for a store without a folder.
    folder: Option<PathBuf>,
    /// The state of the purge in each file that this process has seen, by OID: as many as there are drops.
    seen: Mutex<HashMap<u32, PurgeState>>,
}

impl Certificates {
    /// Files in the folder of a store.
    pub fn of_store(store: &Path) -> Self {
        Self { folder: Some(store.join(FOLDER)), seen: Mutex::default() }
    }

    /// Writes the files that are missing or differ. Blocks.
    ///
    /// # Errors
    /// Those of the system, the first of several.
    pub fn write(&self, drops: &[Arc<DropCertificate>]) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let mut seen = self.seen.lock();
        let mut first = None;
        for drop in drops {
            // A caller with an older snapshot must not bring back an earlier state.
            if seen.get(&drop.oid).is_some_and(|state| *state >= drop.purge_state()) {
                continue;
            }
            match write_one(folder, drop) {
                Ok(()) => _ = seen.insert(drop.oid, drop.purge_state()),
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// Counts files of exports by tenant: those below `NAME-OID` in the folder that `COPY … TO` writes to.
pub fn exports_below(folder: PathBuf) -> impl Fn(&Tenant) -> Exports + Send + Sync + 'static {
    move |tenant| {
        let mut exports = Exports::default();
        let mut folders = vec![folder.join(format!("{}-{}", tenant.id, tenant.oid))];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            for entry in entries.flatten() {
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                    Ok(metadata) if metadata.is_file() => {
                        (exports.files, exports.bytes) = (exports.files + 1, exports.bytes + metadata.len());
                    }
                    _ => {}
                }
            }
        }
        exports
    }
}

fn write_one(folder: &Path, drop: &DropCertificate) -> io::Result<()> {
    let name = format!("{}-{}.json", drop.tenant, drop.oid);
    let (path, text) = (folder.join(&name), drop.to_json());
    if fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(());
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let new = folder.join(format!("{name}.new"));
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyspan_catalog::TenantId;
    use std::os::unix::fs::PermissionsExt;

    fn certificate(purged_micros: Option<i64>) -> Vec<Arc<DropCertificate>> {
        vec![Arc::new(DropCertificate {
            contents: keyspan_catalog::Contents::default(),
            oid: 7,
            tenant: TenantId::new("alto").unwrap(),
            dropped_by: "keyspan".to_owned(),
            tables: 1,
            rows: 1,
            bytes: 1,
            dropped_micros: 0,
            purging_micros: purged_micros,
            purged_micros,
        })]
    }

    #[test]
    fn a_file_follows_its_certificate() {
        let store = tempfile::tempdir().unwrap();
        let path = store.path().join("certificates/alto-7.json");
        let certificates = Certificates::of_store(store.path());
        certificates.write(&certificate(None)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), certificate(None)[0].to_json());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        certificates.write(&certificate(Some(5))).unwrap();
        certificates.write(&certificate(None)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), certificate(Some(5))[0].to_json());
        // Another process, after the file was lost or changed.
        for changed in [None, Some("{}")] {
            match changed {
                None => fs::remove_file(&path).unwrap(),
                Some(text) => fs::write(&path, text).unwrap(),
            }
            Certificates::of_store(store.path()).write(&certificate(Some(5))).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), certificate(Some(5))[0].to_json());
        }
        assert_eq!(fs::read_dir(store.path().join(FOLDER)).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_tried_again() {
        let store = tempfile::tempdir().unwrap();
        fs::write(store.path().join(FOLDER), "no folder").unwrap();
        let certificates = Certificates::of_store(store.path());
        assert!(certificates.write(&certificate(None)).is_err());
        fs::remove_file(store.path().join(FOLDER)).unwrap();
        certificates.write(&certificate(None)).unwrap();
        assert!(store.path().join("certificates/alto-7.json").exists());
    }
}
