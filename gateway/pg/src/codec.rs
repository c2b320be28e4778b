//! Values as the wire and COPY write them, in PostgreSQL's text and binary formats ([`format`](mod@format)), and back
//! ([`parse`], [`parameter`]).

pub mod column;
pub mod float;
pub mod format;
pub mod json;
pub mod list;
pub mod numeric;
pub mod parameter;
pub mod parse;
pub mod print;
pub mod record;
pub mod scalar;
pub mod time;
