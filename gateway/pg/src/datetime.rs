//! Dates, times and time zones as PostgreSQL reads and prints them. Pure: the session's settings come in as a [`Style`].
//!
//! ```text
//! text ──fields──▶ Field[] ──moments, spans──▶ micros, days, months     (input)
//! micros, days ──zone──▶ local time ──encode──▶ text                     (output)
//! ```
//!
//! [`zone`] knows the IANA database, [`abbreviations`] what short names mean in input. [`Style`] is what the settings
//! `TimeZone`, `DateStyle`, `IntervalStyle`, `bytea_output` and `extra_float_digits` say, and reaches functions in
//! DataFusion's configuration. Arrays of `timestamptz` are in UTC everywhere; a zone is applied where a value is read,
//! printed or taken apart.

pub mod abbreviations;
pub mod arithmetic;
pub mod casts;
pub mod encode;
mod fields;
pub mod moments;
pub mod settings;
pub mod spans;
pub mod style;
pub mod values;
pub mod zone;

pub use moments::{Input, OwnedInput};
pub use style::Style;
pub use zone::Zone;
