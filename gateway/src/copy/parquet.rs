//! `COPY … TO 'file' (FORMAT parquet)`: rows into one Parquet file, below a folder that the operator allowed.
//!
//! Batches go through a channel of [`BATCHES_MAX`] to a thread that encodes and writes; at most one row group is in
//! memory. The file appears under its name when it is whole and synced, in place of one that was there; a statement
//! that fails leaves none.

use crate::pg::datetime::Input;
use crate::{
    audit::Event,
    identity::Identity,
    instance::Instance,
    pg::{
        error::{Result, SqlError, SqlState},
        numeric,
        plan::casts::convert,
        types,
    },
    query::parameter_values::ParameterValues,
    session::Session,
    sql::ast::copy::{self, CopyTo},
};
use arrow::{
    datatypes::{DataType, FieldRef, Schema, SchemaRef},
    record_batch::RecordBatch,
};
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use std::{
    fs::File,
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};
use tokio::sync::mpsc;

/// Batches between the query and the writer.
const BATCHES_MAX: usize = 2;
/// Rows of a row group, at most.
const ROW_GROUP_ROWS_MAX: usize = 1 << 17;

/// Runs the statement; its command tag.
///
/// # Errors
/// Those of [`target`] and [`to_parquet`].
pub async fn copy_to(session: &mut Session, copy: &CopyTo, parameters: ParameterValues) -> Result<String> {
    let file = target(&session.instance, &session.identity, &copy.path)?;
    let view = session.view().await?;
    let query = session.query(view)?.with_parameters(&parameters);
    let mut plan = query.plan(&copy.query).await?;
    plan = parameters.put(plan)?;
    let compression = match copy.compression {
        copy::Compression::None => Compression::UNCOMPRESSED,
        copy::Compression::Snappy => Compression::SNAPPY,
        copy::Compression::Lz4 => Compression::LZ4_RAW,
        copy::Compression::Zstd => Compression::ZSTD(ZstdLevel::default()),
    };
    let group_bytes = session.instance.resources.memory.export_group_bytes();
    let written = match query.run(plan).await {
        Ok(rows) => to_parquet(rows, file, (compression, group_bytes)).await,
        Err(error) => Err(error),
    };
    let event = Event::new("export").text("file", &copy.path).with("rows", written.as_ref().ok().copied());
    session.audit(event, written.as_ref().err());
    let count = written?;
    Ok(format!("COPY {count}"))
}

/// The file that a session may write for the path of a `COPY`. A tenant's files live in a folder of its own, named by
/// its id and its OID: the next tenant of the same name has another.
///
/// # Errors
/// 42501 for a path outside of the allowed folder; 58030 when folders cannot be made.
pub fn target(instance: &Instance, identity: &Identity, path: &str) -> Result<PathBuf> {
    let Some(folder) = &instance.copy_folder else {
        return Err(refused(path, "The server was started without a folder for COPY."));
    };
    let oid = identity.rows.oid().map(|oid| format!("-{oid}")).unwrap_or_default();
    let own = (!identity.operator).then(|| format!("{}{oid}", identity.database));
    file_below(folder, own.as_deref(), path)
}

fn refused(path: &str, detail: &str) -> SqlError {
    SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("COPY may not write \"{path}\""))
        .with_detail(detail)
        .with_hint("Give a relative path: it is taken below the folder of --copy-dir.")
}

