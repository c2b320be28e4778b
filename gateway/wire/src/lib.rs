//! PostgreSQL's protocol as bytes: incoming messages ([`frontend`]), outgoing messages ([`reply`]), rows ([`encoder`]).
//!
//! Values are encoded and decoded by [`keyspan_pg::codec`]. A batch of rows is encoded by column: the writer of a
//! column's values is chosen once, when the batch arrives, and a row only calls the writers. Everything here is pure;
//! the gateway has the sockets. [`fuzz`] holds the entry points for fuzzers.

pub mod encoder;
pub mod frontend;
pub mod fuzz;
pub mod reply;
pub mod transaction_status;
