//! Tests over the wire.