/// The file of a path below the folder, or below the folder `own` in it. Makes the folders of the path.
fn file_below(all: &Path, own: Option<&str>, path: &str) -> Result<PathBuf> {
    let outside = || refused(path, "Files are written below the folder for COPY only.");
    let real = |path: &Path| path.canonicalize().map_err(|error| io_error("find", path, &error));
    let root = real(all)?;
    let folder = own.map_or_else(|| root.clone(), |own| root.join(own));
    let wanted = Path::new(path);
    let given = own.map_or_else(|| all.to_owned(), |own| all.join(own));
    let inside = wanted.strip_prefix(&folder).or_else(|_| wanted.strip_prefix(&given)).unwrap_or(wanted);
    let plain = inside.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !plain || inside.file_name().is_none() || path.ends_with('/') {
        return Err(outside());
    }
    let file = folder.join(inside);
    let parent = file.parent().unwrap_or(&folder);
    // A link below the folder must not lead out of it, and no folder is made behind one that does.
    let mut there = parent;
    while there.symlink_metadata().is_err() {
        there = there.parent().unwrap_or(&root);
    }
    if there != root && !real(there)?.starts_with(&folder) {
        return Err(outside());
    }
    std::fs::create_dir_all(parent).map_err(|error| io_error("create", parent, &error))?;
    if !real(parent)?.starts_with(&folder) || file.is_dir() {
        return Err(outside());
    }
    Ok(file)
}

/// Removes what statements that a crash ended left below the folder.
///
/// # Errors
/// If a folder cannot be read, or a file not removed.
pub fn remove_parts(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // Of a link this is the link's own type.
        let kind = entry.file_type()?;
        if kind.is_dir() {
            remove_parts(&entry.path())?;
        } else if kind.is_file() && is_part(&entry.file_name().to_string_lossy()) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Writes the rows and gives their number. A row group is written when it takes `group_bytes` in memory.
///
/// # Errors
/// The query's; 53100 on a full disk, 58030 for other failures of the file.
pub async fn to_parquet(
    mut rows: SendableRecordBatchStream,
    file: PathBuf,
    (compression, group_bytes): (Compression, usize),
) -> Result<u64> {
    let given = rows.schema();
    let schema = portable(&given);
    let (batches, mut received) = mpsc::channel::<Option<RecordBatch>>(BATCHES_MAX);
    let writing = tokio::task::spawn_blocking(move || -> Result<u64> {
        let mut part = Part::create(&file)?;
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS_MAX))
            .set_created_by(format!("keyspan {}", env!("CARGO_PKG_VERSION")))
            .build();
        let mut count = 0;
        let mut writer = ArrowWriter::try_new(&mut part.file, Arc::clone(&schema), Some(properties))
            .map_err(|error| part_error(&file, error))?;
        // The query's end closes the channel, and so does its failure: only after the end stands `None`.
        let mut whole = false;
        while let Some(message) = received.blocking_recv() {
            let Some(batch) = message else {
                whole = true;
                break;
            };
            count += batch.num_rows() as u64;
            let batch = if schema == given { batch } else { portable_batch(&batch, &schema)? };
            writer.write(&batch).map_err(|error| part_error(&file, error))?;
            if writer.in_progress_size() > group_bytes {
                writer.flush().map_err(|error| part_error(&file, error))?;
            }
        }
        writer.close().map_err(|error| part_error(&file, error))?;
        if whole {
            part.publish(&file)?;
        }
        Ok(count)
    });
    let sent = async {
        while let Some(batch) = rows.try_next().await.map_err(SqlError::from)? {
            if batches.send(Some(batch)).await.is_err() {
                return Ok(()); // The writer failed and says why.
            }
        }
        let _ = batches.send(None).await;
        Ok(())
    }
    .await;
    drop(batches);
    let written = writing.await.map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))?;
    sent.and(written)
}

/// The columns of a file: intervals, and numerics without digits or with more than 38, for which Parquet has no type
/// that holds all of them, are texts there.
fn portable(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &FieldRef| match field.data_type() {
        data if is_text_in_files(data) => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
        DataType::List(item) if is_text_in_files(item.data_type()) => {
            Arc::new(field.as_ref().clone().with_data_type(types::list_of(DataType::Utf8View)))
        }
        _ => Arc::clone(field),
    };
    let fields: Vec<FieldRef> = schema.fields().iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn is_text_in_files(data: &DataType) -> bool {
    matches!(data, DataType::Interval(_)) || numeric::is_exact(data)
}

fn portable_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(column.clone())
        } else {
            convert(column, field, Input::initial())
        }
    });
    let columns = columns.collect::<datafusion::error::Result<Vec<_>>>()?;
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|error| SqlError::new(SqlState::INTERNAL_ERROR, error.to_string()))
}

