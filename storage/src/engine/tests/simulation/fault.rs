//! Faults of a simulation's rounds.

use rand::{Rng, rngs::StdRng};

/// The fault of a round.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// The machine stops after this number of calls.
    Stop(usize),
    /// Syncs fail from this operation of the round on.
    Sync(usize),
    /// From the first operation of the round on, files can only grow this number of times, until the other operation.
    Full {
        from: usize,
        growths: usize,
        to: usize,
    },
    /// From an operation of the round on, or from the opening, this number of a thousand requests for segments fail,
    /// until the other operation.
    Blobs {
        from: Option<usize>,
        per_thousand: u32,
        to: usize,
    },
    None,
}

impl Fault {
    /// Picks one that the machine supports.
    pub(super) fn pick(random: &mut StdRng, has_blobs: bool) -> Self {
        if has_blobs && random.random_bool(0.6) {
            let from = random.random_bool(0.7).then(|| random.random_range(0..8));
            let per_thousand = [10, 100, 500, 1_000][random.random_range(0..4)];
            return Self::Blobs { from, per_thousand, to: from.unwrap_or(0) + random.random_range(1..15) };
        }
        match random.random_range(0..10) {
            // Early ones hit the opening.
            0..7 => {
                let calls_max = [30, 120, 500][random.random_range(0..3)];
                Self::Stop(random.random_range(0..calls_max))
            }
            7 => Self::Sync(random.random_range(0..12)),
            8 => {
                let from = random.random_range(0..8);
                Self::Full { from, growths: random.random_range(0..6), to: from + random.random_range(1..10) }
            }
            _ => Self::None,
        }
    }
}
