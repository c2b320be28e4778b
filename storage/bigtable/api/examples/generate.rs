//! Writes `src/generated` anew from Google's files:
//!
//! ```text
//! npm pack google-gax@5.0.8 @google-cloud/bigtable@6.5.1      and unpack both
//! cargo run -p keyspan-bigtable-api --features generate --example generate -- BIGTABLE/build/protos GAX/build/protos
//! cargo fmt -p keyspan-bigtable-api
//! ```

use protox::file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver};
use std::{fs, path::Path};

/// The services. What they import comes along.
const FILES: [&str; 5] = [
    "test_proxy.proto",
    "google/bigtable/v2/bigtable.proto",
    "google/bigtable/v2/feature_flags.proto",
    "google/bigtable/admin/v2/bigtable_table_admin.proto",
    "google/rpc/error_details.proto",
];
/// The packages that are kept; `google.api` only annotates.
const PACKAGES: [&str; 7] = [
    "google.bigtable.v2",
    "google.bigtable.admin.v2",
    "google.bigtable.testproxy",
    "google.iam.v1",
    "google.longrunning",
    "google.rpc",
    "google.type",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated");
    // Protox has google.protobuf itself; the files that google-gax carries of it are in a newer edition.
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    for folder in folders {
        resolver.add(IncludeFileResolver::new(folder.into()));
    }
    let all = std::env::temp_dir().join(format!("keyspan-bigtable-api-{}", std::process::id()));
    fs::create_dir_all(&all)?;
    tonic_prost_build::configure()
        .bytes(".")
        // The files' comments are in the dialect of protos, which rustdoc misreads.
        .disable_comments(["."])
        .build_transport(false)
        // A server that implements a part of the API answers UNIMPLEMENTED to the rest.
        .generate_default_stubs(true)
        .out_dir(&all)
        .compile_fds(
            protox::Compiler::with_file_resolver(resolver)
                .include_imports(true)
                .open_files(FILES)?
                .file_descriptor_set(),
        )?;
    for package in PACKAGES {
        // A word of Rust's is escaped in the name of the file.
        fs::copy(all.join(format!("{}.rs", package.replace("type", "r#type"))), target.join(format!("{package}.rs")))?;
    }
    fs::remove_dir_all(all)?;
    Ok(())
}
