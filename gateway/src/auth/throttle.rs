//! Slows down who guesses passwords.
//!
//! Wrong passwords are counted by role, whether it exists or not, and by the peer's address. The more there were, the
//! longer the answer to the next proof is held back, be it right or wrong: if wrong ones alone had to wait, a client
//! that hears nothing at once would know, and need not wait. Nobody is locked out: a right password is taken after
//! [`DELAY_MAX`] at most, and its role and address begin anew; so does who does nothing for [`FORGOTTEN_AFTER`].
//!
//! The counts are for this process only. Whoever waits holds a place among the connections, but no thread.

use crate::lock::Mutex;
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::{BuildHasher, Hash},
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

/// Wrong passwords in a row that are answered at once.
pub const FAILURES_FREE: u32 = 3;
/// How long the answer is held back after one more; doubled with each further one.
pub const DELAY_MIN: Duration = Duration::from_millis(100);
/// How long an answer is held back at most.
pub const DELAY_MAX: Duration = Duration::from_secs(5);
/// How long after the last wrong password the count of a role or an address is forgotten.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// Roles, and addresses, that are counted at a time. Those with the fewest wrong passwords make room.
pub const COUNTS_MAX: usize = 10_000;

/// The wrong passwords of late, by role and by address.
#[derive(Debug, Default)]
pub struct Throttle {
    /// Hashes stand for names: those of roles that do not exist may be long.
    names: RandomState,
    counts: Mutex<(Counts<u64>, Counts<IpAddr>)>,
}

impl Throttle {
    /// Counts a wrong password; gives the time for which the answer is to be held back.
    pub fn failed(&self, role: &str, peer: IpAddr, now: Instant) -> Duration {
        let (role, peer) = (self.names.hash_one(role), network(peer));
        let (roles, peers) = &mut *self.counts.lock();
        delay(roles.add(role, now).max(peers.add(peer, now)))
    }

    /// Forgets the wrong passwords before a right one; gives the time for which the answer is to be held back.
    pub fn succeeded(&self, role: &str, peer: IpAddr, now: Instant) -> Duration {
        let (role, peer) = (self.names.hash_one(role), network(peer));
        let (roles, peers) = &mut *self.counts.lock();
        delay(roles.take(role, now).max(peers.take(peer, now)))
    }
}

/// How long the answer is held back after this number of wrong passwords.
fn delay(failures: u32) -> Duration {
    match failures.checked_sub(FAILURES_FREE + 1) {
        None => Duration::ZERO,
        Some(doublings) => DELAY_MIN.saturating_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(DELAY_MAX),
    }
}

/// What one client has of addresses: one of IPv4, a network of 64 bits of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// Wrong passwords by a key, at most [`COUNTS_MAX`] keys.
#[derive(Debug)]
struct Counts<K>(HashMap<K, Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    failures: u32,
    last: Instant,
}

impl Count {
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= FORGOTTEN_AFTER
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Copy + Eq + Hash> Counts<K> {
    /// Counts one more; gives how many there are with it.
    fn add(&mut self, key: K, now: Instant) -> u32 {
        let before = self.take(key, now);
        if self.0.len() >= COUNTS_MAX {
            self.make_room(now);
        }
        let failures = before.saturating_add(1);
        self.0.insert(key, Count { failures, last: now });
        failures
    }

    /// Forgets a key; gives how many there were.
    fn take(&mut self, key: K, now: Instant) -> u32 {
        self.0.remove(&key).filter(|count| !count.is_forgotten(now)).map_or(0, |count| count.failures)
    }

    fn make_room(&mut self, now: Instant) {
        self.0.retain(|_, count| !count.is_forgotten(now));
        if self.0.len() >= COUNTS_MAX {
            let least = self.0.iter().min_by_key(|(_, count)| (count.failures, count.last)).map(|(key, _)| *key);
            least.map(|key| self.0.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn delays_begin_after_some_failures_and_double_up_to_a_bound() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let delays: Vec<_> = (0..10).map(|_| throttle.failed("ana", peer("10.0.0.1"), now).as_millis()).collect();
        assert_eq!(delays, [0, 0, 0, 100, 200, 400, 800, 1_600, 3_200, 5_000]);
        assert_eq!(delay(u32::MAX), DELAY_MAX);
    }

    #[test]
    fn role_and_address_count_by_themselves() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..3 {
            throttle.failed("ana", peer(&format!("10.0.0.{number}")), now);
            throttle.failed(&format!("role {number}"), peer("10.0.1.1"), now);
        }
        assert_eq!(throttle.failed("bob", peer("10.0.0.9"), now), Duration::ZERO);
        assert_eq!(throttle.failed("ana", peer("10.0.0.9"), now), DELAY_MIN);
        assert_eq!(throttle.failed("someone", peer("10.0.1.1"), now), DELAY_MIN);
    }

    #[test]
    fn an_address_is_what_one_client_has() {
        assert_eq!(network(peer("2001:db8:1:2:3:4:5:6")), network(peer("2001:db8:1:2::1")));
        assert_ne!(network(peer("2001:db8:1:2::1")), network(peer("2001:db8:1:3::1")));
        assert_eq!(network(peer("::ffff:10.0.0.1")), peer("10.0.0.1"));
        assert_ne!(network(peer("10.0.0.1")), network(peer("10.0.0.2")));
    }

    #[test]
    fn a_right_password_waits_as_well_and_begins_anew() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.succeeded("ana", peer("10.0.0.1"), now), Duration::ZERO);
        for _ in 0..4 {
            throttle.failed("ana", peer("10.0.0.1"), now);
        }
        assert_eq!(throttle.succeeded("ana", peer("10.0.0.2"), now), DELAY_MIN);
        assert_eq!(throttle.succeeded("ana", peer("10.0.0.2"), now), Duration::ZERO);
        // The address from which it was guessed goes on to wait.
        assert_eq!(throttle.failed("bob", peer("10.0.0.1"), now), 2 * DELAY_MIN);
    }

    #[test]
    fn failures_are_forgotten_after_a_while() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..5 {
            throttle.failed("ana", peer("10.0.0.1"), now);
        }
        let later = now + FORGOTTEN_AFTER;
        assert_eq!(throttle.failed("ana", peer("10.0.0.1"), later - Duration::from_secs(1)), 4 * DELAY_MIN);
        assert_eq!(throttle.failed("ana", peer("10.0.0.1"), later + FORGOTTEN_AFTER), Duration::ZERO);
    }

    #[test]
    fn the_counts_are_bounded_and_those_who_guess_most_stay() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        for _ in 0..5 {
            counts.add(0, now);
        }
        for key in 1..COUNTS_MAX + 10 {
            counts.add(key, now + Duration::from_millis(key as u64));
        }
        assert_eq!(counts.0.len(), COUNTS_MAX);
        assert_eq!((counts.take(0, now), counts.take(1, now), counts.take(COUNTS_MAX + 9, now)), (5, 0, 1));
        counts.add(0, now + 2 * FORGOTTEN_AFTER);
        counts.add(1, now + 2 * FORGOTTEN_AFTER);
        counts.add(2, now + 2 * FORGOTTEN_AFTER);
        assert_eq!(counts.0.len(), 3);
    }
}
