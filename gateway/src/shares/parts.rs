//! A pool of the server that tenants share: memory of queries, temporary space.
//!
//! A tenant that is alone may take all of it. While others want some, it may take no more than the part of its weight;
//! what it has beyond that it keeps, and gets no more. Another wants some while it uses the pool and holds at least one
//! [`WANTS`]th of it, or was refused. Quotas bound a tenant in any case.

use super::{Share, schedule::Flow};
use crate::lock::Mutex;
use std::{collections::HashMap, sync::Arc};

/// Whoever holds less than one over this of a pool does not narrow others.
const WANTS: u64 = 32;

/// See the module. There are as many entries as tenants that use the pool now.
#[derive(Debug)]
pub(crate) struct Parts {
    bytes: u64,
    /// The quota of the pool; `u64::MAX` without one.
    quota: fn(&Share) -> u64,
    tenants: Mutex<HashMap<Flow, User>>,
}

#[derive(Debug)]
struct User {
    share: Arc<Share>,
    /// Consumers, or files.
    count: usize,
    bytes: u64,
    refused: bool,
}

/// Why a tenant gets no more, with the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its quota.
    Quota(u64),
    /// Its part, since others want some.
    Part(u64),
}

impl Parts {
    pub(crate) fn new(bytes: u64, quota: fn(&Share) -> u64) -> Self {
        Self { bytes, quota, tenants: Mutex::default() }
    }

    /// A tenant begins to use the pool once more.
    pub(crate) fn enter(&self, share: &Arc<Share>) {
        let new = || User { share: Arc::clone(share), count: 0, bytes: 0, refused: false };
        self.tenants.lock().entry(share.flow()).or_insert_with(new).count += 1;
    }

    /// A tenant that has begun has ended.
    pub(crate) fn leave(&self, share: &Share) {
        let mut tenants = self.tenants.lock();
        if let Some(user) = tenants.get_mut(&share.flow()) {
            user.count -= 1;
            if user.count == 0 {
                tenants.remove(&share.flow());
            }
        }
    }

    /// Takes bytes for a tenant.
    ///
    /// # Errors
    /// The bound that it would exceed.
    pub(crate) fn grow(&self, share: &Share, bytes: u64) -> Result<(), Refused> {
        let mut tenants = self.tenants.lock();
        let others = tenants.iter().filter(|(flow, user)| **flow != share.flow() && self.wants(user));
        let others: u64 = others.map(|(_, user)| u64::from(user.share.weight())).sum();
        let Some(user) = tenants.get_mut(&share.flow()) else { return Ok(()) };
        let (quota, part) = ((self.quota)(share), part(self.bytes, u64::from(share.weight()), others));
        let wanted = user.bytes.saturating_add(bytes);
        if wanted > quota.min(part) {
            user.refused = true;
            share.count_refusal();
            return Err(if quota <= part { Refused::Quota(quota) } else { Refused::Part(part) });
        }
        user.bytes = wanted;
        Ok(())
    }

    /// Takes bytes that are taken in any case.
    pub(crate) fn force(&self, share: &Share, bytes: u64) {
        if let Some(user) = self.tenants.lock().get_mut(&share.flow()) {
            user.bytes = user.bytes.saturating_add(bytes);
        }
    }

    /// Gives bytes back.
    pub(crate) fn shrink(&self, share: &Share, bytes: u64) {
        if let Some(user) = self.tenants.lock().get_mut(&share.flow()) {
            user.bytes = user.bytes.saturating_sub(bytes);
        }
    }

    fn wants(&self, user: &User) -> bool {
        user.refused || user.bytes >= (self.bytes / WANTS).max(1)
    }
}

/// The part of a weight beside the weights of others.
fn part(bytes: u64, weight: u64, others: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(weight) / u128::from(weight + others).max(1);
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::Shares;
    use super::*;
    use keyspan_catalog::Quotas;

    #[test]
    fn a_tenant_takes_all_alone_and_its_part_beside_others() {
        let (shares, parts) = (Shares::default(), Parts::new(3_200, |share| share.memory_max()));
        let (one, two) = (shares.of(Some(1)), shares.of(Some(2)));
        two.set_quotas(Quotas { weight: Some(300), memory_bytes_max: Some(2_000), ..Quotas::default() });
        parts.enter(&one);
        assert_eq!(parts.grow(&one, 3_200), Ok(()));
        parts.enter(&two);
        assert_eq!(parts.grow(&two, 100), Ok(()));
        assert_eq!(parts.grow(&one, 1), Err(Refused::Part(800)));
        // It keeps what it has; below its part it gets more.
        parts.shrink(&one, 3_000);
        assert_eq!((parts.grow(&one, 601), parts.grow(&one, 600)), (Err(Refused::Part(800)), Ok(())));
        assert_eq!((parts.grow(&two, 1_901), parts.grow(&two, 1_900)), (Err(Refused::Quota(2_000)), Ok(())));
        parts.leave(&two);
        assert_eq!(parts.grow(&one, 2_400), Ok(()));
        parts.leave(&one);
        assert!(parts.tenants.lock().is_empty());
        assert_eq!(two.counters.amounts().refusals, 1);
    }

    #[test]
    fn whoever_holds_little_narrows_nobody_until_it_was_refused() {
        let (shares, parts) = (Shares::default(), Parts::new(3_200, |share| share.memory_max()));
        let (one, two) = (shares.of(Some(1)), shares.of(Some(2)));
        two.set_quotas(Quotas { memory_bytes_max: Some(50), ..Quotas::default() });
        parts.enter(&one);
        parts.enter(&two);
        assert_eq!((parts.grow(&two, 50), parts.grow(&one, 3_000)), (Ok(()), Ok(())));
        assert_eq!(parts.grow(&two, 1), Err(Refused::Quota(50)));
        assert_eq!(parts.grow(&one, 1), Err(Refused::Part(1_600)));
    }
}
