//! The eight tables of TPC-H, their rows, and its statements. Rows come from the crate tpchgen, which makes what the
//! council's own generator makes.

use crate::copied::{copy, pieces};
use anyhow::{Context, Result, ensure};
use std::fmt::{Display, Write as _};
use tokio_postgres::Client;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

/// A table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns and its primary key, as `CREATE TABLE` takes them.
    columns: &'static str,
    lines: fn(f64) -> Lines,
}

/// Rows with `|` behind each value, without the line's end.
type Lines = Box<dyn Iterator<Item = String> + Send>;

/// All tables, in the order in which they refer to each other.
pub static TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: "r_regionkey int, r_name text, r_comment text, PRIMARY KEY (r_regionkey)",
        lines: |scale| lines(RegionGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "nation",
        columns: "n_nationkey int, n_name text, n_regionkey int, n_comment text, PRIMARY KEY (n_nationkey)",
        lines: |scale| lines(NationGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "part",
        columns: "p_partkey bigint, p_name text, p_mfgr text, p_brand text, p_type text, p_size int, \
                  p_container text, p_retailprice numeric(15, 2), p_comment text, PRIMARY KEY (p_partkey)",
        lines: |scale| lines(PartGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "supplier",
        columns: "s_suppkey bigint, s_name text, s_address text, s_nationkey int, s_phone text, \
                  s_acctbal numeric(15, 2), s_comment text, PRIMARY KEY (s_suppkey)",
        lines: |scale| lines(SupplierGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "partsupp",
        columns: "ps_partkey bigint, ps_suppkey bigint, ps_availqty int, ps_supplycost numeric(15, 2), \
                  ps_comment text, PRIMARY KEY (ps_partkey, ps_suppkey)",
        lines: |scale| lines(PartSuppGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "customer",
        columns: "c_custkey bigint, c_name text, c_address text, c_nationkey int, c_phone text, \
                  c_acctbal numeric(15, 2), c_mktsegment text, c_comment text, PRIMARY KEY (c_custkey)",
        lines: |scale| lines(CustomerGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "orders",
        columns: "o_orderkey bigint, o_custkey bigint, o_orderstatus text, o_totalprice numeric(15, 2), \
                  o_orderdate date, o_orderpriority text, o_clerk text, o_shippriority int, o_comment text, \
                  PRIMARY KEY (o_orderkey)",
        lines: |scale| lines(OrderGenerator::new(scale, 1, 1).iter()),
    },
    Table {
        name: "lineitem",
        columns: "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, \
                  l_quantity numeric(15, 2), l_extendedprice numeric(15, 2), l_discount numeric(15, 2), \
                  l_tax numeric(15, 2), l_returnflag text, l_linestatus text, l_shipdate date, l_commitdate date, \
                  l_receiptdate date, l_shipinstruct text, l_shipmode text, l_comment text, \
                  PRIMARY KEY (l_orderkey, l_linenumber)",
        lines: |scale| lines(LineItemGenerator::new(scale, 1, 1).iter()),
    },
];

fn lines<R: Display + 'static>(rows: impl Iterator<Item = R> + Send + 'static) -> Lines {
    Box::new(rows.map(|row| row.to_string()))
}

impl Table {
    /// The statement that makes it.
    #[must_use]
    pub fn definition(&self) -> String {
        format!("CREATE TABLE {} ({})", self.name, self.columns)
    }

    /// Copies its rows of a scale into the database of a client; returns their number and the seconds.
    ///
    /// # Errors
    /// If the server fails, or has copied another number of rows.
    pub async fn copy(&self, client: &Client, scale: f64) -> Result<(u64, f64)> {
        let rows = (self.lines)(scale).count() as u64;
        let mut lines = (self.lines)(scale);
        let pieces = pieces(rows, |_, piece| {
            // Writing to a String does not fail; the number of rows is compared.
            let line = lines.next().unwrap_or_default();
            let _ = writeln!(piece, "{}", line.strip_suffix('|').unwrap_or(&line));
        });
        let statement = format!("COPY {} FROM STDIN (DELIMITER '|')", self.name);
        let seconds = copy(client, &statement, rows, pieces).await.with_context(|| self.name)?;
        Ok((rows, seconds))
    }
}

/// A statement of TPC-H.
#[derive(Clone, Debug)]
pub struct Statement {
    /// `Q1` to `Q22`.
    pub name: String,
    /// The statement, without a semicolon.
    pub sql: String,
}

/// The statements for a scale, in order.
///
/// # Errors
/// If the file of them is not as its head says, which is a bug.
pub fn statements(scale: f64) -> Result<Vec<Statement>> {
    let fraction = format!("{:.10}", 0.0001 / scale);
    let mut statements = Vec::new();
    for part in include_str!("statements.sql").split("\n-- Q").skip(1) {
        let (head, sql) = part.split_once('\n').context("a head")?;
        let (number, _) = head.split_once(':').context("a number")?;
        let sql = sql.trim().trim_end_matches(';').replace("{fraction}", &fraction);
        statements.push(Statement { name: format!("Q{number}"), sql });
    }
    ensure!(statements.len() == 22, "there are {} statements", statements.len());
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_rows_are_those_of_the_benchmark() {
        let statements = statements(0.1).unwrap();
        assert_eq!((statements[0].name.as_str(), statements[21].name.as_str()), ("Q1", "Q22"));
        assert!(statements[10].sql.contains("* 0.0010000000"), "{}", statements[10].sql);
        assert!(statements.iter().all(|statement| !statement.sql.contains([';', '{'])));
        let regions: Vec<String> = (TABLES[0].lines)(1.0).collect();
        assert_eq!(regions.len(), 5);
        assert!(regions[0].starts_with("0|AFRICA|") && regions[0].ends_with('|'), "{}", regions[0]);
    }
}
