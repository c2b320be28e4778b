//! The order of turns: who goes next, by virtual time.
//!
//! A pure state machine: it knows neither clocks nor threads. *Flows* (tenants) ask for *turns*. So many turns run at a
//! time as there are slots; the others wait, and the flow with the least virtual time goes next. A turn's cost is known
//! when it ends; it advances the flow's virtual time by the cost divided by the flow's weight. So flows that always
//! want turns get them in proportion to their weights, and whoever has used most waits longest. This is start-time fair
//! queueing (P. Goyal, X. Guo, H. Vin: *A Hierarchical CPU Scheduler for Multimedia Operating Systems*, OSDI 1996)
//! with several servers, and with a bounded credit:
//!
//! - A flow that comes back begins at the least virtual time of those that are there, less [`CREDIT`]: who was away
//!   is served first for a moment, and saves up no more than that.
//! - A flow that is alone has no bound of slots: nobody waits for it. A flow counts as there for [`GRACE_NANOS`] after
//!   its last turn, since the tasks of a query come and go.
//! - A turn that takes too long is *overdue*: its slot is lent to another. A flow holds no more than its bound of turns
//!   in any case, overdue ones included, so that one flow does not hold all threads.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// The weight of a flow that has no other.
pub(crate) const WEIGHT: u32 = 100;
/// How far a flow that comes back may be behind those that are there, in nanoseconds of [`WEIGHT`].
pub(crate) const CREDIT: u64 = 20_000_000;
/// How long a flow without turns counts as there.
pub(crate) const GRACE_NANOS: u64 = 1_000_000_000;

/// A flow's number: the OID of a tenant; 0 for the operator.
pub(crate) type Flow = u32;

/// See the module. `T` stands for a turn that waits.
#[derive(Debug)]
pub(crate) struct Schedule<T> {
    slots: usize,
    /// Turns that one flow may hold.
    held_max: usize,
    /// Turns under way, without overdue ones.
    running: usize,
    /// Where a flow begins that is new: no virtual time of a flow that is there was below it.
    floor: u64,
    flows: HashMap<Flow, State<T>>,
    /// The flows that wait, by virtual time.
    waiting: BTreeSet<(u64, Flow)>,
    next_prune_nanos: u64,
}

#[derive(Debug)]
struct State<T> {
    virtual_time: u64,
    weight: u32,
    held: usize,
    waiting: VecDeque<T>,
    /// When it last asked for a turn or ended one.
    seen_nanos: u64,
}

impl<T> State<T> {
    fn is_idle(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }
}

impl<T: PartialEq> Schedule<T> {
    pub(crate) fn new(slots: usize, held_max: usize) -> Self {
        Self {
            slots,
            held_max,
            running: 0,
            floor: 0,
            flows: HashMap::new(),
            waiting: BTreeSet::new(),
            next_prune_nanos: 0,
        }
    }

    /// Asks for a turn; true if it begins now. Otherwise it waits until [`next`](Self::next) gives `turn`.
    pub(crate) fn enter(&mut self, flow: Flow, weight: u32, now_nanos: u64, turn: impl FnOnce() -> T) -> bool {
        self.prune(now_nanos);
        let behind = self.floor.saturating_sub(CREDIT);
        let alone = self.flows.len() == 1 && self.flows.contains_key(&flow) || self.flows.is_empty();
        let state = self.flows.entry(flow).or_insert_with(|| State {
            virtual_time: behind,
            weight,
            held: 0,
            waiting: VecDeque::new(),
            seen_nanos: now_nanos,
        });
        (state.weight, state.seen_nanos) = (weight.max(1), now_nanos);
        if state.is_idle() {
            state.virtual_time = state.virtual_time.max(behind);
        }
        if self.waiting.is_empty() && (self.running < self.slots || alone) && state.held < self.held_max {
            state.held += 1;
            self.running += 1;
            return true;
        }
        state.waiting.push_back(turn());
        self.waiting.insert((state.virtual_time, flow));
        false
    }

