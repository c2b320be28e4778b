//! `COPY … FROM STDIN` and `COPY … TO STDOUT`: the three formats both ways, errors with their lines, clients that go
//! away.

use super::harness::{Harness, OPERATOR_PASSWORD, PASSWORD, Raw, error, rows, told};
use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use tokio_postgres::Client;

const TABLE: &str = "CREATE TABLE t (k bigint PRIMARY KEY, s text, f double precision CHECK (f <> 7), b bytea, n numeric(10,2), j jsonb, at timestamptz)";
/// More cells than one commit holds, so that a load of them goes past the log, or is written in parts.
const MANY: u64 = 20_000;

async fn define(harness: &Harness) -> Result<Client> {
    let alto = harness.tenant("alto").await?;
    harness.operator().await?.batch_execute(TABLE).await?;
    Ok(alto)
}

/// Copies data in; the number of rows, or what the client was told with its context.
pub(super) async fn copy_in(client: &Client, sql: &str, data: impl Into<Bytes>) -> Result<String> {
    let told_with_context = |error: tokio_postgres::Error| {
        let context = error.as_db_error().and_then(|error| error.where_().map(str::to_owned));
        format!("{} [{}]", told(&error), context.unwrap_or_default())
    };
    let sink = match client.copy_in::<_, Bytes>(sql).await {
        Ok(sink) => sink,
        Err(error) => return Ok(told_with_context(error)),
    };
    let mut sink = pin!(sink);
    if let Err(error) = sink.send(data.into()).await {
        return Ok(told_with_context(error));
    }
    Ok(match sink.finish().await {
        Ok(count) => count.to_string(),
        Err(error) => told_with_context(error),
    })
}

pub(super) async fn copy_out(client: &Client, sql: &str) -> Result<Vec<u8>> {
    let pieces: Vec<Bytes> = client.copy_out(sql).await?.try_collect().await?;
    Ok(pieces.concat())
}

#[tokio::test]
async fn rows_go_out_and_come_back_in_every_format() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = define(&harness).await?;
    let text = "1\ta\\tb\\\\c\\nd\t1.5\t\\\\x00ff\t12.34\t{\"a\": 1}\t2026-11-01 12:00:00+00\n\
                2\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n\
                3\t\tNaN\t\\\\x\t-0.50\t[]\tinfinity\n";
    assert_eq!(copy_in(&alto, "COPY t FROM STDIN", text).await?, "3");
    assert_eq!(String::from_utf8(copy_out(&alto, "COPY t TO STDOUT").await?)?, text);
    let csv = "k,s,f,b,n,j,at\n\
               1,\"a\tb\\c\nd\",1.5,\\x00ff,12.34,\"{\"\"a\"\": 1}\",2026-11-01 12:00:00+00\n\
               2,,,,,,\n\
               3,\"\",NaN,\\x,-0.50,[],infinity\n";
    assert_eq!(String::from_utf8(copy_out(&alto, "COPY t TO STDOUT (FORMAT csv, HEADER)").await?)?, csv);
    let binary = copy_out(&alto, "COPY (SELECT * FROM t ORDER BY k) TO STDOUT WITH BINARY").await?;
    for (options, data) in [("(FORMAT csv, HEADER match)", csv.as_bytes()), ("WITH (FORMAT binary)", &binary)] {
        alto.batch_execute("DELETE FROM t").await?;
        assert_eq!(copy_in(&alto, &format!("COPY t FROM STDIN {options}"), data.to_vec()).await?, "3", "{options}");
        assert_eq!(String::from_utf8(copy_out(&alto, "COPY t TO STDOUT").await?)?, text, "{options}");
    }
    let other =
        "COPY (SELECT k, s FROM t ORDER BY k DESC) TO STDOUT CSV DELIMITER ';' NULL '-' QUOTE '''' FORCE QUOTE s";
    assert_eq!(String::from_utf8(copy_out(&alto, other).await?)?, "3;''\n2;-\n1;'a\tb\\c\nd'\n");
    Ok(())
}

