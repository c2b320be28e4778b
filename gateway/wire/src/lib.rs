//! The protocol's bytes: incoming messages ([`frontend`]), outgoing messages ([`reply`]), rows ([`encoder`]). Values are
//! encoded and decoded by [`codec`](crate::pg::codec).
//!
//! A batch of rows is encoded by column: what a column's type asks for is decided once, when the batch arrives, and a row only
//! calls what was decided. Everything here is pure; sockets are the gateway's. [`fuzz`] is what fuzzers call.

use keyspan_pg as pg;

pub mod encoder;
pub mod frontend;
pub mod fuzz;
pub mod reply;
pub mod transaction_status;