    /// Ends a turn that has cost this much. `lent` says that it was overdue.
    pub(crate) fn leave(&mut self, flow: Flow, cost_nanos: u64, lent: bool, now_nanos: u64) {
        if !lent {
            self.running -= 1;
        }
        let Some(state) = self.flows.get_mut(&flow) else { return };
        state.held -= 1;
        state.seen_nanos = now_nanos;
        let before = (state.virtual_time, flow);
        state.virtual_time += cost_nanos.saturating_mul(u64::from(WEIGHT)) / u64::from(state.weight);
        if self.waiting.remove(&before) {
            self.waiting.insert((state.virtual_time, flow));
        }
        // The least of those that are there; the floor never goes back.
        let least = self.flows.values().map(|state| state.virtual_time).min().unwrap_or_default();
        self.floor = self.floor.max(least);
    }

    /// An overdue turn no longer takes a slot.
    pub(crate) fn lend(&mut self) {
        self.running -= 1;
    }

    /// The next turn that may begin; to be called after each end, loan and withdrawal until there is none.
    pub(crate) fn next(&mut self) -> Option<(Flow, T)> {
        if self.running >= self.slots && self.flows.len() > 1 {
            return None;
        }
        let flows = &self.flows;
        let may = |(_, flow): &&(u64, Flow)| flows.get(flow).is_some_and(|state| state.held < self.held_max);
        let (virtual_time, flow) = *self.waiting.iter().find(may)?;
        let state = self.flows.get_mut(&flow)?;
        let turn = state.waiting.pop_front()?;
        if state.waiting.is_empty() {
            self.waiting.remove(&(virtual_time, flow));
        }
        state.held += 1;
        self.running += 1;
        Some((flow, turn))
    }

    /// Forgets a turn that waits; false if it does not.
    pub(crate) fn withdraw(&mut self, flow: Flow, turn: &T) -> bool {
        let Some(state) = self.flows.get_mut(&flow) else { return false };
        let Some(at) = state.waiting.iter().position(|waiting| waiting == turn) else { return false };
        state.waiting.remove(at);
        if state.waiting.is_empty() {
            self.waiting.remove(&(state.virtual_time, flow));
        }
        true
    }