/// The name of a file on its way to its name.
fn part_name(name: &str) -> String {
    format!(".{name}.{}.part", uuid::Uuid::new_v4())
}

/// Whether [`part_name`] makes such a name.
fn is_part(name: &str) -> bool {
    let inner = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
    inner.and_then(|inner| inner.rsplit_once('.')).is_some_and(|(_, id)| uuid::Uuid::parse_str(id).is_ok())
}

/// A file on its way: removed unless it is published.
struct Part {
    path: PathBuf,
    file: File,
    published: bool,
}

impl Part {
    fn create(target: &Path) -> Result<Self> {
        let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let path = target.with_file_name(part_name(&name));
        let file = File::create_new(&path).map_err(|error| io_error("create", &path, &error))?;
        Ok(Self { path, file, published: false })
    }

    fn publish(&mut self, target: &Path) -> Result<()> {
        self.file.sync_all().map_err(|error| io_error("sync", &self.path, &error))?;
        std::fs::rename(&self.path, target).map_err(|error| io_error("rename", &self.path, &error))?;
        self.published = true;
        let folder = target.parent().unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| io_error("sync", folder, &error))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.published {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn part_error(file: &Path, error: parquet::errors::ParquetError) -> SqlError {
    let parquet::errors::ParquetError::External(cause) = &error else {
        return SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot write Parquet: {error}"));
    };
    match cause.downcast_ref::<io::Error>() {
        Some(cause) => io_error("write", file, cause),
        None => {
            let internal = format!("cannot write \"{}\": {error}", file.display());
            SqlError::of_server_file(SqlState::IO_ERROR, "could not write the file", internal)
        }
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> SqlError {
    let state = if error.kind() == io::ErrorKind::StorageFull { SqlState::DISK_FULL } else { SqlState::IO_ERROR };
    let internal = format!("could not {action} \"{}\": {error}", path.display());
    SqlError::of_server_file(state, format!("could not {action} the file: {}", error.kind()), internal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_folder_is_made_behind_a_link() {
        let (all, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let told = |own, path: &str| match file_below(all.path(), own, path) {
            Ok(file) => file.strip_prefix(all.path().canonicalize().unwrap()).unwrap().display().to_string(),
            Err(error) => {
                let text = format!("{} {:?}", error, error.detail);
                assert!(!text.contains(&all.path().display().to_string()), "{text}");
                error.state.0.to_owned()
            }
        };
        assert_eq!(told(Some("a-1"), "x/y.parquet"), "a-1/x/y.parquet");
        assert_eq!(told(None, "z/y.parquet"), "z/y.parquet");
        std::os::unix::fs::symlink(elsewhere.path(), all.path().join("a-1/out")).unwrap();
        std::os::unix::fs::symlink(all.path().join("a-1"), all.path().join("b-2")).unwrap();
        for (own, path) in [("a-1", "out/x/y.parquet"), ("a-1", "out/y.parquet"), ("b-2", "x/y.parquet")] {
            assert_eq!(told(Some(own), path), "42501", "{path}");
        }
        std::os::unix::fs::symlink("/not/there", all.path().join("a-1/gone")).unwrap();
        assert_eq!(told(Some("a-1"), "gone/x/y.parquet"), "58030");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }

    #[test]
    fn parts_of_a_crash_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a-1/x");
        std::fs::create_dir_all(&inner).unwrap();
        let part = part_name("y.parquet");
        for name in [&part, "y.parquet", ".part", ".y.part", "mine.part"] {
            std::fs::write(inner.join(name), "").unwrap();
        }
        remove_parts(folder.path()).unwrap();
        let left = std::fs::read_dir(&inner).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<String> = left.collect();
        left.sort();
        assert_eq!(left, [".part", ".y.part", "mine.part", "y.parquet"]);
    }
}
