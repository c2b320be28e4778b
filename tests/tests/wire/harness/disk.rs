//! Disks that a test fills and empties: what is left of them goes to a ballast, so that it is the test that says when
//! they are full.
//!
//! A server may free room by itself at any moment (a file of the log, the inputs of a compaction), so that a full disk
//! does not stay full. [`Disk::fill`] takes what is left; whoever asks for more room than is free is refused by the
//! disk itself.

use anyhow::{Context, Result};
use keyspan_storage::fs::{File, Fs, LocalFs};
use std::{
    any::Any,
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A disk of a fixed size with a ballast on it.
pub trait Disk {
    /// Lets the ballast take all that is free now.
    fn fill(&self) -> Result<()>;

    /// Throws the ballast away.
    fn empty(&self) -> Result<()>;
}

/// What a write of the ballast adds, a page of the machine.
const BALLAST_BYTES: usize = 4 << 10;

/// A tmpfs in a mount namespace of its own, which ends with it.
pub struct Tmpfs {
    /// Keeps the namespace: it waits for the end of its standard input.
    keeper: Child,
    folder: PathBuf,
}

impl Tmpfs {
    /// Mounts one over a folder, for those who are in its namespace; why not, where the machine does not allow that.
    pub async fn mount(folder: &Path, mebibytes: u32) -> Result<Self> {
        let script = format!("mount -t tmpfs -o size={mebibytes}m tmpfs \"$0\" && echo mounted && exec cat");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut keeper = command.spawn().context("there is no unshare")?;
        let told = BufReader::new(keeper.stdout.take().context("a pipe")?).lines().next_line().await?;
        if told.as_deref() != Some("mounted") {
            let output = keeper.wait_with_output().await?;
            anyhow::bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(Self { keeper, folder: folder.to_owned() })
    }

    /// Where it is mounted, for those in its namespace.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn process(&self) -> Result<u32> {
        self.keeper.id().context("the keeper runs")
    }

    /// The command, run where the disk is mounted.
    pub fn inside(&self, command: &Command) -> Result<Command> {
        let mut inside = Command::new("nsenter");
        inside.args(["--preserve-credentials", "--user", "--mount", "--target", &self.process()?.to_string()]);
        inside.arg(command.as_std().get_program()).args(command.as_std().get_args()).kill_on_drop(true);
        for (name, value) in command.as_std().get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        Ok(inside)
    }

    /// A file of the folder, as it is called outside of the namespace.
    fn ballast(&self) -> Result<PathBuf> {
        let root = PathBuf::from(format!("/proc/{}/root", self.process()?));
        Ok(root.join(self.folder.strip_prefix("/")?).join("ballast"))
    }
}

impl Disk for Tmpfs {
    fn fill(&self) -> Result<()> {
        let path = self.ballast()?;
        let mut ballast = OpenOptions::new().create(true).append(true).open(&path).context("the ballast")?;
        loop {
            match ballast.write_all(&[0x55; BALLAST_BYTES]) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
                written => written?,
            }
        }
    }

    fn empty(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.ballast()?)?)
    }
}

/// A small disk that is simulated: the machine's file system, with room for so many bytes. Clones are the same one.
/// Room is taken by the length of files, and given back when they go.
#[derive(Clone, Debug)]
pub struct SmallDisk {
    room: Arc<Room>,
}

#[derive(Debug)]
struct Room {
    left: AtomicU64,
    ballast: AtomicU64,
}

impl SmallDisk {
    /// A disk with room for so many bytes.
    pub fn new(bytes: u64) -> Self {
        Self { room: Arc::new(Room { left: AtomicU64::new(bytes), ballast: AtomicU64::new(0) }) }
    }

    fn take(&self, bytes: u64) -> io::Result<()> {
        let left = |left: u64| left.checked_sub(bytes);
        let taken = self.room.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        taken.map(drop).map_err(|_| io::ErrorKind::StorageFull.into())
    }

    fn give(&self, bytes: u64) {
        self.room.left.fetch_add(bytes, Ordering::SeqCst);
    }

    fn size(path: &Path) -> u64 {
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    }
}

impl Disk for SmallDisk {
    fn fill(&self) -> Result<()> {
        let left = self.room.left.swap(0, Ordering::SeqCst);
        self.room.ballast.fetch_add(left, Ordering::SeqCst);
        Ok(())
    }

    fn empty(&self) -> Result<()> {
        self.give(self.room.ballast.swap(0, Ordering::SeqCst));
        Ok(())
    }
}

impl Fs for SmallDisk {
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        LocalFs.create_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        LocalFs.list(folder)
    }

    fn create(&self, path: &Path, bytes: u64) -> io::Result<Box<dyn File>> {
        let before = Self::size(path);
        self.take(bytes)?;
        let file = LocalFs.create(path, bytes)?;
        self.give(before);
        Ok(Box::new(SmallFile { disk: self.clone(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        Ok(Box::new(SmallFile { disk: self.clone(), file: LocalFs.open(path)? }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let replaced = Self::size(to);
        LocalFs.rename(from, to)?;
        self.give(replaced);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let gone = Self::size(path);
        LocalFs.unlink(path)?;
        self.give(gone);
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        LocalFs.sync_folder(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        LocalFs.lock(path)
    }
}

#[derive(Debug)]
struct SmallFile {
    disk: SmallDisk,
    file: Box<dyn File>,
}

impl SmallFile {
    fn grow(&self, to: u64) -> io::Result<()> {
        self.disk.take(to.saturating_sub(self.file.size()?))
    }
}

impl File for SmallFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.grow(offset + bytes.len() as u64)?;
        self.file.write_at(offset, bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.grow(bytes)?;
        self.file.allocate(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}
