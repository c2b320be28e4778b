//! TODO header pg::codec

pub mod column;
pub mod float;
pub mod format;
pub mod json;
pub mod list;
pub mod numeric;
pub mod parameter;
pub mod parse;
pub mod print;
pub mod time;