#[tokio::test]
async fn what_is_no_row_is_refused_with_its_line() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = define(&harness).await?;
    alto.batch_execute("INSERT INTO t (k) VALUES (7)").await?;
    let text = "COPY t (k, s, f) FROM STDIN";
    let csv = "COPY t (k, s, f) FROM STDIN (FORMAT csv, FORCE_NULL (s), FORCE_NOT_NULL (f))";
    for (sql, data, expected) in [
        (text, "1\ta\t2\n2\tb\n", "22P04 missing data for column \"f\" [COPY t, line 2: \"2\tb\"]"),
        (text, "1\ta\t2\t3\n", "22P04 extra data after last expected column [COPY t, line 1: \"1\ta\t2\t3\"]"),
        (
            text,
            "1\ta\tx\n",
            "22P02 invalid input syntax for type double precision: \"x\" [COPY t, line 1, column f: \"x\"]",
        ),
        (
            text,
            "\\N\ta\t1\n",
            "23502 null value in column \"k\" of relation \"t\" violates not-null constraint [COPY t, line 1: \"\\N\ta\t1\"]",
        ),
        (
            text,
            "1\ta\t2\n7\tb\t2\n",
            "23505 duplicate key value violates unique constraint \"t_pkey\" [COPY t, line 2]",
        ),
        (
            text,
            "1\ta\t2\n1\tb\t2\n",
            "23505 duplicate key value violates unique constraint \"t_pkey\" [COPY t, line 2]",
        ),
        (text, "1\ta\t2\r\n2\tb\t2\n", "22P04 literal newline found in data [COPY t, line 2]"),
        (
            text,
            "99999999999999999999\ta\t2\n",
            "22003 value \"99999999999999999999\" is out of range for type bigint [COPY t, line 1, column k: \"99999999999999999999\"]",
        ),
        (csv, "1,\"a\n,2", "22P04 unterminated CSV quoted field [COPY t, line 2: \"1,\"a\n,2\"]"),
        (
            csv,
            "1,\"\",\n",
            "22P02 invalid input syntax for type double precision: \"\" [COPY t, line 1, column f: \"\"]",
        ),
        (
            "COPY t (k) FROM STDIN (FORMAT csv, HEADER match)",
            "x\n",
            "22P04 column name mismatch in header line field 1: got \"x\", expected \"k\" [COPY t, line 1: \"x\"]",
        ),
        ("COPY t (k) FROM STDIN BINARY", "1\n", "22P04 COPY file signature not recognized [COPY t, line 0]"),
    ] {
        assert_eq!(copy_in(&alto, sql, data).await?, expected, "{sql} {data:?}");
    }
    assert_eq!(
        copy_in(&alto, text, &b"1\t\xff\t2\n"[..]).await?,
        "22021 invalid byte sequence for encoding \"UTF8\": 0xff [COPY t, line 1, column s: \"\u{fffd}\"]"
    );
    // What is wrong with the statement is told before any data are asked for.
    for (sql, expected) in [
        ("COPY t (k, nope) FROM STDIN", "42703 column \"nope\" of relation \"t\" does not exist"),
        ("COPY nope FROM STDIN", "42P01 relation \"nope\" does not exist"),
        ("COPY t FROM STDIN (FORMAT csv, QUOTE 'ab')", "0A000 COPY quote must be a single one-byte character"),
        ("COPY t FROM STDIN (FORMAT csv, FORCE_QUOTE *)", "0A000 COPY force quote only available using COPY TO"),
        ("COPY t FROM STDIN (NULL 'a', NULL 'b')", "42601 conflicting or redundant options"),
    ] {
        assert_eq!(error(&alto, sql).await, expected);
    }
    assert_eq!(rows(&alto, "SELECT k FROM t").await?, ["7"], "a refused load has stored nothing");
    Ok(())
}

/// Lines of rows with keys from a number on.
fn lines(from: u64, count: u64) -> Bytes {
    (from..from + count)
        .map(|k| format!("{k}\tvalue of {k}\t1\t\\\\x00\t1.5\t1\tinfinity\n"))
        .collect::<String>()
        .into()
}

