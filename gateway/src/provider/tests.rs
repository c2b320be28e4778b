//! Tests of scans through DataFusion: how predicates are planned, that pushdown never changes an answer, and what
//! EXPLAIN prints.

mod columnar;
mod loose_scan;
mod order;
mod predicates;
mod random;
mod scans;
