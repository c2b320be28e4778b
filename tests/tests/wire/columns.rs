//! Columns of `time`, `interval` and arrays: through a driver in binary, by COPY in every format, and from segments.

use super::{
    copy::{copy_in, copy_out},
    harness::{Harness, error, rows},
};
use anyhow::Result;
use arrow::{array::AsArray, util::display::array_value_to_string};
use bytes::{BufMut, BytesMut};
use chrono::{DateTime, NaiveDate, NaiveTime, Utc};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::error::Error;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

const TABLE: &str = "CREATE TABLE c (k int PRIMARY KEY, t time, i interval, a int[], s text[], z timestamptz[], u uuid[], b bool[], \
                     f double precision[], y bytea[], d date[], ts time[], n numeric(6,2)[], j jsonb[], v varchar(5)[], iv interval[])";

/// An interval as PostgreSQL sends it: microseconds, days, months.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span(i64, i32, i32);

impl FromSql<'_> for Span {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let (micros, rest) = raw.split_first_chunk().ok_or("short")?;
        let (days, months) = rest.split_first_chunk().ok_or("short")?;
        Ok(Self(i64::from_be_bytes(*micros), i32::from_be_bytes(*days), i32::from_be_bytes(months.try_into()?)))
    }
    accepts!(INTERVAL);
}

impl ToSql for Span {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_i64(self.0);
        out.put_i32(self.1);
        out.put_i32(self.2);
        Ok(IsNull::No)
    }
    accepts!(INTERVAL);
    to_sql_checked!();
}

#[tokio::test]
async fn values_go_through_a_driver_in_binary() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute(TABLE).await?;
    let time = NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999);
    let moment: DateTime<Utc> = "2026-11-01T12:00:00.5Z".parse()?;
    let (spans, ints) = (vec![Some(Span(-1, 2, -3)), None], vec![Some(1), None, Some(-3)]);
    let texts = vec![Some("a b"), None, Some(""), Some("NULL"), Some("x\"y\\z{}")];
    let (moments, uuids) = (vec![moment], vec![Some(Uuid::from_u128(7)), None]);
    let (bools, floats) = (vec![true, false], vec![Some(1.5_f64), None]);
    let (bytes, dates) = (vec![vec![0_u8, 255], Vec::new()], vec![NaiveDate::from_ymd_opt(2020, 2, 29)]);
    let statement = alto
        .prepare(
            "INSERT INTO c (k, t, i, a, s, z, u, b, f, y, d, ts, iv) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        )
        .await?;
    let params: [&(dyn ToSql + Sync); 13] = [
        &1,
        &time,
        &Span(3_600_000_000, -1, 14),
        &ints,
        &texts,
        &moments,
        &uuids,
        &bools,
        &floats,
        &bytes,
        &dates,
        &vec![time],
        &spans,
    ];
    assert_eq!(alto.execute(&statement, &params).await?, 1);
    let none = None::<NaiveTime>;
    let nothing: Vec<i32> = Vec::new();
    let params: [&(dyn ToSql + Sync); 13] = [
        &2,
        &none,
        &None::<Span>,
        &nothing,
        &None::<Vec<String>>,
        &None::<Vec<DateTime<Utc>>>,
        &None::<Vec<Uuid>>,
        &None::<Vec<bool>>,
        &None::<Vec<f64>>,
        &None::<Vec<Vec<u8>>>,
        &None::<Vec<NaiveDate>>,
        &None::<Vec<NaiveTime>>,
        &None::<Vec<Span>>,
    ];
    assert_eq!(alto.execute(&statement, &params).await?, 1);

    let found = alto.query("SELECT t, i, a, s, z, u, b, f, y, d, ts, iv FROM c ORDER BY k", &[]).await?;
    let row = &found[0];
    assert_eq!(row.get::<_, Option<NaiveTime>>(0), time);
    assert_eq!(row.get::<_, Span>(1), Span(3_600_000_000, -1, 14));
    assert_eq!(row.get::<_, Vec<Option<i32>>>(2), ints);
    assert_eq!(row.get::<_, Vec<Option<&str>>>(3), texts);
    assert_eq!(row.get::<_, Vec<DateTime<Utc>>>(4), moments);
    assert_eq!(row.get::<_, Vec<Option<Uuid>>>(5), uuids);
    assert_eq!(row.get::<_, Vec<bool>>(6), bools);
    assert_eq!(row.get::<_, Vec<Option<f64>>>(7), floats);
    assert_eq!(row.get::<_, Vec<Vec<u8>>>(8), bytes);
    assert_eq!(row.get::<_, Vec<Option<NaiveDate>>>(9), dates);
    assert_eq!(row.get::<_, Vec<Option<NaiveTime>>>(10), vec![time]);
    assert_eq!(row.get::<_, Vec<Option<Span>>>(11), spans);
    assert_eq!(found[1].get::<_, Option<NaiveTime>>(0), None);
    assert_eq!(found[1].get::<_, Vec<i32>>(2), nothing);
    assert_eq!(found[1].get::<_, Option<Vec<String>>>(3), None);

    // By the whole key, which is read without a plan, and by conditions on the values.
    let by_key = alto.query_one("SELECT t, i, a FROM c WHERE k = $1", &[&1]).await?;
    assert_eq!(by_key.get::<_, Vec<Option<i32>>>(2), ints);
    assert_eq!(by_key.get::<_, Span>(1), Span(3_600_000_000, -1, 14));
    for (condition, value) in [
        ("t = $1", &time as &(dyn ToSql + Sync)),
        ("i = $1", &Span(3_600_000_000, -1, 14)),
        ("a = $1", &ints),
        ("s = $1", &texts),
        ("a && $1", &vec![1]),
        ("a @> $1", &vec![-3, 1]),
    ] {
        let found = alto.query(&format!("SELECT k FROM c WHERE {condition}"), &[value]).await?;
        assert_eq!(found.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1], "{condition}");
    }
    let ids = alto.query("SELECT k FROM c WHERE k = ANY($1) ORDER BY k", &[&vec![1, 2, 9]]).await?;
    assert_eq!(ids.len(), 2);
    Ok(())
}

