//! The version of PostgreSQL that the server reports to clients.
//!
//! It is the version whose answers are given and recorded (`docs/sql.md`, "Which PostgreSQL"). Tools choose their
//! queries of the system relations by it, and `pg_dump` refuses a server of a later major version than its own. The
//! system relations have the columns of PostgreSQL 16, too.

macro_rules! number {
    () => {
        "15.18"
    };
}

/// `current_setting('server_version')`.
pub const SERVER_VERSION: &str = number!();

/// `server_version_num`: [`SERVER_VERSION`] as one number.
pub const SERVER_VERSION_NUM: &str = "150018";

/// `SHOW server_version` and the parameter of that name in the protocol. Tools read its first number.
pub const SERVER_VERSION_WITH_PRODUCT: &str = concat!(number!(), " (Keyspan ", env!("CARGO_PKG_VERSION"), ")");

/// `version()`: clients read the number behind `PostgreSQL`.
pub const VERSION: &str =
    concat!("PostgreSQL ", number!(), " (Keyspan ", env!("CARGO_PKG_VERSION"), ") on ", "x86_64", ", 64-bit");
