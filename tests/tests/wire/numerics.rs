//! Numerics of any number of digits: there and back in binary, and random expressions beside PostgreSQL.
//!
//! What is compared with PostgreSQL is text, digit by digit. Where `KEYSPAN_TESTS_POSTGRES` names no server, as
//! `tests/record` does, that test says so and ends. `KEYSPAN_NUMERICS` says how many expressions, by
//! `KEYSPAN_NUMERICS_SEED`.

use super::{
    beside_postgres::{Words, compare},
    harness::Harness,
};
use anyhow::{Result, ensure};
use bytes::{BufMut, BytesMut};
use std::fmt::Write;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// The bytes of a numeric as drivers send them.
#[derive(Debug, PartialEq, Eq)]
struct Binary(Vec<u8>);

impl ToSql for Binary {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }
    fn accepts(kind: &Type) -> bool {
        *kind == Type::NUMERIC
    }
    to_sql_checked!();
}

impl FromSql<'_> for Binary {
    fn from_sql(_: &Type, bytes: &[u8]) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(bytes.to_vec()))
    }
    fn accepts(kind: &Type) -> bool {
        *kind == Type::NUMERIC
    }
}

/// Groups of four digits with their number, weight, sign and scale.
fn binary(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> Binary {
    let mut out = BytesMut::new();
    out.put_u16(u16::try_from(groups.len()).expect("a few groups"));
    out.put_i16(weight);
    out.put_u16(sign);
    out.put_u16(scale);
    groups.iter().for_each(|group| out.put_u16(*group));
    Binary(out.to_vec())
}

#[tokio::test]
async fn every_digit_goes_there_and_back() -> Result<()> {
    let harness = Harness::start().await?;
    let client = harness.tenant("alto").await?;
    client.batch_execute("CREATE TABLE n (id int PRIMARY KEY, v numeric, w numeric(100,20))").await?;
    let long = vec![9_999_u16; 500];
    let values = [
        (binary(0, 0, 2, &[1, 1000]), "1.10"),
        (binary(0, 0x4000, 4, &[1, 1000]), "-1.1000"),
        (binary(0, 0, 3, &[]), "0.000"),
        (binary(0, 0xC000, 0, &[]), "NaN"),
        (binary(0, 0xD000, 0, &[]), "Infinity"),
        (binary(0, 0xF000, 0, &[]), "-Infinity"),
        (binary(249, 0, 1000, &long), &*format!("{}.{}", "9".repeat(1000), "9".repeat(1000))),
    ];
    for (id, (value, text)) in (0_i32..).zip(&values) {
        client.execute("INSERT INTO n (id, v) VALUES ($1, $2)", &[&id, value]).await?;
        let row = client.query_one("SELECT v, v::text, $2::numeric FROM n WHERE id = $1", &[&id, value]).await?;
        ensure!(row.get::<_, Binary>(0) == *value, "the stored form of {text}");
        ensure!(row.get::<_, &str>(1) == *text, "{} for {text}", row.get::<_, &str>(1));
        ensure!(row.get::<_, Binary>(2) == *value, "the form of a parameter of {text}");
        let found = client.query("SELECT id FROM n WHERE v = $1", &[value]).await?;
        ensure!(found.iter().any(|row| row.get::<_, i32>(0) == id), "{text} equals itself");
    }
    // Equal, whatever digits they show.
    let equal = client.query("SELECT id FROM n WHERE v = $1", &[&binary(0, 0, 1, &[1, 1000])]).await?;
    ensure!(equal.len() == 1, "1.1 equals 1.10 alone");
    client.execute("UPDATE n SET w = $1 WHERE id = 0", &[&values[0].0]).await?;
    let text: String = client.query_one("SELECT w::text FROM n WHERE id = 0", &[]).await?.get(0);
    ensure!(text == format!("1.1{}", "0".repeat(19)), "{text} has the digits of its type");
    let refused = client.execute("UPDATE n SET w = $1", &[&values[6].0]).await;
    let state = refused.err().and_then(|error| error.code().map(|code| code.code().to_owned()));
    ensure!(state.as_deref() == Some("22003"), "{state:?} for too many digits");
    Ok(())
}

impl Words {
    /// A number, as a literal or cast.
    fn number(&mut self) -> String {
        if self.below(20) == 0 {
            return self.one(&["'NaN'::numeric", "'Infinity'::numeric", "'-Infinity'::numeric"]).to_owned();
        }
        let (whole, fraction) = (self.one(&[1, 1, 2, 3, 5, 8, 20, 45, 80]), self.one(&[0, 0, 1, 2, 5, 10, 40]));
        let sign = self.one(&["", "", "-"]);
        let mut number = format!("{sign}{}", self.digits(whole));
        if fraction > 0 {
            let _ = write!(number, ".{}", self.digits(fraction));
        }
        match self.below(3) {
            0 => format!("({number})"),
            1 => format!("'{number}'::numeric"),
            _ => format!("({number})::numeric"),
        }
    }

    /// A number of a few digits.
    fn small(&mut self) -> String {
        let (whole, fraction) = (self.below(7), self.digits(2));
        format!("({}{whole}.{fraction})::numeric", self.one(&["", "-"]))
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth > 2 {
            return self.number();
        }
        let one = self.expression(depth + 1);
        match self.below(22) {
            0..=3 => one,
            4..=8 => format!("({one} {} {})", self.one(&["+", "-", "*", "/", "%"]), self.expression(depth + 1)),
            9 => format!("(- {one})"),
            10 => format!("{}(({one})::numeric)", self.one(&["abs", "ceil", "floor", "sign"])),
            11 => format!("{}(({one})::numeric, {})", self.one(&["round", "trunc"]), self.below(30)),
            12 => format!("sqrt(abs({one})::numeric)"),
            13 => format!("exp({})", self.small()),
            14 => format!("ln(abs({one})::numeric)"),
            15 => format!("log(abs({})::numeric, abs({})::numeric)", self.number(), self.number()),
            16 => format!("power({}, {})", self.small(), self.small()),
            17 => format!("{}(({one})::numeric, {})", self.one(&["div", "mod"]), self.number()),
            18 => format!("CASE WHEN {one} > {} THEN {} ELSE {} END", self.number(), self.number(), self.number()),
            19 => format!("{}({one}, {})", self.one(&["coalesce", "greatest", "least"]), self.number()),
            20 => format!("({one})::numeric({}, {})", self.one(&[39, 60, 100]), self.one(&[0, 2, 5])),
            _ => format!("trim_scale(({one})::numeric)"),
        }
    }

    fn query(&mut self) -> String {
        match self.below(8) {
            0 => {
                let count = 1 + self.below(5);
                let rows: Vec<String> = (0..count).map(|_| format!("({})", self.number())).collect();
                format!(
                    "SELECT sum(x), avg(x), stddev(x), var_pop(x), min(x), max(x), count(DISTINCT x) \
                     FROM (SELECT x::numeric FROM (VALUES {}) v(x)) t",
                    rows.join(", ")
                )
            }
            1 => format!("SELECT {} {} {}", self.expression(1), self.one(&["=", "<", ">=", "<>"]), self.expression(1)),
            _ => format!("SELECT {}", self.expression(0)),
        }
    }
}

#[tokio::test]
async fn random_expressions_are_as_in_postgres() -> Result<()> {
    compare("NUMERICS", Words::query).await
}
