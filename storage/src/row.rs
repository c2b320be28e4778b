//! What mutations do to a row. Pure, and the one place that says so: every backend folds its rows here.
