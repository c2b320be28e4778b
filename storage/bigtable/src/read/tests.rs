//! Reads over a server that cuts and fails: each row comes once, whole, in order.

use super::*;
use crate::{
    Settings,
    mock::{Mock, with_seeds},
};
use futures::TryStreamExt;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::{sync::atomic::Ordering, time::Duration};
use tonic::{Code, Status};

async fn read(client: &Client, read: ReadRows) -> Result<Vec<ApiRow>> {
    client.read_rows("t", read).try_concat().await
}

fn all() -> ReadRows {
    ReadRows { rows: RowSet::all(), filter: None, rows_max: None, reversed: false }
}

fn keys(rows: &[ApiRow]) -> Vec<String> {
    rows.iter().map(|row| row.key.escape_ascii().to_string()).collect()
}

#[tokio::test]
async fn rows_come_once_over_a_server_that_fails() {
    with_seeds(200, async |seed| {
        let (mock, settings) = Mock::serve(seed, 12).await;
        let client = Client::new(settings).unwrap();
        let mut random = SmallRng::seed_from_u64(seed);
        for number in 0..40u32 {
            let mut value = vec![0; random.random_range(0..20)];
            random.fill(&mut value[..]);
            mock.put(format!("{number:02}").as_bytes(), &[("q", value), ("r", vec![1])]);
        }
        let key = |random: &mut SmallRng| Bytes::from(format!("{:02}", random.random_range(0..42)));
        let ranges: Vec<_> = (0..random.random_range(1..4))
            .map(|_| match random.random_range(0..3) {
                0 => KeyRange::point(&key(&mut random)),
                1 => KeyRange::new(key(&mut random), None),
                _ => KeyRange::new(key(&mut random), Some(key(&mut random))),
            })
            .collect();
        let rows_max = random.random_bool(0.5).then(|| random.random_range(0..30));
        let wanted = ReadRows { rows: RowSet::new(ranges), filter: None, rows_max, reversed: random.random() };
        let mut want: Vec<_> = mock.rows.lock().unwrap().clone().into_iter().collect();
        want.retain(|(key, _)| wanted.rows.ranges().iter().any(|range| range.contains(key)));
        if wanted.reversed {
            want.reverse();
        }
        want.truncate(rows_max.map_or(usize::MAX, |most| usize::try_from(most).unwrap()));
        let got = read(&client, wanted.clone()).await.unwrap();
        let got: Vec<_> = got
            .into_iter()
            .map(|row| {
                let cells = row.cells.into_iter().map(|cell| (cell.qualifier, cell.value)).collect();
                (row.key.into_bytes(), cells)
            })
            .collect();
        assert_eq!(got, want, "seed {seed}: {wanted:?}");
    })
    .await;
}

#[tokio::test]
async fn round_trips_are_measured() {
    let (mock, settings) = Mock::serve(1, 0).await;
    let client = Client::new(settings).unwrap();
    assert_eq!(client.round_trip_micros(), 4_000);
    // Smoothed: one that waited for something does not change it much, many do; none counts for more than a second.
    client.answered(Instant::now() - Duration::from_secs(50));
    assert_eq!(client.round_trip_micros(), 4_000 - 500 + 125_000);
    for _ in 0..100 {
        client.answered(Instant::now() - Duration::from_secs(2));
    }
    assert!((999_900..=1_000_000).contains(&client.round_trip_micros()), "{}", client.round_trip_micros());
    // Small reads are, those of all rows are not.
    mock.put(b"a", &[("q", vec![])]);
    read(&client, all()).await.unwrap();
    assert!(client.round_trip_micros() > 999_900);
    for rows_max in [1, 16] {
        let before = client.round_trip_micros();
        read(&client, ReadRows { rows_max: Some(rows_max), ..all() }).await.unwrap();
        assert!(client.round_trip_micros() < before);
    }
}

#[tokio::test]
async fn no_rows_are_not_asked_for() {
    let (mock, settings) = Mock::serve(1, 0).await;
    let client = Client::new(settings).unwrap();
    mock.put(b"a", &[("q", vec![])]);
    for nothing in [ReadRows { rows: RowSet::none(), ..all() }, ReadRows { rows_max: Some(0), ..all() }] {
        assert!(read(&client, nothing).await.unwrap().is_empty());
    }
    assert_eq!(mock.requests.load(Ordering::SeqCst), 0);
    assert_eq!(keys(&read(&client, all()).await.unwrap()), ["a"]);
    assert_eq!(mock.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn many_ranges_are_many_requests() {
    let (mock, settings) = Mock::serve(1, 0).await;
    let client = Client::new(settings).unwrap();
    let numbers = 0..2_500u32;
    numbers.clone().for_each(|number| mock.put(&number.to_be_bytes(), &[("q", vec![])]));
    let points = numbers.filter(|number| number % 2 == 0).map(|number| KeyRange::point(&number.to_be_bytes()));
    let rows = RowSet::new(points);
    for reversed in [false, true] {
        let before = mock.requests.load(Ordering::SeqCst);
        let got = read(&client, ReadRows { rows: rows.clone(), reversed, ..all() }).await.unwrap();
        assert_eq!(got.len(), 1_250);
        assert!(got.is_sorted_by(|a, b| if reversed { a.key > b.key } else { a.key < b.key }));
        assert_eq!(mock.requests.load(Ordering::SeqCst) - before, 2);
        let few = ReadRows { rows: rows.clone(), reversed, rows_max: Some(1_001), ..all() };
        assert_eq!(read(&client, few).await.unwrap().len(), 1_001, "the limit counts over requests");
    }
}

#[tokio::test]
async fn requests_say_where_and_what_they_understand() {
    let (mock, settings) = Mock::serve(1, 0).await;
    let client = Client::new(Settings { app_profile: "sql".into(), ..settings }).unwrap();
    read(&client, all()).await.unwrap();
    let headers = mock.headers.lock().unwrap().clone();
    let header = |name: &str| headers.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!(
        header("x-goog-request-params"),
        "table_name=projects%2Fp%2Finstances%2Fi%2Ftables%2Ft&app_profile_id=sql"
    );
    // reverse_scans, mutate_rows_rate_limit, last_scanned_row_responses, mutate_rows_rate_limit2, routing_cookie,
    // retry_info.
    assert_eq!(header("bigtable-features"), "CAEYASABKAEwATgB");
    assert_eq!(headers.get("authorization"), None);
}

#[tokio::test]
async fn a_final_error_is_given_back_at_once() {
    let (mock, settings) = Mock::serve(1, 0).await;
    let client = Client::new(settings).unwrap();
    mock.failures.lock().unwrap().push(Status::not_found("no such table"));
    let error = read(&client, all()).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NotFound));
    assert_eq!(mock.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let (_, settings) = Mock::serve(1, 0).await;
    let timeout = Duration::from_millis(200);
    // No one listens on the port of a socket that is closed again.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::new(Settings { data_uri: uri, operation_timeout: timeout, ..settings }).unwrap();
    assert_eq!(read(&client, all()).await.unwrap_err().code(), Some(Code::Unavailable));
}

#[tokio::test]
async fn a_large_row_comes() {
    let (mock, settings) = Mock::serve(1, 0).await;
    let client = Client::new(settings).unwrap();
    mock.put(b"large", &[("q", vec![7; 20 << 20])]);
    let rows = read(&client, all()).await.unwrap();
    assert_eq!(rows[0].cells[0].value.len(), 20 << 20);
}
