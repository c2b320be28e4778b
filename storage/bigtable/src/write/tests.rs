//! Writes over a server that fails: each row has a result, and OK means that it is there.

use super::*;
use crate::mock::{Mock, with_seeds};
use bytes::Bytes;
use keyspan_bigtable_api::data::mutation;
use std::sync::atomic::{AtomicUsize, Ordering};

fn entry(key: &str, value: &str, repeatable: bool) -> Entry {
    let cell = mutation::SetCell {
        family_name: "a".into(),
        column_qualifier: "q".into(),
        timestamp_micros: 1_000,
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    let mutations = vec![Mutation { mutation: Some(mutation::Mutation::SetCell(cell)) }];
    Entry { key: RowKey::new(Bytes::copy_from_slice(key.as_bytes())).unwrap(), mutations, repeatable }
}

#[tokio::test]
async fn every_row_is_written_over_a_server_that_fails() {
    with_seeds(100, async |seed| {
        let (mock, settings) = Mock::serve(seed, 15).await;
        let client = Client::new(settings).unwrap();
        let entries = (0..30).map(|number| entry(&format!("{number:03}"), "v", true));
        let results = client.mutate_rows("t", entries).await.unwrap();
        assert_eq!(results.len(), 30);
        assert!(results.iter().all(Result::is_ok), "seed {seed}: {results:?}");
        assert_eq!(mock.rows.lock().unwrap().len(), 30, "seed {seed}");
    })
    .await;
}

#[tokio::test]
async fn what_must_not_be_repeated_is_not() {
    let failed = AtomicUsize::new(0);
    with_seeds(50, async |seed| {
        let (mock, settings) = Mock::serve(seed, 6).await;
        let client = Client::new(settings).unwrap();
        let entries = (0..50).map(|number| entry(&format!("{number:03}"), "v", false));
        let results = client.mutate_rows("t", entries).await.unwrap();
        assert!(mock.writes.load(Ordering::SeqCst) <= 50, "seed {seed}");
        failed.fetch_add(results.iter().filter(|result| result.is_err()).count(), Ordering::SeqCst);
        for (number, result) in results.iter().enumerate().filter(|(_, result)| result.is_ok()) {
            let key = Bytes::from(format!("{number:03}"));
            assert!(mock.rows.lock().unwrap().contains_key(&key), "seed {seed}: {result:?}");
        }
    })
    .await;
    assert!(failed.into_inner() > 0, "the server failed");
}

#[tokio::test]
async fn only_failed_rows_are_sent_again() {
    let (mock, settings) = Mock::serve(3, 0).await;
    let client = Client::new(settings).unwrap();
    mock.refused.lock().unwrap().push("b".into());
    mock.failures.lock().unwrap().push(Status::unavailable("once"));
    let entries = ["a", "b", "c"].map(|key| entry(key, "v", true)).to_vec();
    let results = client.mutate_rows("t", entries).await.unwrap();
    assert!(results[0].is_ok() && results[2].is_ok());
    assert_eq!(results[1].as_ref().unwrap_err().code(), Some(Code::FailedPrecondition));
    assert_eq!(mock.requests.load(Ordering::SeqCst), 2);
    assert_eq!(mock.writes.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_row_is_repeated_only_if_it_may_be() {
    let (mock, settings) = Mock::serve(3, 0).await;
    let client = Client::new(settings).unwrap();
    for (repeatable, requests) in [(true, 2), (false, 1)] {
        let before = mock.requests.load(Ordering::SeqCst);
        mock.failures.lock().unwrap().push(Status::unavailable("once"));
        let Entry { key, mutations, .. } = entry("k", "v", true);
        let result = client.mutate_row("t", &key, mutations, repeatable).await;
        assert_eq!(result.is_ok(), repeatable);
        assert_eq!(mock.requests.load(Ordering::SeqCst) - before, requests);
    }
    mock.failures.lock().unwrap().push(Status::unavailable("once"));
    let Entry { key, mutations, .. } = entry("k", "v", true);
    let unknown = client.check_and_mutate("t", &key, None, mutations.clone(), vec![]).await.unwrap_err();
    assert!(unknown.is_outcome_unknown());
    assert!(client.check_and_mutate("t", &key, None, mutations, vec![]).await.unwrap());
}

#[tokio::test]
async fn samples_come_whole() {
    with_seeds(20, async |seed| {
        let (mock, settings) = Mock::serve(seed, 3).await;
        let client = Client::new(settings).unwrap();
        mock.put(b"a", &[("q", vec![])]);
        mock.put(b"b", &[("q", vec![])]);
        let samples = client.sample_row_keys("t").await.unwrap();
        let keys: Vec<&[u8]> = samples.iter().map(|sample| sample.key.as_ref()).collect();
        assert_eq!(keys, [&b"a"[..], b"b", b""]);
    })
    .await;
}

#[test]
fn requests_are_bounded() {
    let entries = (0..2_500).map(|number| entry(&number.to_string(), "v", true));
    assert_eq!(requests_of(entries).map(|(rows, _)| rows.len()).collect::<Vec<_>>(), [1_000, 1_000, 500]);
    let large = "x".repeat(3 << 20);
    let entries = (0..3).map(|number| entry(&number.to_string(), &large, true));
    assert_eq!(requests_of(entries).count(), 3);
    assert!(requests_of(Vec::new()).next().is_none());
}