#[tokio::test]
async fn a_load_over_the_bound_of_a_commit_is_whole_or_nothing() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = define(&harness).await?;
    let operator = harness.operator().await?;
    let sql = "COPY t FROM STDIN";
    let mixed = |from: u64| [lines(from + MANY / 2, MANY / 2), lines(from, MANY / 2)].concat();
    assert_eq!(copy_in(&alto, sql, mixed(0)).await?, MANY.to_string());
    assert_eq!(rows(&alto, "SELECT count(*), min(s), max(k) FROM t").await?, ["20000|value of 0|19999"]);
    assert_eq!(rows(&alto, "SELECT s, n, f FROM t WHERE k IN (3, 10000)").await?.len(), 2);
    // Rows that are there, and twice in the data; they are found wherever they are, and nothing is stored.
    alto.batch_execute("DELETE FROM t WHERE k < 19999").await?;
    let there = "23505 duplicate key value violates unique constraint \"t_pkey\"";
    assert_eq!(copy_in(&alto, sql, lines(0, MANY)).await?, format!("{there} [COPY t, line 20000]"));
    let twice = [lines(0, MANY - 1), lines(17, 1)].concat();
    assert_eq!(copy_in(&alto, sql, twice).await?, format!("{there} [COPY t, line 20000]"));
    for (line, expected) in [
        (
            "x\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n",
            "22P02 invalid input syntax for type bigint: \"x\" [COPY t, line 15001, column k: \"x\"]",
        ),
        (
            "50000\t\\N\t7\t\\N\t\\N\t\\N\t\\N\n",
            "23514 new row for relation \"t\" violates check constraint \"t_f_check\" [COPY t, line 15001]",
        ),
    ] {
        let data = [&lines(0, 15_000)[..], line.as_bytes(), &lines(15_000, 1_000)].concat();
        assert_eq!(copy_in(&alto, sql, data).await?, expected);
    }
    assert_eq!(rows(&alto, "SELECT count(*), min(k) FROM t").await?, ["1|19999"], "a refused load has stored nothing");
    assert_eq!(copy_in(&alto, sql, lines(0, MANY - 1)).await?, (MANY - 1).to_string());
    assert_eq!(rows(&alto, "SELECT count(*) FROM t").await?, [MANY.to_string()]);
    // The operator's rows are those of several tenants.
    let altostrat = harness.tenant("altostrat").await?;
    let of = |tenant: &str, from: u64| {
        let rows = (from..from + MANY / 2).map(|k| format!("{tenant}\t{k}\tvalue of {k}\n"));
        rows.collect::<String>()
    };
    let sql = "COPY t (tenant, k, s) FROM STDIN";
    let nobody = [of("altostrat", 0), of("alto", 50_000), "nobody\t1\tx\n".to_owned()].concat();
    assert_eq!(
        copy_in(&operator, sql, nobody).await?,
        "23503 insert on table \"t\" violates foreign key constraint \"t_tenant_fkey\" [COPY t, line 20001]"
    );
    assert_eq!(copy_in(&operator, sql, [of("altostrat", 0), of("alto", 50_000)].concat()).await?, MANY.to_string());
    assert_eq!(rows(&altostrat, "SELECT count(*), max(k) FROM t").await?, ["10000|9999"]);
    assert_eq!(rows(&alto, "SELECT count(*), max(k) FROM t").await?, ["30000|59999"]);
    Ok(())
}