#[tokio::test]
async fn values_are_copied_in_every_format_and_survive_a_restart() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute(TABLE).await?;
    let text = "1\t24:00:00\t1 mon -1 days +00:00:00.5\t{1,NULL,-3}\t{\"a b\",\"\",NULL,\"NULL\"}\t{\"2026-11-01 12:00:00+00\",infinity}\t\
                {00000000-0000-0000-0000-000000000007}\t{t,f}\t{1.5,NaN}\t{\"\\\\\\\\x00ff\"}\t{2020-02-29}\t{10:00:00}\t{1.20,NULL}\t\
                {\"{\\\\\"a\\\\\": 1}\",\"null\",NULL}\t{abc}\t{\"1 day\"}\n\
                2\t\\N\t\\N\t{}\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\t\\N\n";
    assert_eq!(copy_in(&alto, "COPY c FROM STDIN", text).await?, "2");
    assert_eq!(String::from_utf8(copy_out(&alto, "COPY c TO STDOUT").await?)?, text);
    let csv = copy_out(&alto, "COPY c TO STDOUT (FORMAT csv)").await?;
    let binary = copy_out(&alto, "COPY c TO STDOUT (FORMAT binary)").await?;
    for (format, data) in [("csv", csv), ("binary", binary)] {
        alto.batch_execute("TRUNCATE c").await?;
        assert_eq!(copy_in(&alto, &format!("COPY c FROM STDIN (FORMAT {format})"), data).await?, "2", "{format}");
        assert_eq!(String::from_utf8(copy_out(&alto, "COPY c TO STDOUT").await?)?, text, "{format}");
    }

    alto.batch_execute("COPY c TO 'c.parquet' (FORMAT parquet)").await?;
    let file = std::fs::File::open(harness.copy_folder_of("alto")?.join("c.parquet"))?;
    let batch = ParquetRecordBatchReaderBuilder::try_new(file)?.build()?.next().expect("a batch")?;
    let shown = |name: &str| array_value_to_string(batch.column_by_name(name).expect("a column"), 0);
    assert_eq!(shown("a")?, "[1, , -3]");
    assert_eq!(shown("iv")?, "[1 day]");
    assert_eq!(batch.column_by_name("i").expect("a column").as_string_view().value(0), "1 mon -1 days +00:00:00.5");
    drop(alto);

    let harness = harness.restart().await?;
    let alto = harness.connect("alto", "alto").await?;
    assert_eq!(String::from_utf8(copy_out(&alto, "COPY c TO STDOUT").await?)?, text);
    Ok(())
}

