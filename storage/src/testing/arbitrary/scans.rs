//! Random scans and filters.

use super::{key_range, plain_family, qualifier, row_key, timestamps, value};
use crate::{Columns, Filter, KeyRange, RowSet, Scan, TimestampRange, scan::FamilyColumns};
use bytes::Bytes;
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::select,
};
use std::{collections::BTreeSet, ops::Bound};

fn row_set() -> impl Strategy<Value = RowSet> {
    prop_oneof![
        2 => Just(RowSet::all()),
        1 => row_key().prop_map(|key| KeyRange::point(&key).into()),
        2 => vec(key_range(), 0..4).prop_map(RowSet::new),
    ]
}

/// Filters, of at most three levels.
pub fn filter() -> impl Strategy<Value = Filter> {
    let bound = |of: BoxedStrategy<Bytes>| {
        (of, 0..3).prop_map(|(bytes, kind)| match kind {
            0 => Bound::Included(bytes),
            1 => Bound::Excluded(bytes),
            _ => Bound::Unbounded,
        })
    };
    let values = (bound(value().boxed()), bound(value().boxed()));
    let qualifiers = (plain_family(), bound(qualifier().boxed()), bound(qualifier().boxed()));
    let leaf = prop_oneof![
        Just(Filter::PassAll),
        Just(Filter::BlockAll),
        Just(Filter::StripValue),
        select(vec!["a.*", r"b\C*", "ab|c", "("]).prop_map(|pattern| Filter::RowKeyRegex(pattern.into())),
        select(vec!["[abc]", "sum|d", ""]).prop_map(|pattern| Filter::FamilyRegex(pattern.into())),
        select(vec!["p+", "", "q|p"]).prop_map(|pattern| Filter::QualifierRegex(pattern.into())),
        select(vec!["x", "y*", r"\C{8}"]).prop_map(|pattern| Filter::ValueRegex(pattern.into())),
        qualifiers.prop_map(|(family, start, end)| Filter::QualifierRange { family, start, end }),
        values.prop_map(|(start, end)| Filter::ValueRange { start, end }),
        timestamps().prop_map(Filter::Timestamps),
        (0u32..4).prop_map(Filter::CellsPerColumn),
        (0u32..6).prop_map(Filter::CellsPerRow),
        (0u32..4).prop_map(Filter::CellsPerRowOffset),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Filter::Chain),
            vec(inner.clone(), 0..3).prop_map(Filter::Interleave),
            (inner.clone(), option::of(inner.clone()), option::of(inner)).prop_map(|(predicate, then, otherwise)| {
                Filter::Condition {
                    predicate: Box::new(predicate),
                    then: then.map(Box::new),
                    otherwise: otherwise.map(Box::new),
                }
            }),
        ]
    })
}

fn columns() -> impl Strategy<Value = Columns> {
    let qualifiers = option::of(btree_set(qualifier(), 0..3));
    let wanted = btree_map(plain_family(), qualifiers, 0..3).prop_map(|wanted| {
        let of = |(family, qualifiers): (_, Option<BTreeSet<_>>)| FamilyColumns {
            family,
            qualifiers: qualifiers.map(|all| all.into_iter().collect()),
        };
        Columns::Of(wanted.into_iter().map(of).collect())
    });
    prop_oneof![3 => Just(Columns::All), 1 => wanted]
}

/// Scans without a pin.
pub fn scan() -> impl Strategy<Value = Scan> {
    let choice =
        (columns(), prop_oneof![5 => Just(TimestampRange::all()), 1 => timestamps()], option::weighted(0.3, 0u32..4));
    let shape = (any::<bool>(), option::weighted(0.3, 0u64..5), any::<bool>());
    (row_set(), choice, option::weighted(0.3, filter()), shape).prop_map(|(rows, choice, filter, shape)| Scan {
        columns: choice.0,
        timestamps: choice.1,
        versions_max: choice.2,
        filter,
        keep_empty: shape.0,
        rows_max: shape.1,
        reversed: shape.2,
        ..Scan::of(rows)
    })
}
