//! Advisory locks between sessions: who waits, what ends a wait, and when locks end by themselves.

use super::harness::{Harness, error, rows};
use anyhow::Result;
use tokio_postgres::Client;

/// Returns once a session waits for a lock.
async fn waits(client: &Client, pid: &str) -> Result<()> {
    while rows(client, &format!("SELECT 1 FROM pg_locks WHERE pid = {pid} AND NOT granted")).await?.is_empty() {}
    Ok(())
}

async fn pid(client: &Client) -> Result<String> {
    Ok(rows(client, "SELECT pg_backend_pid()").await?.concat())
}

#[tokio::test]
async fn a_session_waits_until_another_unlocks() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("alto").await?;
    let (two, three) = (harness.connect("alto", "alto").await?, harness.connect("alto", "alto").await?);
    let elsewhere = harness.tenant("altostrat").await?;
    assert_eq!(
        rows(&one, "SELECT pg_advisory_lock(7), pg_try_advisory_lock(-1), pg_try_advisory_lock(3, -4)").await?,
        ["|t|t"]
    );
    assert_eq!(rows(&elsewhere, "SELECT pg_try_advisory_lock(7), pg_advisory_unlock(-1)").await?, ["t|f"]);
    assert_eq!(rows(&elsewhere, "SELECT count(*) FROM pg_locks").await?, ["1"]);
    assert_eq!(
        rows(&two, "SELECT pg_try_advisory_lock(7), pg_try_advisory_lock_shared(7), pg_advisory_unlock(7)").await?,
        ["f|f|f"]
    );
    let (one_pid, two_pid) = (pid(&one).await?, pid(&two).await?);
    let (waited, unlocked) = tokio::join!(rows(&two, "SELECT pg_advisory_xact_lock(7::bigint) IS NULL"), async {
        waits(&three, &two_pid).await?;
        assert_eq!(rows(&three, &format!("SELECT pg_blocking_pids({two_pid})")).await?, [format!("{{{one_pid}}}")]);
        let shown = "SELECT locktype, classid, objid, objsubid, mode, granted, waitstart IS NULL FROM pg_locks \
                     ORDER BY classid, objid, granted DESC";
        let expected = [
            "advisory|0|7|1|ExclusiveLock|t|t",
            "advisory|0|7|1|ExclusiveLock|f|f",
            "advisory|3|4294967292|2|ExclusiveLock|t|t",
            "advisory|4294967295|4294967295|1|ExclusiveLock|t|t",
        ];
        assert_eq!(rows(&three, shown).await?, expected);
        rows(&one, "SELECT pg_advisory_unlock(7)").await
    });
    assert_eq!((waited?, unlocked?), (vec!["f".to_owned()], vec!["t".to_owned()]));
    // The statement was a transaction, which has ended.
    assert_eq!(rows(&three, "SELECT pg_try_advisory_lock(7)").await?, ["t"]);
    // A parameter is a bigint.
    let none: Option<bool> = two.query_one("SELECT pg_try_advisory_lock($1)", &[&7_i64]).await?.get(0);
    assert_eq!(none, Some(false));
    Ok(())
}

#[tokio::test]
async fn a_wait_ends_by_a_cancel_a_timeout_and_a_deadlock() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("alto").await?;
    let (two, three) = (harness.connect("alto", "alto").await?, harness.connect("alto", "alto").await?);
    let two_pid = pid(&two).await?;
    rows(&one, "SELECT pg_advisory_lock(1)").await?;
    let (waited, canceled) = tokio::join!(error(&two, "SELECT pg_advisory_lock(1)"), async {
        waits(&three, &two_pid).await?;
        rows(&three, &format!("SELECT pg_cancel_backend({two_pid})")).await
    });
    assert_eq!((waited.as_str(), canceled?), ("57014 canceling statement due to user request", vec!["t".to_owned()]));
    // Its wait ends with its task.
    while rows(&three, "SELECT count(*) FROM pg_locks WHERE NOT granted").await? != ["0"] {}
    two.batch_execute("SET lock_timeout = '20ms'").await?;
    assert_eq!(error(&two, "SELECT pg_advisory_lock(1)").await, "55P03 canceling statement due to lock timeout");
    two.batch_execute("RESET lock_timeout; SET statement_timeout = '20ms'").await?;
    let timed_out = "57014 canceling statement due to statement timeout";
    assert_eq!(error(&two, "SELECT pg_advisory_lock_shared(1)").await, timed_out);
    two.batch_execute("RESET statement_timeout").await?;

    rows(&two, "SELECT pg_advisory_lock(2)").await?;
    let (waited, refused) = tokio::join!(rows(&two, "SELECT pg_advisory_lock(1)"), async {
        waits(&three, &two_pid).await?;
        let refused = error(&one, "SELECT pg_advisory_lock(2)").await;
        rows(&one, "SELECT pg_advisory_unlock_all()").await?;
        anyhow::Ok(refused)
    });
    assert_eq!((waited?, refused?), (vec![String::new()], "40P01 deadlock detected".to_owned()));
    Ok(())
}

#[tokio::test]
async fn locks_end_with_their_transaction_and_their_session() -> Result<()> {
    let harness = Harness::start().await?;
    let one = harness.tenant("alto").await?;
    let two = harness.connect("alto", "alto").await?;
    let held = "SELECT objid FROM pg_locks ORDER BY 1";
    one.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1); SAVEPOINT s; SELECT pg_advisory_xact_lock(2)").await?;
    one.batch_execute("SELECT pg_advisory_lock(3)").await?;
    assert_eq!(rows(&two, held).await?, ["1", "2", "3"]);
    one.batch_execute("ROLLBACK TO s").await?;
    assert_eq!(rows(&two, held).await?, ["1", "3"]);
    one.batch_execute("COMMIT").await?;
    assert_eq!(rows(&two, held).await?, ["3"]);
    // An error ends what the transaction holds, up to the last savepoint.
    one.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(1)").await?;
    error(&one, "SELECT 1 / 0").await;
    assert_eq!(rows(&two, held).await?, ["3"]);
    one.batch_execute("ROLLBACK; BEGIN; SELECT pg_advisory_xact_lock(1); SAVEPOINT s").await?;
    one.batch_execute("SELECT pg_advisory_xact_lock(2)").await?;
    error(&one, "SELECT 1 / 0").await;
    assert_eq!(rows(&two, held).await?, ["1", "3"]);
    one.batch_execute("ROLLBACK").await?;
    error(&one, "SELECT pg_advisory_xact_lock(5), 1 / (count(*) - 1) FROM (VALUES (1)) v").await;
    assert_eq!(rows(&two, held).await?, ["3"]);
    one.batch_execute("SELECT pg_advisory_lock_shared(4); DISCARD ALL").await?;
    assert_eq!(rows(&two, held).await?, Vec::<String>::new());
    one.batch_execute("SELECT pg_advisory_lock(6)").await?;
    let (waited, ()) = tokio::join!(rows(&two, "SELECT pg_advisory_lock(6)"), async { drop(one) });
    assert_eq!(waited?, [""]);
    Ok(())
}
