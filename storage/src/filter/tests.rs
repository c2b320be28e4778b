//! What filters give of one row, and which are refused.
