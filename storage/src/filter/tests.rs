//! Filters, compared with a naive implementation of their definition, and patterns that are easy to get wrong.

use super::*;
use crate::{Cell, RowKey, row::fold, testing::arbitrary};
use proptest::prelude::*;

fn pattern(pattern: &str, matching: &[&[u8]], other: &[&[u8]]) {
    let pattern = pattern::Pattern::new(pattern).unwrap();
    for bytes in matching {
        assert!(pattern.matches(bytes), "{pattern:?} does not match {}", bytes.escape_ascii());
    }
    for bytes in other {
        assert!(!pattern.matches(bytes), "{pattern:?} matches {}", bytes.escape_ascii());
    }
}

#[test]
fn patterns_match_the_whole() {
    pattern("ab", &[b"ab"], &[b"abc", b"xab", b"", b"ab\n"]);
    pattern("a|ab", &[b"a", b"ab"], &[b"b", b"aab"]);
    pattern("", &[b""], &[b"a"]);
    pattern("a?", &[b"", b"a"], &[b"aa"]);
    pattern("(?i)ab", &[b"AB", b"aB"], &[b"ABC"]);
}

#[test]
fn patterns_see_bytes() {
    pattern(".", &[b"a", b"\xff", b"\0"], &[b"\n", b"", "é".as_bytes()]);
    pattern(r"\C", &[b"a", b"\xff", b"\n"], &[b"", b"aa"]);
    pattern(r"\\C", &[b"\\C"], &[b"\\", b"\\x"]);
    pattern(r"\xff+", &[b"\xff\xff"], &[b"\xfe", "ÿ".as_bytes()]);
    pattern("é", &["é".as_bytes()], &[b"\xe9"]);
    pattern(r"\d\w", &[b"1a"], &["١a".as_bytes()]);
}

#[test]
fn patterns_are_refused() {
    for bad in ["(", "a)(b", "[", "*", "a{2,1}", "\\", "(?P<n>a)(?P<n>b)"] {
        assert!(pattern::Pattern::new(bad).is_err(), "{bad}");
    }
    assert!(pattern::Pattern::new("((a{100}){100}){100}").is_err(), "a pattern that would fill the memory");
}

/// The result of a filter by its definition, cell by cell: slow, and independent of the evaluator.
fn naive(filter: &Filter, key: &RowKey, cells: &[Cell]) -> Vec<Cell> {
    use Filter::*;
    let keep = |test: &dyn Fn(&Cell) -> bool| cells.iter().filter(|cell| test(cell)).cloned().collect::<Vec<_>>();
    let whole = |pattern: &str, bytes: &[u8]| {
        let found = regex::bytes::Regex::new(&format!("(?s-u)^(?:{})$", pattern.replace(r"\C", "."))).unwrap();
        found.is_match(bytes)
    };
    let within = |bytes: &Bytes, start: &Bound<Bytes>, end: &Bound<Bytes>| {
        (match start {
            Bound::Included(start) => bytes >= start,
            Bound::Excluded(start) => bytes > start,
            Bound::Unbounded => true,
        }) && (match end {
            Bound::Included(end) => bytes <= end,
            Bound::Excluded(end) => bytes < end,
            Bound::Unbounded => true,
        })
    };
    match filter {
        PassAll => cells.to_vec(),
        BlockAll => Vec::new(),
        RowKeyRegex(pattern) => keep(&|_| whole(pattern, key)),
        FamilyRegex(pattern) => keep(&|cell| whole(pattern, cell.family.as_str().as_bytes())),
        QualifierRegex(pattern) => keep(&|cell| whole(pattern, &cell.qualifier)),
        ValueRegex(pattern) => keep(&|cell| whole(pattern, &cell.value)),
        QualifierRange { family, start, end } => {
            keep(&|cell| cell.family == *family && within(&cell.qualifier, start, end))
        }
        ValueRange { start, end } => keep(&|cell| within(&cell.value, start, end)),
        Timestamps(range) => keep(&|cell| range.contains(cell.timestamp)),
        CellsPerColumn(limit) => {
            let earlier = |at: usize| cells[..at].iter().filter(|cell| cell.same_column(&cells[at])).count();
            (0..cells.len()).filter(|&at| earlier(at) < *limit as usize).map(|at| cells[at].clone()).collect()
        }
        CellsPerRow(limit) => cells.iter().take(*limit as usize).cloned().collect(),
        CellsPerRowOffset(offset) => cells.iter().skip(*offset as usize).cloned().collect(),
        StripValue => cells.iter().map(|cell| Cell { value: Bytes::new(), ..cell.clone() }).collect(),
        Chain(parts) => parts.iter().fold(cells.to_vec(), |cells, part| naive(part, key, &cells)),
        Interleave(parts) => {
            let given: Vec<Vec<Cell>> = parts.iter().map(|part| naive(part, key, cells)).collect();
            // For each distinct cell, each part's copies of it in turn.
            let mut places: Vec<&Cell> = Vec::new();
            for cell in cells {
                if places.last().is_none_or(|last| last.order(cell).is_ne()) {
                    places.push(cell);
                }
            }
            let copies = |place: &Cell| -> Vec<Cell> {
                given.iter().flatten().filter(|cell| cell.order(place).is_eq()).cloned().collect()
            };
            places.into_iter().flat_map(copies).collect()
        }
        Condition { predicate, then, otherwise } => {
            let branch = if naive(predicate, key, cells).is_empty() { otherwise } else { then };
            branch.as_ref().map_or(Vec::new(), |branch| naive(branch, key, cells))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn filters_mean_what_their_definition_says(
        filter in arbitrary::filter(),
        key in arbitrary::row_key(),
        mutations in prop::collection::vec(arbitrary::mutation(), 0..20),
    ) {
        let schema = arbitrary::families();
        let known = |mutation: &crate::Mutation| matches!(mutation, crate::Mutation::SetCell { family, .. } if schema.families.contains_key(family));
        let mutations: Vec<_> = mutations.into_iter().filter(known).collect();
        let cells = fold(&schema, Vec::new(), &mutations, 1_000_000).unwrap();
        if let Ok(compiled) = CompiledFilter::new(&filter) {
            prop_assert_eq!(compiled.apply(&key, cells.clone()), naive(&filter, &key, &cells));
        }
    }
}
