//! Tests of scans through DataFusion: what becomes of predicates, that pushdown never changes an answer, and what is shown.

mod columnar;
mod loose;
mod order;
mod predicates;
mod random;
mod scans;