/// A change that asks something of the rows misses none that a load brings meanwhile.
#[tokio::test]
async fn a_load_counts_for_who_changes_a_private_table_by_its_rows() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute(&TABLE.replace(" CHECK (f <> 7)", "")).await?;
    let other = harness.connect("alto", "alto").await?;
    alto.batch_execute("BEGIN; ALTER TABLE t ADD CHECK (f <> 1)").await?;
    assert_eq!(copy_in(&other, "COPY t FROM STDIN", lines(0, MANY)).await?, MANY.to_string());
    let refused = error(&alto, "COMMIT").await;
    assert!(refused.starts_with("40001 "), "{refused}");
    assert_eq!(rows(&other, "SELECT count(*), min(f) FROM t").await?, ["20000|1"]);
    let refused = error(&alto, "ALTER TABLE t ADD CHECK (f <> 1)").await;
    assert!(refused.starts_with("23514 "), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_load_of_a_table_with_history_is_stored_in_parts_or_not_at_all_in_a_transaction() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = define(&harness).await?;
    harness.operator().await?.batch_execute("ALTER TABLE t SET (history = '1 day')").await?;
    let sql = "COPY t FROM STDIN";
    assert_eq!(copy_in(&alto, sql, lines(0, MANY)).await?, MANY.to_string());
    assert_eq!(rows(&alto, "SELECT count(*), min(s), max(k) FROM t").await?, ["20000|value of 0|19999"]);
    // The second part meets a row that is there.
    alto.batch_execute("DELETE FROM t WHERE k < 19999").await?;
    let refused = copy_in(&alto, sql, lines(0, MANY)).await?;
    assert_eq!(refused, "23505 duplicate key value violates unique constraint \"t_pkey\" [COPY t, line 20000]");
    let stored: u64 = rows(&alto, "SELECT count(*) - 1 FROM t").await?[0].parse()?;
    assert!(stored > 0 && stored < MANY, "{stored} rows of the first part");
    alto.batch_execute("BEGIN").await?;
    let refused = copy_in(&alto, sql, lines(100_000, MANY)).await?;
    assert!(refused.starts_with("54000 "), "{refused}");
    alto.batch_execute("ROLLBACK").await?;
    assert_eq!(rows(&alto, "SELECT count(*) FROM t WHERE k >= 100000").await?, ["0"]);
    alto.batch_execute("BEGIN").await?;
    assert_eq!(copy_in(&alto, sql, lines(100_000, 2)).await?, "2");
    assert_eq!(rows(&alto, "SELECT count(*) FROM t WHERE k >= 100000").await?, ["2"]);
    assert_eq!(rows(&harness.connect("alto", "alto").await?, "SELECT count(*) FROM t WHERE k >= 100000").await?, ["0"]);
    alto.batch_execute("COMMIT").await?;
    assert_eq!(rows(&harness.connect("alto", "alto").await?, "SELECT count(*) FROM t WHERE k >= 100000").await?, ["2"]);
    Ok(())
}

#[tokio::test]
async fn a_tenant_copies_its_own_rows_and_the_operator_names_the_tenant() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = define(&harness).await?;
    harness.tenant("altostrat").await?;
    let operator = harness.operator().await?;
    let sql = "COPY t (tenant, k) FROM STDIN";
    assert_eq!(copy_in(&operator, sql, "altostrat\t1\nalto\t2\n").await?, "2");
    assert_eq!(copy_out(&alto, "COPY t (k) TO STDOUT").await?, b"2\n");
    let refused = copy_in(&operator, sql, "alto\t3\nnobody\t1\n").await?;
    assert_eq!(
        refused,
        "23503 insert on table \"t\" violates foreign key constraint \"t_tenant_fkey\" [COPY t, line 2]"
    );
    assert_eq!(copy_out(&operator, "COPY t (tenant, k) TO STDOUT CSV").await?, b"alto,2\naltostrat,1\n");
    Ok(())
}

