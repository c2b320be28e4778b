//! `keyspan proto import`: hands a file of protoc's to a running server, as `CREATE PROTO DESCRIPTOR`.

use super::client::{ServerOptions, quoted, told};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use keyspan_catalog::proto::DESCRIPTOR_BYTES_MAX;
use std::{
    fmt::Write as _,
    fs::File,
    io::{Read, Write, stdout},
    path::{Path, PathBuf},
};

/// What is done with protobuf descriptors.
#[derive(Debug, Subcommand)]
pub enum Proto {
    /// Make the messages of a file known to a server, so that columns may hold them.
    #[command(after_help = IMPORT_HELP)]
    Import {
        /// The file, and the server.
        #[command(flatten)]
        import: ImportOptions,
    },
}

const IMPORT_HELP: &str = "\
The file is a FileDescriptorSet, with all files that it imports. The command connects without TLS and says CREATE PROTO DESCRIPTOR name
AS '…'. In database keyspan the descriptor is the operator's, and every table may use it; in a tenant's database it is the tenant's own,
for its private tables.

Examples:
  protoc --include_imports --descriptor_set_out=telemetry.pb telemetry.proto
  keyspan proto import telemetry.pb
  keyspan proto import telemetry.pb --name telemetry --replace --server 10.0.0.7:5432 --user ana --database altostrat";

/// The options of `keyspan proto import`.
#[derive(Clone, Debug, Args)]
pub struct ImportOptions {
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The descriptor's name [default: the file's, without its ending]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Take the place of a descriptor of this name. Fields and enum values may be added; other changes need that no
    /// column uses them.
    #[arg(long)]
    replace: bool,

    /// Where.
    #[command(flatten)]
    server: ServerOptions,
}

/// Runs a command.
///
/// # Errors
/// If the file cannot be read, or the server cannot be reached or refuses.
pub async fn run(command: Proto) -> Result<()> {
    let Proto::Import { import } = command;
    let file = import.file.display();
    let context = || format!("cannot import {file}");
    let name = match &import.name {
        Some(name) => name.clone(),
        None => name_of(&import.file).with_context(context)?,
    };
    let sql = statement(&name, import.replace, &read(&import.file).with_context(context)?);
    let client = import.server.connect("keyspan proto").await.with_context(context)?;
    let database = &import.server.database;
    client.batch_execute(&sql).await.map_err(|error| told(&error)).with_context(context)?;
    writeln!(stdout(), "imported {file} as protobuf descriptor {name} of database {database}")
        .context("cannot write to standard output")
}

fn name_of(file: &Path) -> Result<String> {
    let name = file.file_stem().and_then(|name| name.to_str()).filter(|name| !name.is_empty());
    Ok(name.context("the name of the file is none for a descriptor: say --name")?.to_owned())
}

/// The bytes of the file, no more than one byte above what a server takes.
fn read(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(DESCRIPTOR_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn statement(name: &str, replace: bool, bytes: &[u8]) -> String {
    let replace = if replace { "OR REPLACE " } else { "" };
    let mut sql = format!("CREATE {replace}PROTO DESCRIPTOR {} AS '\\x", quoted(name));
    for byte in bytes {
        let _ = write!(sql, "{byte:02x}");
    }
    sql.push('\'');
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_statement() {
        assert_eq!(statement("a\"b", false, b"\x0a\xff"), r#"CREATE PROTO DESCRIPTOR "a""b" AS '\x0aff'"#);
        assert_eq!(statement("t", true, b""), r#"CREATE OR REPLACE PROTO DESCRIPTOR "t" AS '\x'"#);
        assert_eq!(name_of(Path::new("a/telemetry.v1.pb")).unwrap(), "telemetry.v1");
    }
}
