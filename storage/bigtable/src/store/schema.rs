//! Families and rules, as the server has them and as the store shows them.

use super::{GUARD_FAMILY, HIDDEN_GUARD_FAMILY, guard::Place};
use crate::{ApiCell, ApiRow};
use keyspan_bigtable_api::admin::{
    self, ColumnFamily, GcRule as ApiRule, Table, Type,
    gc_rule::{Intersection, Rule, Union},
    r#type::{
        Aggregate as ApiAggregate, Int64, Kind,
        aggregate::{Aggregator, HyperLogLogPlusPlusUniqueCount, Max, Min, Sum},
        int64::{Encoding, encoding},
    },
};
use keyspan_storage::{Aggregate, Error, Family, FamilyName, GcRule, Result, TableSchema, gc::GC_RULE_DEPTH_MAX};
use prost::Message;
use std::{collections::BTreeMap, time::Instant};

/// Bytes of a rule; a server takes no longer ones.
const RULE_BYTES_MAX: usize = 500;

/// What is known of a table.
#[derive(Debug)]
pub(super) struct Known {
    /// The families that are shown.
    pub(super) schema: TableSchema,
    pub(super) guard: Place,
    /// When the server was asked.
    pub(super) learned: Instant,
}

impl Known {
    /// # Errors
    /// [`Error::Unsupported`] for families that no schema can have.
    pub(super) fn new(table: &Table) -> Result<Self> {
        let guard = [(GUARD_FAMILY, Place::Shown), (HIDDEN_GUARD_FAMILY, Place::Hidden)];
        let found = guard.into_iter().find(|(family, _)| table.column_families.contains_key(*family));
        let guard = found.map_or(Place::Nowhere, |(_, place)| place);
        let shown = table.column_families.iter().filter(|(name, _)| *name != HIDDEN_GUARD_FAMILY);
        let families = shown.map(|(name, family)| Ok((FamilyName::new(name)?, family_of(family)?)));
        Ok(Self {
            schema: TableSchema::of(families.collect::<Result<BTreeMap<_, _>>>()?),
            guard,
            learned: Instant::now(),
        })
    }

    /// Whether what was read of a row is a cell of a family that is not known: it may have been made since.
    pub(super) fn may_be_new(&self, row: &ApiRow) -> bool {
        let is_hidden = |cell: &ApiCell| self.guard == Place::Hidden && cell.family.as_str() == HIDDEN_GUARD_FAMILY;
        matches!(row.cells.as_slice(), [cell] if !self.schema.families.contains_key(&cell.family) && !is_hidden(cell))
    }
}

/// The families of a new table, with one for the guard.
///
/// # Errors
/// [`Error::Unsupported`] for what Bigtable does not have, [`Error::Invalid`] for a rule that is too long, or a family
/// with the guard's name.
pub(super) fn table_of(schema: &TableSchema) -> Result<Table> {
    if schema.history.is_some() {
        return Err(Error::Unsupported("a table in Bigtable keeps no history".into()));
    }
    if !schema.erased.is_empty() {
        return Err(no_erasure());
    }
    let mut families = BTreeMap::new();
    for (name, family) in &schema.families {
        check_name(name)?;
        families.insert(name.to_string(), column_family(family)?);
    }
    if !families.contains_key(GUARD_FAMILY) {
        let guard = Family { gc: GcRule::MaxVersions(1), aggregate: None };
        families.insert(HIDDEN_GUARD_FAMILY.into(), column_family(&guard)?);
    }
    Ok(Table { column_families: families.into_iter().collect(), ..Table::default() })
}

/// # Errors
/// [`Error::Invalid`] for the name that the guard has.
pub(super) fn check_name(name: &FamilyName) -> Result<()> {
    if name.as_str() == HIDDEN_GUARD_FAMILY {
        return Err(Error::Invalid(format!("the family name {HIDDEN_GUARD_FAMILY:?} is taken")));
    }
    Ok(())
}

pub(super) fn no_erasure() -> Error {
    Error::Unsupported("columns of a table in Bigtable cannot be erased at once".into())
}

