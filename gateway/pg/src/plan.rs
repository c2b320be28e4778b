//! Rules over logical plans: types of literals, parameters and unions, operators, casts, correlated subqueries.

pub mod apply;
pub mod casts;
pub(crate) mod char_blanks;
pub mod checked;
pub mod checked_arithmetic;
pub mod common_times;
pub mod comparable;
pub mod documents;
pub(crate) mod each_expr;
pub mod interval_order;
pub mod json_paths;
pub mod lateral;
pub mod literals;
pub mod materialized;
pub mod numbers;
pub mod operators;
pub mod parameters;
pub mod placeholders;
pub mod regexps;
pub mod type_planner;
pub mod unions;
pub mod whole_rows;
pub mod with_ties;
pub mod zoned;
