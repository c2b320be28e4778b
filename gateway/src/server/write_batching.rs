//! Which answers are under way, so that those of several connections go out one right after the other.
//!
//! A client that waits for an answer sleeps, and each write to one that sleeps wakes it: on the same machine that
//! interrupts another core, which costs as much as reading a row does. Where several statements are answered at a time,
//! a connection therefore lets those that are ready to run go first, and writes when they have come as far: a client of
//! several connections (a pool, a load generator) is woken once for all of them. A statement that runs alone is
//! answered at once.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// How many answers of a server are under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers(Arc<AtomicUsize>);

/// An answer under way.
#[derive(Debug)]
pub(crate) struct Answering(Answers);

impl Answers {
    /// A statement has come.
    pub(crate) fn begin(&self) -> Answering {
        self.0.fetch_add(1, Ordering::Relaxed);
        Answering(self.clone())
    }
}

impl Answering {
    /// Whether other answers are under way.
    pub(crate) fn is_one_of_several(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) > 1
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_of_several_while_others_are_under_way() {
        let answers = Answers::default();
        let first = answers.begin();
        assert!(!first.is_one_of_several());
        let second = answers.begin();
        assert!(first.is_one_of_several() && second.is_one_of_several());
        drop(first);
        assert!(!second.is_one_of_several());
    }
}
