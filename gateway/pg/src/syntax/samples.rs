//! `TABLESAMPLE` as a condition: each row is taken with the probability that the percentage says, by `BERNOULLI` and
//! `SYSTEM` alike. With `REPEATABLE` a row's values and the seed decide, so that equal rows are taken together.

use super::build::parsed_query;
use crate::{
    error::{Result, SqlError, SqlState},
    plan::whole_rows::{ROW_SHARE, SAMPLED},
};
use datafusion::sql::sqlparser::ast::{
    TableAlias, TableFactor, TableSampleKind, TableSampleMethod, TableSampleModifier,
};

/// Rewrites a relation.
///
/// # Errors
/// 42704 for another method, 0A000 for other forms of the clause.
pub(super) fn rewrite(factor: &mut TableFactor) -> Result<()> {
    let TableFactor::Table { name, alias, args: None, sample, .. } = factor else { return Ok(()) };
    let Some(TableSampleKind::BeforeTableAlias(kind) | TableSampleKind::AfterTableAlias(kind)) = sample.take() else {
        return Ok(());
    };
    let unsupported = || SqlError::unsupported("this TABLESAMPLE");
    match kind.name {
        Some(TableSampleMethod::Bernoulli | TableSampleMethod::System) => {}
        Some(other) => {
            let message = format!("tablesample method {} does not exist", other.to_string().to_lowercase());
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
        None => return Err(unsupported()),
    }
    let quantity = kind.quantity.filter(|quantity| quantity.unit.is_none()).ok_or_else(unsupported)?;
    if kind.bucket.is_some() || kind.offset.is_some() || !matches!(kind.modifier, TableSampleModifier::TableSample) {
        return Err(unsupported());
    }
    let share = match kind.seed {
        None => "random()".to_owned(),
        Some(seed) => format!("{ROW_SHARE}({}::double precision)", seed.value),
    };
    let alias = match (alias.take(), name.0.last().and_then(|part| part.as_ident())) {
        (Some(alias), _) => alias,
        (None, Some(name)) => TableAlias { explicit: true, name: name.clone(), columns: Vec::new(), at: None },
        (None, None) => return Err(unsupported()),
    };
    let part = quantity.value;
    let subquery = parsed_query(&format!("SELECT * FROM {name} WHERE {SAMPLED}(({part})::double precision, {share})"))?;
    *factor = TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None };
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{syntax::rewrite::EXPAND, testing::parse};
    use expect_test::{Expect, expect};

    fn check(sql: &str, expected: Expect) {
        let mut statement = parse(sql);
        let outcome = EXPAND.run(&mut statement);
        expected.assert_eq(&outcome.map_or_else(|error| error.message, |()| statement.to_string()));
    }

    #[test]
    fn samples_are_conditions() {
        check(
            "SELECT a FROM t TABLESAMPLE BERNOULLI (10)",
            expect!["SELECT a FROM (SELECT * FROM t WHERE keyspan_sampled((10)::DOUBLE PRECISION, random())) AS t"],
        );
        check(
            "SELECT a FROM s.t AS u TABLESAMPLE SYSTEM (0.5) REPEATABLE (7)",
            expect![
                "SELECT a FROM (SELECT * FROM s.t WHERE keyspan_sampled((0.5)::DOUBLE PRECISION, keyspan_row_share(7::DOUBLE PRECISION))) AS u"
            ],
        );
    }
}
