//! Finds the commit that the program is built from: `KEYSPAN_COMMIT`, for `src/version.rs`.
//!
//! In this order: the environment (a container's build has no `.git`), the note of `cargo package` in a crate's
//! archive, git. Only a release build asks git: a commit would otherwise compile this crate, and link its tests, once
//! more. Where nothing knows the commit, the program says so.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

const VARIABLE: &str = "KEYSPAN_COMMIT";
/// What `cargo package` writes beside the manifest.
const PACKAGE_NOTE: &str = ".cargo_vcs_info.json";
/// Where this crate is in its repository, as git says it: a crate unpacked below another repository is no part of that.
const PREFIX: &str = "gateway/cli/";
/// Digits of a commit that are told.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = env::var(VARIABLE)
        .ok()
        .filter(|commit| !commit.is_empty())
        .or_else(|| of_package(Path::new(PACKAGE_NOTE)))
        .or_else(|| if is_release { of_git() } else { None })
        .filter(|commit| commit.len() >= DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .map(|commit| commit[..DIGITS].to_owned());
    println!("cargo::rustc-env={VARIABLE}={}", commit.unwrap_or_default());
}

/// The value of `"sha1"` in the note, which holds one.
fn of_package(note: &Path) -> Option<String> {
    let text = fs::read_to_string(note).ok()?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    Some(rest.split('"').nth(1)?.to_owned())
}

fn of_git() -> Option<String> {
    if git(&["rev-parse", "--show-prefix"])? != PREFIX {
        return None;
    }
    // The log of HEAD grows with each commit and checkout; without one, HEAD and the branch that it names.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let names = ["logs/HEAD", "HEAD", "packed-refs"].into_iter().map(str::to_owned).chain(branch);
    for path in names.filter_map(|name| git(&["rev-parse", "--git-path", &name])).map(PathBuf::from) {
        // A file that does not exist would always count as changed.
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    git(&["rev-parse", "HEAD"])
}

/// The line that git prints; `None` without git, or outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
