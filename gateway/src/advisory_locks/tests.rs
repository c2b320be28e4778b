use super::*;
use futures::FutureExt;

const SESSION: Request = Request { exclusive: true, of_transaction: false };
const SHARED: Request = Request { exclusive: false, of_transaction: false };
const TRANSACTION: Request = Request { exclusive: true, of_transaction: true };

fn sessions() -> (Arc<AdvisoryLocks>, [SessionLocks; 3]) {
    let locks = Arc::new(AdvisoryLocks::default());
    let sessions = [1, 2, 3].map(|process_id| locks.session(Some(7), process_id));
    (locks, sessions)
}

fn key(number: i64) -> LockKey {
    LockKey::of(number)
}

/// Whether nothing is left.
fn is_empty(locks: &AdvisoryLocks) -> bool {
    let table = locks.table.lock();
    table.count == 0
        && table.by_database.is_empty()
        && table.locks.is_empty()
        && table.held.is_empty()
        && table.waiting.is_empty()
        && table.logs.is_empty()
}

#[test]
fn an_exclusive_lock_excludes_all_others_of_its_database() {
    let (locks, [one, two, three]) = sessions();
    let elsewhere = locks.session(None, 9);
    assert!(one.try_lock(key(1), SESSION).unwrap() && one.try_lock(key(1), SESSION).unwrap());
    assert!(one.try_lock(key(1), SHARED).unwrap() && one.try_lock(key(1), TRANSACTION).unwrap());
    assert!(!two.try_lock(key(1), SESSION).unwrap() && !two.try_lock(key(1), SHARED).unwrap());
    assert!(elsewhere.try_lock(key(1), SESSION).unwrap());
    assert!(two.try_lock(key(2), SHARED).unwrap() && three.try_lock(key(2), SHARED).unwrap());
    assert!(!one.try_lock(key(2), SESSION).unwrap() && !two.try_lock(key(2), SESSION).unwrap());
    // As often as it was locked.
    assert!(one.unlock(key(1), true) && one.unlock(key(1), true) && !one.unlock(key(1), true));
    one.end_transaction();
    assert!(!two.try_lock(key(1), SESSION).unwrap() && two.try_lock(key(1), SHARED).unwrap());
    assert!(one.unlock(key(1), false) && !one.unlock(key(1), false));
    assert!(two.try_lock(key(1), SESSION).unwrap());
    drop((one, two, three, elsewhere));
    assert!(is_empty(&locks));
}

#[test]
fn numbers_are_those_of_postgres() {
    let shown = |key: LockKey| (key.class, key.object, key.numbers);
    assert_eq!(shown(LockKey::of(5)), (0, 5, 1));
    assert_eq!(shown(LockKey::of(-1)), (u32::MAX, u32::MAX, 1));
    assert_eq!(shown(LockKey::of((3 << 32) + 4)), (3, 4, 1));
    assert_eq!(shown(LockKey::of_two(3, -4)), (3, 4_294_967_292, 2));
}

#[test]
fn a_transaction_releases_what_it_has_locked() {
    let (locks, [one, two, _three]) = sessions();
    assert!(one.try_lock(key(1), TRANSACTION).unwrap());
    let mark = one.mark();
    assert!(one.try_lock(key(1), TRANSACTION).unwrap() && one.try_lock(key(2), TRANSACTION).unwrap());
    assert!(one.try_lock(key(2), SESSION).unwrap() && one.try_lock(key(3), TRANSACTION).unwrap());
    assert_eq!((mark, one.mark()), (1, 3));
    one.rollback_to(mark);
    assert!(two.try_lock(key(3), SESSION).unwrap() && !two.try_lock(key(1), SESSION).unwrap());
    assert!(!two.try_lock(key(2), SESSION).unwrap(), "the session has it too");
    one.unlock_all();
    assert!(two.try_lock(key(2), SESSION).unwrap() && !two.try_lock(key(1), SESSION).unwrap());
    one.end_transaction();
    assert!(two.try_lock(key(1), SESSION).unwrap());
    two.release();
    assert!(is_empty(&locks));
}

