//! Ends the minutes of `keyspan.usage`, in the background.

use crate::instance::Instance;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How often it looks whether a minute is over: what is used meanwhile counts to the minute before.
const LOOK: Duration = Duration::from_secs(1);

/// Looks until `stop`, and forgets the shares of tenants that were dropped.
pub(super) async fn run(instance: Arc<Instance>, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
        let now_micros = instance.clock.now_micros();
        for share in instance.shares.all() {
            share.minutes.lock().roll(share.counters.amounts(), now_micros);
        }
        instance.shares.retain(&instance.catalog.snapshot());
    }
}