/// # Errors
/// [`Error::Invalid`] for a rule that is too long.
pub(super) fn column_family(family: &Family) -> Result<ColumnFamily> {
    let value_type = family.aggregate.map(|kind| {
        let aggregator = match kind {
            Aggregate::Sum => Aggregator::Sum(Sum {}),
            Aggregate::Min => Aggregator::Min(Min {}),
            Aggregate::Max => Aggregator::Max(Max {}),
            Aggregate::Hll => Aggregator::HllppUniqueCount(HyperLogLogPlusPlusUniqueCount {}),
        };
        let encoding =
            Encoding { encoding: Some(encoding::Encoding::BigEndianBytes(encoding::BigEndianBytes::default())) };
        let input = Type { kind: Some(Kind::Int64Type(Int64 { encoding: Some(encoding) })) };
        let aggregate =
            ApiAggregate { input_type: Some(Box::new(input)), state_type: None, aggregator: Some(aggregator) };
        Type { kind: Some(Kind::AggregateType(Box::new(aggregate))) }
    });
    // A rule that is empty, unlike none, is one that the emulator complains of.
    let gc_rule = if family.gc == GcRule::KeepAll { None } else { Some(rule_of(&family.gc)?) };
    Ok(ColumnFamily { gc_rule, value_type })
}

/// # Errors
/// [`Error::Invalid`] for a rule that is too long.
pub(super) fn rule_of(rule: &GcRule) -> Result<ApiRule> {
    let api = api_rule(rule);
    if api.encoded_len() > RULE_BYTES_MAX {
        return Err(Error::Invalid(format!("a garbage collection rule is longer than {RULE_BYTES_MAX} bytes")));
    }
    Ok(api)
}

fn api_rule(rule: &GcRule) -> ApiRule {
    let all = |rules: &[GcRule]| rules.iter().map(api_rule).collect();
    let rule = match rule {
        GcRule::KeepAll => None,
        GcRule::MaxVersions(versions) => Some(Rule::MaxNumVersions(i32::try_from(*versions).unwrap_or(i32::MAX))),
        GcRule::MaxAgeMicros(micros) => Some(Rule::MaxAge(prost_types::Duration {
            seconds: micros / 1_000_000,
            nanos: i32::try_from(micros % 1_000_000 * 1_000).unwrap_or(0),
        })),
        GcRule::Union(rules) => Some(Rule::Union(Union { rules: all(rules) })),
        GcRule::Intersection(rules) => Some(Rule::Intersection(Intersection { rules: all(rules) })),
    };
    ApiRule { rule }
}

fn family_of(family: &ColumnFamily) -> Result<Family> {
    let gc = family.gc_rule.as_ref().map_or(Ok(GcRule::KeepAll), |rule| gc_of(rule, 1))?;
    let aggregate = match family.value_type.as_ref().and_then(|of| of.kind.as_ref()) {
        Some(Kind::AggregateType(of)) => match of.aggregator {
            Some(Aggregator::Sum(_)) => Some(Aggregate::Sum),
            Some(Aggregator::Min(_)) => Some(Aggregate::Min),
            Some(Aggregator::Max(_)) => Some(Aggregate::Max),
            Some(Aggregator::HllppUniqueCount(_)) => Some(Aggregate::Hll),
            None => return Err(Error::Unsupported("an aggregate family of Bigtable is of an unknown kind".into())),
        },
        _ => None,
    };
    Ok(Family { gc, aggregate })
}

fn gc_of(rule: &ApiRule, depth: usize) -> Result<GcRule> {
    if depth > GC_RULE_DEPTH_MAX {
        return Err(Error::Unsupported("a garbage collection rule of Bigtable is nested too deep".into()));
    }
    let all = |rules: &[ApiRule]| rules.iter().map(|rule| gc_of(rule, depth + 1)).collect::<Result<Vec<_>>>();
    Ok(match &rule.rule {
        None => GcRule::KeepAll,
        Some(Rule::MaxNumVersions(versions)) => {
            u32::try_from(*versions).ok().filter(|versions| *versions > 0).map_or(GcRule::KeepAll, GcRule::MaxVersions)
        }
        Some(Rule::MaxAge(age)) => {
            GcRule::MaxAgeMicros(age.seconds.saturating_mul(1_000_000).saturating_add(i64::from(age.nanos) / 1_000))
        }
        Some(Rule::Union(of)) if of.rules.is_empty() => GcRule::KeepAll,
        Some(Rule::Union(of)) => GcRule::Union(all(&of.rules)?),
        Some(Rule::Intersection(of)) if of.rules.is_empty() => GcRule::KeepAll,
        Some(Rule::Intersection(of)) => GcRule::Intersection(all(&of.rules)?),
    })
}

/// A change of the rule alone.
pub(super) fn update_mask() -> prost_types::FieldMask {
    prost_types::FieldMask { paths: vec!["gc_rule".into()] }
}

/// The change of one family.
pub(super) fn modification(
    id: &FamilyName,
    change: admin::modify_column_families_request::modification::Mod,
) -> admin::modify_column_families_request::Modification {
    use admin::modify_column_families_request::{Modification, modification::Mod};
    let update_mask = matches!(change, Mod::Update(_)).then(update_mask);
    Modification { id: id.to_string(), update_mask, r#mod: Some(change) }
}