#[tokio::test]
async fn who_waits_is_served_in_the_order_of_arrival() {
    let (locks, [one, two, three]) = sessions();
    one.lock(key(1), SESSION, 0, None).await.unwrap();
    let mut second = Box::pin(two.lock(key(1), SHARED, 5, None));
    assert!(second.as_mut().now_or_never().is_none());
    let mut third = Box::pin(three.lock(key(1), SESSION, 6, None));
    assert!(third.as_mut().now_or_never().is_none());
    assert_eq!((locks.blocking(Some(7), 2), locks.blocking(Some(7), 3)), (vec![1], vec![1, 2]));
    assert!(locks.blocking(None, 2).is_empty() && locks.blocking(Some(7), 1).is_empty());
    let shown = |info: LockInfo| (info.process_id, info.exclusive, info.waits_since_micros);
    let all: Vec<_> = locks.all().into_iter().map(shown).collect();
    assert_eq!(all, [(1, true, None), (2, false, Some(5)), (3, true, Some(6))]);
    one.unlock(key(1), true);
    second.await.unwrap();
    assert!(third.as_mut().now_or_never().is_none());
    // A third that is shared would overtake who waits.
    assert!(!one.try_lock(key(1), SHARED).unwrap());
    two.unlock(key(1), false);
    third.await.unwrap();
    three.release();
    assert!(is_empty(&locks));
}

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_nothing() {
    let (locks, [one, two, three]) = sessions();
    one.lock(key(1), SHARED, 0, None).await.unwrap();
    let mut second = Box::pin(two.lock(key(1), TRANSACTION, 0, None));
    assert!(second.as_mut().now_or_never().is_none());
    let mut third = Box::pin(three.lock(key(1), SHARED, 0, None));
    assert!(third.as_mut().now_or_never().is_none(), "behind who waits");
    drop(second);
    third.await.unwrap();
    // Granted, and given up before it was seen.
    let mut second = Box::pin(two.lock(key(1), TRANSACTION, 0, None));
    assert!(second.as_mut().now_or_never().is_none());
    one.release();
    three.release();
    drop(second);
    assert_eq!(two.mark(), 0);
    assert!(is_empty(&locks));
    one.lock(key(1), SESSION, 0, None).await.unwrap();
    let error = two.lock(key(1), SESSION, 0, Some(Duration::from_millis(1))).await.unwrap_err();
    assert_eq!(error.state, SqlState::LOCK_NOT_AVAILABLE);
    one.release();
    assert!(is_empty(&locks));
}

#[tokio::test]
async fn a_wait_for_oneself_is_refused() {
    let (locks, [one, two, three]) = sessions();
    one.lock(key(1), SESSION, 0, None).await.unwrap();
    two.lock(key(2), SESSION, 0, None).await.unwrap();
    three.lock(key(3), SESSION, 0, None).await.unwrap();
    let mut first = Box::pin(one.lock(key(2), SESSION, 0, None));
    assert!(first.as_mut().now_or_never().is_none());
    let mut second = Box::pin(two.lock(key(3), SHARED, 0, None));
    assert!(second.as_mut().now_or_never().is_none());
    let error = three.lock(key(1), SESSION, 0, None).await.unwrap_err();
    assert_eq!((error.state, error.message.as_str()), (SqlState::DEADLOCK_DETECTED, "deadlock detected"));
    let detail = "Process 3 waits for ExclusiveLock on advisory lock [7,0,1,1]; blocked by process 1.\n\
                  Process 1 waits for ExclusiveLock on advisory lock [7,0,2,1]; blocked by process 2.\n\
                  Process 2 waits for ShareLock on advisory lock [7,0,3,1]; blocked by process 3.";
    assert_eq!(error.detail.as_deref(), Some(detail));
    three.release();
    second.await.unwrap();
    two.release();
    first.await.unwrap();
    // Two that share a number and both want it alone.
    one.release();
    one.lock(key(4), SHARED, 0, None).await.unwrap();
    two.lock(key(4), SHARED, 0, None).await.unwrap();
    let mut first = Box::pin(one.lock(key(4), SESSION, 0, None));
    assert!(first.as_mut().now_or_never().is_none());
    assert_eq!(two.lock(key(4), SESSION, 0, None).await.unwrap_err().state, SqlState::DEADLOCK_DETECTED);
    two.release();
    first.await.unwrap();
    one.release();
    assert!(is_empty(&locks));
}

#[test]
fn databases_share_the_room() {
    let locks = Arc::new(AdvisoryLocks { table: Mutex::default(), locks_max: 10 });
    let (one, two) = (locks.session(Some(1), 1), locks.session(Some(2), 2));
    (0..6).for_each(|number| assert!(one.try_lock(key(number), SESSION).unwrap()));
    assert!(two.try_lock(key(0), SESSION).unwrap());
    // One keeps what it has beyond its part, and gets no more.
    assert_eq!(one.try_lock(key(6), SESSION).unwrap_err().state, SqlState::OUT_OF_MEMORY);
    assert!(one.try_lock(key(5), SESSION).unwrap(), "it has that");
    (1..4).for_each(|number| assert!(two.try_lock(key(number), SESSION).unwrap()));
    two.try_lock(key(4), SESSION).unwrap_err();
    two.release();
    assert!(one.try_lock(key(6), SESSION).unwrap());
    one.release();
    assert!(is_empty(&locks));
}
