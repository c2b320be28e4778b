//! Text to [`statement::Statement`]: tokens, the parsers of statements, and the position of errors. Knows no session and
//! no catalog.

pub mod as_of;
pub mod clause;
pub mod comment;
pub mod copy;
pub mod create_table_as;
pub mod cursor;
pub mod definition;
use keyspan_pg as pg;

pub mod error_position;
pub mod listen;
pub mod locking;
pub mod maintenance;
pub mod merge;
pub mod prepared;
pub mod query;
pub mod role;
pub mod sequence;
pub mod settings;
pub mod statement;
pub mod subscripts;
pub mod tokens;
pub mod type_name;
pub mod view;
pub mod with;
