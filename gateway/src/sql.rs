//! Text to [`statement::Statement`]: tokens, the parsers of statements, and the position of errors. Knows no session and
//! no catalog.

pub(crate) mod as_of;
pub(crate) mod clause;
pub(crate) mod comment;
pub(crate) mod copy;
pub(crate) mod create_table_as;
pub(crate) mod cursor;
pub(crate) mod definition;
pub mod error_position;
pub(crate) mod listen;
pub(crate) mod locking;
pub(crate) mod maintenance;
pub(crate) mod merge;
pub(crate) mod prepared;
pub(crate) mod query;
pub(crate) mod role;
pub(crate) mod sequence;
pub(crate) mod settings;
pub mod statement;
pub(crate) mod subscripts;
pub(crate) mod tokens;
pub(crate) mod type_name;
pub(crate) mod view;
pub(crate) mod with;
