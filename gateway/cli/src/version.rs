//! What `keyspan --version` says: the version, the commit, and the format of a store.

use keyspan_storage::engine::FORMAT_VERSION;
use std::sync::LazyLock;

static LINE: LazyLock<String> =
    LazyLock::new(|| describe(env!("CARGO_PKG_VERSION"), env!("KEYSPAN_COMMIT"), FORMAT_VERSION));

/// For example `0.1.0 (commit 0123456789ab, store format 2)`.
pub fn line() -> &'static str {
    &LINE
}

/// `commit` is empty if the build did not know it, as that of a developer does not (`build.rs`).
fn describe(version: &str, commit: &str, format: u32) -> String {
    match commit {
        "" => format!("{version} (commit unknown, store format {format})"),
        commit => format!("{version} (commit {commit}, store format {format})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_commit_and_format() {
        assert_eq!(describe("0.1.0", "0123456789ab", 2), "0.1.0 (commit 0123456789ab, store format 2)");
        assert_eq!(describe("0.1.0", "", 2), "0.1.0 (commit unknown, store format 2)");
        assert!(line().ends_with(&format!("store format {FORMAT_VERSION})")), "{}", line());
    }
}