/// More rows than a memtable holds for long: they are read from segments, where such columns are bytes.
#[tokio::test]
async fn values_are_read_from_segments() -> Result<()> {
    let harness = Harness::start().await?;
    let alto = harness.tenant("alto").await?;
    alto.batch_execute("CREATE TABLE s (t time, k int, i interval, a int[], PRIMARY KEY (t, k))").await?;
    let data: String =
        (0..30_000).map(|n| format!("{:02}:00:00\t{n}\t{} days\t{{{n},NULL}}\n", n % 24, n % 7)).collect();
    assert_eq!(copy_in(&alto, "COPY s FROM STDIN", data).await?, "30000");
    let counted = "SELECT count(*), count(t), sum(a[1]), count(DISTINCT i), min(i), max(i) FROM s WHERE t >= '12:00'";
    assert_eq!(rows(&alto, counted).await?, ["15000|15000|225082500|7|00:00:00|6 days"]);
    assert_eq!(
        rows(&alto, "SELECT i, count(*) FROM s WHERE a[1] < 70 GROUP BY i ORDER BY i LIMIT 2").await?,
        ["00:00:00|10", "1 day|10"]
    );
    assert_eq!(rows(&alto, "SELECT k, a FROM s WHERE t = '05:00' ORDER BY k LIMIT 1").await?, ["5|{5,NULL}"]);
    assert_eq!(rows(&alto, "SELECT k FROM s WHERE 77 = ANY(a)").await?, ["77"]);
    assert_eq!(rows(&alto, "SELECT t, i, a FROM s WHERE t = '05:00' AND k = 29").await?, ["05:00:00|1 day|{29,NULL}"]);
    Ok(())
}

/// Tables of the operator, whose cells may be texts or JSON, and what no key can hold.
#[tokio::test]
async fn mapped_tables_hold_them_in_every_encoding() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let alto = harness.tenant("alto").await?;
    for (name, encoding) in [("m1", "binary"), ("m2", "text"), ("m3", "json")] {
        let sql = format!(
            "CREATE TABLE {name} (k time PRIMARY KEY, t time, i interval, a int[], s text[], j jsonb[], FAMILY m (t, i, a, s, j)) \
             WITH (m.encoding = '{encoding}')"
        );
        operator.batch_execute(&sql).await?;
        let values = "('10:00', '24:00', '1 mon', '{1,NULL}', '{\"a b\",NULL,\"\"}', '{\"[1]\",\"null\",NULL}'), ('09:00', NULL, NULL, '{}', NULL, NULL)";
        alto.batch_execute(&format!("INSERT INTO {name} VALUES {values}")).await?;
        assert_eq!(
            rows(&alto, &format!("SELECT * FROM {name} ORDER BY k")).await?,
            ["09:00:00|||{}||", "10:00:00|24:00:00|1 mon|{1,NULL}|{\"a b\",NULL,\"\"}|{[1],\"null\",NULL}"],
            "{encoding}"
        );
        assert_eq!(rows(&alto, &format!("SELECT k FROM {name} WHERE k > '09:30'")).await?, ["10:00:00"]);
    }
    for kind in ["interval", "int[]"] {
        let told = error(&operator, &format!("CREATE TABLE no (k {kind} PRIMARY KEY)")).await;
        assert!(told.starts_with("0A000 column \"k\" cannot be part of the primary key"), "{told}");
    }
    Ok(())
}
