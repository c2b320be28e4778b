//! Two stores, one sequence of operations.