    /// How many turns wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.flows.values().map(|state| state.waiting.len()).sum()
    }

    /// Forgets flows that have not been there for long; looks once in [`GRACE_NANOS`] at most.
    fn prune(&mut self, now_nanos: u64) {
        if now_nanos >= self.next_prune_nanos {
            self.next_prune_nanos = now_nanos + GRACE_NANOS;
            self.flows.retain(|_, state| !state.is_idle() || state.seen_nanos + GRACE_NANOS > now_nanos);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs turns of flows that always want more, for some time: what each has used. A flow is its weight, the number
    /// of its tasks and the cost of each of its turns.
    fn used(slots: usize, flows: &[(u32, usize, u64)], until_nanos: u64) -> Vec<u64> {
        let mut schedule = Schedule::new(slots, usize::MAX);
        let (mut now, mut used) = (0, vec![0; flows.len()]);
        let mut running: Vec<(u64, usize)> = Vec::new();
        for (flow, (weight, tasks, cost)) in flows.iter().enumerate() {
            // Before the turns that are measured all flows have been there.
            for _ in 0..*tasks {
                if schedule.enter(flow as u32, *weight, now, || flow) {
                    running.push((now + cost, flow));
                }
            }
        }
        while now < until_nanos {
            let at = (0..running.len()).min_by_key(|at| running[*at]).unwrap();
            let (ended, flow) = running.swap_remove(at);
            let (weight, _, cost) = flows[flow];
            now = ended;
            used[flow] += cost;
            schedule.leave(flow as u32, cost, false, now);
            if schedule.enter(flow as u32, weight, now, || flow) {
                running.push((now + cost, flow));
            }
            while let Some((flow, _)) = schedule.next() {
                running.push((now + flows[flow as usize].2, flow as usize));
            }
        }
        used
    }

    #[test]
    fn equal_flows_get_as_much_whatever_they_run() {
        let used = used(2, &[(100, 16, 3_000_000), (100, 2, 500_000)], 10_000_000_000);
        let ratio = used[0] as f64 / used[1] as f64;
        assert!((0.9..1.1).contains(&ratio), "{used:?}");
    }

    #[test]
    fn weights_divide() {
        let used = used(2, &[(300, 8, 1_000_000), (100, 8, 1_000_000)], 10_000_000_000);
        let ratio = used[0] as f64 / used[1] as f64;
        assert!((2.8..3.2).contains(&ratio), "{used:?}");
    }

    #[test]
    fn who_was_away_goes_first_and_saves_nothing_up() {
        let mut schedule = Schedule::new(1, usize::MAX);
        assert!(schedule.enter(1, WEIGHT, 0, || 'a'));
        assert!(!schedule.enter(2, WEIGHT, 0, || 'b'));
        schedule.leave(1, 10_000_000_000, false, 10_000_000_000);
        assert_eq!(schedule.next(), Some((2, 'b')));
        schedule.leave(2, 0, false, 10_000_000_000);
        // Flow 3 is new, and as far as flow 2; both go before flow 1.
        assert!(schedule.enter(1, WEIGHT, 10_000_000_000, || 'a'));
        assert!(!schedule.enter(1, WEIGHT, 10_000_000_000, || 'c'));
        assert!(!schedule.enter(3, WEIGHT, 10_000_000_000, || 'd'));
        schedule.leave(1, 1, false, 10_000_000_001);
        assert_eq!(schedule.next(), Some((3, 'd')));
        assert_eq!((schedule.next(), schedule.waiting()), (None, 1));
        assert!(schedule.withdraw(1, &'c') && !schedule.withdraw(1, &'c'));
        assert_eq!(schedule.waiting(), 0);
    }

    #[test]
    fn a_flow_that_is_alone_has_no_bound_of_slots_but_its_own() {
        let mut schedule = Schedule::new(1, 3);
        let entered: Vec<_> = (0..4).map(|turn| schedule.enter(1, WEIGHT, 0, || turn)).collect();
        assert_eq!(entered, [true, true, true, false]);
        assert!(!schedule.enter(2, WEIGHT, 0, || 9));
        // Overdue turns lend their slots to others, not to the flow itself.
        (0..3).for_each(|_| schedule.lend());
        assert_eq!(schedule.next(), Some((2, 9)));
        assert_eq!(schedule.next(), None);
        schedule.leave(1, 5, true, 1);
        schedule.leave(2, 5, false, 1);
        assert_eq!(schedule.next(), Some((1, 3)));
    }

    proptest! {
        /// No turn is lost or given twice, no more run than there are slots for once two flows are there, and whoever
        /// waits goes on as soon as others end.
        #[test]
        fn turns_are_kept(steps in prop::collection::vec((0_u32..4, 0_u8..4, 0_u64..5_000_000), 1..300)) {
            let (slots, mut now, mut number) = (2, 0, 0_u32);
            let mut schedule = Schedule::new(slots, 3);
            let mut running: Vec<(u32, u32)> = Vec::new();
            let mut waiting: Vec<(u32, u32)> = Vec::new();
            for (flow, step, cost) in steps {
                now += cost;
                match step {
                    0 | 1 => {
                        number += 1;
                        let turn = (flow, number);
                        if schedule.enter(flow, 50 + flow * 50, now, || turn) { running.push(turn) } else { waiting.push(turn) }
                    }
                    2 => if let Some(at) = running.iter().position(|(of, _)| *of == flow) {
                        running.remove(at);
                        schedule.leave(flow, cost, false, now);
                    },
                    _ => if let Some(at) = waiting.iter().position(|(of, _)| *of == flow) {
                        prop_assert!(schedule.withdraw(flow, &waiting.remove(at)));
                    },
                }
                let before = running.len();
                while let Some((_, turn)) = schedule.next() {
                    let at = waiting.iter().position(|waits| *waits == turn);
                    prop_assert!(at.is_some(), "a turn that does not wait");
                    waiting.remove(at.unwrap_or_default());
                    running.push(turn);
                }
                let flows: BTreeSet<u32> = running.iter().chain(&waiting).map(|(flow, _)| *flow).collect();
                prop_assert!(flows.len() < 2 || running.len() <= before.max(slots));
                prop_assert_eq!(schedule.waiting(), waiting.len());
                prop_assert!(waiting.is_empty() || !running.is_empty(), "turns wait and none runs");
                for flow in flows {
                    prop_assert!(running.iter().filter(|(of, _)| *of == flow).count() <= 3);
                }
            }
        }
    }
}