#[tokio::test]
async fn the_protocol_goes_on_after_a_copy_that_failed() -> Result<()> {
    let harness = Harness::start().await?;
    define(&harness).await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?;
    let query = |sql: &str| format!("{sql}\0").into_bytes();
    // What comes behind the error is passed over without an answer.
    raw.message(b'Q', &query("COPY t (k) FROM STDIN")).await?;
    for (kind, body) in [(b'd', &b"x\n"[..]), (b'd', b"1\n"), (b'c', b"")] {
        raw.message(kind, body).await?;
    }
    assert_eq!(raw.replies().await?, "G[22P02]Z");
    raw.message(b'Q', &query("SELECT count(*) FROM t")).await?;
    assert_eq!(raw.replies().await?, "TDCZ");
    raw.message(b'Q', &query("COPY t (k) FROM STDIN; SELECT 1")).await?;
    raw.message(b'd', b"1").await?;
    raw.message(b'H', b"").await?;
    raw.message(b'd', b"2\n").await?;
    raw.message(b'c', b"").await?;
    assert_eq!(raw.replies().await?, "GCTDCZ");
    raw.message(b'Q', &query("COPY t (k) TO STDOUT; COPY t (k) FROM STDIN")).await?;
    raw.message(b'f', b"changed my mind\0").await?;
    assert_eq!(raw.replies().await?, "HdcCG[57014]Z");
    raw.message(b'Q', &query("COPY t (k) FROM STDIN")).await?;
    raw.message(b'Q', &query("SELECT 1")).await?;
    assert_eq!(raw.replies().await?, "G[08P01]Z");
    // Extended: the Sync that was sent ahead is passed over, as are data behind an error up to the next one.
    raw.message(b'P', b"\0COPY t (k) FROM STDIN\0\0\0").await?;
    raw.message(b'B', b"\0\0\0\0\0\0\0\0").await?;
    raw.message(b'D', b"P\0").await?;
    raw.message(b'E', b"\0\0\0\0\0").await?;
    raw.message(b'S', b"").await?;
    raw.message(b'd', b"13\n").await?;
    raw.message(b'c', b"").await?;
    raw.message(b'S', b"").await?;
    assert_eq!(raw.replies().await?, "12nGCZ");
    Ok(())
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_leaves_nothing() -> Result<()> {
    let harness =
        Harness::start_with(|options| (options.connections_max, options.connections_reserved) = (2, 0)).await?;
    let alto = define(&harness).await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?;
    raw.message(b'Q', b"COPY t (k) FROM STDIN\0").await?;
    assert_eq!(raw.next().await?.context("the answer")?.0, b'G');
    raw.message(b'd', b"1\n2\n").await?;
    drop(raw);
    // Its place is given back when its end was seen: the statement is over then.
    let other = loop {
        match harness.connect("alto", "alto").await {
            Ok(client) => break client,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(rows(&other, "SELECT count(*) FROM t").await?, ["0"]);
    drop(alto);
    Ok(())
}

#[tokio::test]
async fn a_cancel_request_and_a_timeout_stop_a_wait_for_data() -> Result<()> {
    let harness = Harness::start().await?;
    define(&harness).await?;
    let (mut raw, key) = Raw::log_in(harness.address(), "alto", PASSWORD, "alto").await?;
    raw.message(b'Q', b"COPY t (k) FROM STDIN\0").await?;
    assert_eq!(raw.next().await?.context("the answer")?.0, b'G');
    raw.message(b'd', b"1\n").await?;
    Raw::connect(harness.address()).await?.startup(80_877_102, &key).await?;
    assert_eq!(raw.replies().await?, "[57014]Z");
    raw.message(b'Q', b"SET statement_timeout = '20ms'; COPY t (k) FROM STDIN\0").await?;
    assert_eq!(raw.replies().await?, "CG[57014]Z");
    raw.message(b'd', b"1\n").await?;
    raw.message(b'c', b"").await?;
    raw.message(b'Q', b"SET statement_timeout = 0; SELECT count(*) FROM t WHERE k > 0\0").await?;
    assert_eq!(raw.replies().await?, "CTDCZ");
    Ok(())
}

/// Data in pieces of one byte are the same rows.
#[tokio::test]
async fn pieces_of_data_are_put_together() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    harness.tenant("alto").await?;
    operator.batch_execute("CREATE TABLE p (k text PRIMARY KEY, v text)").await?;
    let (mut raw, _) = Raw::log_in(harness.address(), "keyspan", OPERATOR_PASSWORD, "keyspan").await?;
    raw.message(b'Q', b"COPY p FROM STDIN CSV\0").await?;
    let mut pieces = BytesMut::new();
    for byte in "alto,a,\"x\ny\"\"z\"\r\nalto,b,\\.\r\n".bytes() {
        pieces.extend_from_slice(&[b'd', 0, 0, 0, 5, byte]);
    }
    raw.send(&pieces).await?;
    raw.message(b'c', b"").await?;
    assert_eq!(raw.replies().await?, "GCZ");
    assert_eq!(rows(&operator, "SELECT k, v FROM p").await?, ["a|x\ny\"z", "b|\\."]);
    Ok(())
}
