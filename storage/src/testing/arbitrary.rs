//! Operations at random.
