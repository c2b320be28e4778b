//! The purge of dropped tenants, and of what was erased of others, in the background.
//!
//! `DROP DATABASE` answers when the tenant's rows are dead; [`run`] then makes their bytes go. It looks at the start,
//! for what a crash left, and after each drop; what fails is tried again after a while. A drop that was interrupted
//! before its rows were dead, by a crash or an error, is finished first, and so is a change of the catalog that the
//! start could not finish. How far a purge is stands in the catalog
//! ([`Catalog::purge`](keyspan_catalog::Catalog::purge)) and in `keyspan.drops`, and why it does not come further, too.

use crate::{instance::Instance, pg::error::SqlError};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// How long after an error the purge is tried again; doubled with each further one.
const RETRY_MIN: Duration = Duration::from_secs(1);
/// The longest time between two tries.
const RETRY_MAX: Duration = Duration::from_secs(300);

/// Who finishes a drop that was interrupted, in its certificate: who began it is not known any more.
pub const RESUMED: &str = "(resumed)";

/// Purges what was dropped, until `stop`. What is under way then is taken up by the next start.
pub(crate) async fn run(instance: Arc<Instance>, stop: CancellationToken) {
    let mut wait = RETRY_MIN;
    while let Some(pause) = stop.run_until_cancelled(step_with_files(&instance, &mut wait)).await {
        let woken = async {
            match pause {
                Pause::None => {}
                Pause::UntilWoken => instance.purges.requested.notified().await,
                Pause::AtMost(time) => drop(tokio::time::timeout(time, instance.purges.requested.notified()).await),
            }
        };
        if stop.run_until_cancelled(woken).await.is_none() {
            return;
        }
    }
}

/// What to wait for before the next step.
#[derive(Debug, PartialEq, Eq)]
enum Pause {
    None,
    UntilWoken,
    AtMost(Duration),
}

/// A step, and the files of certificates: what is missing at the start, and what the step has changed.
async fn step_with_files(instance: &Arc<Instance>, wait: &mut Duration) -> Pause {
    write_certificates(instance).await;
    let pause = step(instance, wait).await;
    match write_certificates(instance).await {
        false if pause == Pause::UntilWoken => Pause::AtMost(RETRY_MAX),
        _ => pause,
    }
}

/// Writes the files of certificates that are missing or differ; `false` if that fails, which is logged.
pub(crate) async fn write_certificates(instance: &Arc<Instance>) -> bool {
    let (owned, snapshot) = (instance.clone(), instance.catalog.snapshot());
    let written = tokio::task::spawn_blocking(move || owned.certificates.write(&snapshot.drops)).await;
    match written {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::warn!(%error, "a certificate of a drop could not be written to its file");
            false
        }
        Err(_) => false,
    }
}

async fn step(instance: &Instance, wait: &mut Duration) -> Pause {
    // A query of a session that has not ended yet may hold rows in temporary files: what is said to be purged is gone
    // from these too.
    let sessions = instance.activities.of_dropped(&instance.catalog.snapshot());
    if !sessions.is_empty() {
        sessions.iter().for_each(|activity| activity.controls.ending.cancel());
        return Pause::AtMost(RETRY_MIN);
    }
    let mended = instance.catalog.finish_interrupted().await;
    let mended = match instance.catalog.finish_servers().await {
        Err(error) => mended.and(Err(error)),
        Ok(()) => mended,
    };
    let finished = instance.catalog.finish_drops(RESUMED, instance.clock.now_micros()).await;
    // What can be purged does not wait for what cannot be dropped.
    let purged = instance.catalog.purge(instance.clock.as_ref()).await;
    let purged = match (mended.and(finished.map(drop)), purged) {
        (Err(error), Ok(None)) => Err(error),
        (_, purged) => purged,
    };
    let erased = instance.catalog.purge_erasures(instance.clock.as_ref()).await;
    if matches!(erased, Ok(Some(_))) {
        // What tells of keys is gone from the store, and what lay beside it.
        instance.hours.store_again().await;
    }
    warn_of_overdue(instance);
    let purged = match (purged, erased) {
        (Ok(None), erased) => erased,
        (Ok(some), Ok(_)) => Ok(some),
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    *instance.purges.lock() = purged.as_ref().err().map(|error| SqlError::from(error).for_operator().message);
    match purged {
        Ok(report) => {
            *wait = RETRY_MIN;
            match report {
                None => Pause::UntilWoken,
                Some(report) => {
                    tracing::info!(?report, "the bytes of what was dropped or erased are gone");
                    Pause::None
                }
            }
        }
        Err(error)
            if error.store().map(keyspan_storage::Error::kind) == Some(keyspan_storage::ErrorKind::Unsupported) =>
        {
            tracing::debug!(%error, "no purge");
            Pause::UntilWoken
        }
        Err(error) => {
            tracing::warn!(%error, "what was dropped or interrupted could not be finished yet");
            let pause = *wait;
            *wait = (pause * 2).min(RETRY_MAX);
            Pause::AtMost(pause)
        }
    }
}

/// Says which erasures are past their deadline: each time that they are tried.
fn warn_of_overdue(instance: &Instance) {
    let now_micros = instance.clock.now_micros();
    for (tenant, number, erasure) in instance.catalog.snapshot().pending_erasures() {
        if erasure.deadline_micros < now_micros {
            let tenant = tenant.map_or_else(String::new, |tenant| tenant.to_string());
            tracing::error!(tenant, number, table = erasure.table_name, "an erasure is past its deadline");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::testing::{World, run as sql};

    #[tokio::test]
    async fn a_drop_is_purged_and_the_relation_says_so() {
        let world = World::new().await;
        let drops = "SELECT tenant, purge, purge_error, purged_at >= dropped_at FROM keyspan.drops";
        sql(&mut world.operator(), "DROP DATABASE alto").await;
        assert_eq!(sql(&mut world.operator(), drops).await, "alto|waiting|∅|∅");
        let mut wait = RETRY_MIN;
        assert_eq!(step(&world.instance, &mut wait).await, Pause::None);
        assert_eq!(sql(&mut world.operator(), drops).await, "alto|done|∅|true");
        assert_eq!(step(&world.instance, &mut wait).await, Pause::UntilWoken);
    }

    #[tokio::test]
    async fn what_fails_is_told_and_tried_again_later_and_later() {
        let world = World::new().await;
        sql(&mut world.operator(), "DROP DATABASE alto").await;
        world.instance.catalog.store().close().await.unwrap();
        let mut wait = RETRY_MIN;
        assert_eq!(step(&world.instance, &mut wait).await, Pause::AtMost(RETRY_MIN));
        assert_eq!(step(&world.instance, &mut wait).await, Pause::AtMost(2 * RETRY_MIN));
        assert_eq!(world.instance.purges.error().as_deref(), Some("the store has stopped: it was closed"));
        wait = RETRY_MAX;
        step(&world.instance, &mut wait).await;
        assert_eq!(wait, RETRY_MAX);
    }

    #[tokio::test]
    async fn it_runs_until_it_is_stopped() {
        let world = World::new().await;
        let (stop, instance) = (CancellationToken::new(), world.instance.clone());
        let running = tokio::spawn(run(instance.clone(), stop.clone()));
        // The first when it runs already, perhaps; each of them must wake it.
        for tenant in ["alto", "altostrat"] {
            sql(&mut world.operator(), &format!("DROP DATABASE {tenant}")).await;
            while !instance.catalog.unpurged().is_empty() {
                tokio::task::yield_now().await;
            }
        }
        stop.cancel();
        running.await.unwrap();
        assert_eq!(instance.purges.error(), None);
    }
}
