//! What single mutations do to a row.
