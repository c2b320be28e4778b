//! Text to [`Statement`](ast::Statement): tokens, the parsers of statements, and the positions of errors. Knows no
//! session and no catalog.

pub mod ast;

mod tokens;

mod adapt;
mod as_of;
mod comment;
mod copy;
mod create_table_as;
mod cursor;
mod definition;
pub mod explain;
mod listen;
pub mod locking;
mod maintenance;
mod merge;
pub mod names;
mod prepared;
mod query;
mod role;
mod select_into;
mod sequence;
mod settings;
mod statement;
mod subscripts;
mod transaction;
mod type_name;
mod view;
mod with;
pub mod write;

pub mod error_position;
