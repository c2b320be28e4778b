//! Room for long messages of clients, which are gathered before they are read: so much for all of the server, and at
//! most a half of it for one tenant, so that a tenant whose clients send slowly leaves room to its neighbours.

use crate::{lock::Mutex, shares::schedule::Flow};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The room of a server.
#[derive(Clone, Debug)]
pub(crate) struct MessageRoom {
    /// A permit for each KiB.
    permits: Arc<Semaphore>,
    kib: u32,
    /// Of the tenants that are there; those that are gone are removed when another comes.
    tenants: Arc<Mutex<HashMap<Flow, Weak<Semaphore>>>>,
}

/// The room of a server as a tenant's connection uses it.
#[derive(Clone, Debug)]
pub(crate) struct TenantMessages {
    all: MessageRoom,
    own: Arc<Semaphore>,
}

/// The room that a message has.
#[derive(Debug)]
pub(crate) struct MessagePermit {
    _all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
}

impl MessageRoom {
    pub(super) fn new(bytes: u64) -> Self {
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        Self { permits: Arc::new(Semaphore::new(kib as usize)), kib, tenants: Arc::default() }
    }

    /// What one tenant may have.
    fn half(&self) -> u32 {
        self.kib.div_ceil(2)
    }

    /// The room for a connection of a tenant.
    pub(crate) fn of(&self, tenant: Flow) -> TenantMessages {
        let mut tenants = self.tenants.lock();
        let own = tenants.get(&tenant).and_then(Weak::upgrade).unwrap_or_else(|| {
            let own = Arc::new(Semaphore::new(self.half() as usize));
            tenants.retain(|_, other| other.strong_count() > 0);
            tenants.insert(tenant, Arc::downgrade(&own));
            own
        });
        TenantMessages { all: self.clone(), own }
    }
}

impl TenantMessages {
    /// Waits for room for a message, behind those of its own tenant first. One that is longer than all the room comes
    /// alone.
    pub(crate) async fn take(&self, bytes: usize) -> Option<MessagePermit> {
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        let own = Arc::clone(&self.own).acquire_many_owned(kib.min(self.all.half())).await.ok()?;
        let all = Arc::clone(&self.all.permits).acquire_many_owned(kib.min(self.all.kib)).await.ok()?;
        Some(MessagePermit { _all: all, _own: own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    #[test]
    fn a_tenant_leaves_half_of_the_room() {
        let room = MessageRoom::new(100 << 10);
        let (one, two) = (room.of(1), room.of(2));
        let take = |of: &TenantMessages, kib: usize| of.take(kib << 10).now_or_never().flatten();
        let first = take(&one, 30).unwrap();
        assert!(take(&one, 30).is_none(), "more than half");
        // Another connection of the tenant has no room of its own.
        assert!(take(&room.of(1), 21).is_none());
        let second = (take(&room.of(1), 20).unwrap(), take(&two, 50).unwrap());
        assert!(take(&room.of(3), 1).is_none(), "all is taken");
        drop(second);
        // One that is longer than all comes alone, and two of a tenant after each other.
        assert!(take(&two, 500).is_none());
        drop(first);
        let long = take(&two, 500).unwrap();
        assert!(take(&one, 1).is_none() && take(&two, 1).is_none());
        drop(long);
        assert!(take(&one, 1).is_some());
        drop((one, two));
        room.of(9);
        assert_eq!(room.tenants.lock().len(), 1);
    }
}
