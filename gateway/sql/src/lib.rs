//! Text to [`Statement`](ast::Statement): tokens, the parsers of statements, and the positions of errors. Knows no
//! session and no catalog.
//!
//! `statement` cuts a text into statements and chooses their parsers. A parser reads `tokens`, has sqlparser read
//! expressions, queries and writes, and makes a type of [`ast`]; `ast` imports no parser. When a statement fails,
//! [`error_position`] finds the name that the error is about in the text.

pub mod ast;

mod statement;
mod tokens;
pub use tokens::writing_with::WITH_ROWS;

// Queries, and what is cut out of or checked in their trees.
mod adapt;
mod as_of;
mod create_table_as;
pub mod locking;
mod query;
mod select_into;

// Writes.
mod merge;
mod subscripts;
mod with;
pub mod write;

// Statements with a statement, a query or rows within them.
mod copy;
mod cursor;
pub mod explain;
mod prepared;
mod proto;

// Definitions.
mod alter_table;
mod comment;
mod definition;
mod domain;
mod enum_type;
pub mod grant;
pub mod names;
mod role;
mod schema;
mod sequence;
mod server;
pub mod type_name;
mod view;

// The session, what is told of relations, and maintenance.
mod describe;
mod listen;
pub mod maintenance;
mod settings;
mod transaction;

pub mod error_position;
pub mod fuzz;
pub mod normal;
