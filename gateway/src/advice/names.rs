//! Names of columns that have values in them: `m01`, `m02`, …, `sales_2023`, `sales_2024`, ….

use super::{
    Advice, Kind, Remedy, listed,
    remake::{Remake, free_column},
};
use crate::pg::ident::quote_ident;
use keyspan_catalog::{Column, ColumnPlace, SqlType, Table};
use std::collections::BTreeMap;

/// Fewer names are names: `address1`, `address2`.
const NAMES_MIN: usize = 5;
/// Names that are listed.
const NAMES_SHOWN: usize = 3;

pub(super) fn of(table: &Table) -> Vec<Advice> {
    let mut alike: BTreeMap<(&str, String), Vec<&Column>> = BTreeMap::new();
    for column in &table.columns {
        if let (ColumnPlace::Cell { .. }, Some((stem, _))) = (&column.place, cut(&column.name)) {
            alike.entry((stem, column.kind.to_string())).or_default().push(column);
        }
    }
    let many = alike.into_iter().filter(|(_, columns)| columns.len() >= NAMES_MIN);
    many.map(|((stem, _), columns)| advice(table, stem, &columns)).collect()
}

fn advice(table: &Table, stem: &str, columns: &[&Column]) -> Advice {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let shown = listed(names.iter().copied().take(NAMES_SHOWN));
    let to = if table.is_private() { "a jsonb column" } else { "an open family" };
    let text = format!(
        "By their names {} columns are one, with a value in each name: {shown}, …. The next value needs ALTER TABLE. As \
         qualifiers of {to} they need none, and each is read alone; what is asked for by ranges is a row for each, with \
         one part of the key more.",
        names.len()
    );
    let remedy = Remedy::remake(remake(table, stem, columns, &names));
    Advice { kind: Kind::ValuesInNames, text, seen: names.len() as u64, bytes: None, remedy }
}

/// The columns as one map.
fn remake(table: &Table, stem: &str, columns: &[&Column], names: &[&str]) -> Option<Remake> {
    let mut remake = Remake::of(table, "open")?.without(names);
    let mut map = free_column(&remake.table, stem);
    if remake.table.family(&map).is_some() {
        map = free_column(&remake.table, &format!("{stem}_of"));
    }
    if table.is_private() {
        remake = remake.with_cell(&map, SqlType::Jsonb)?;
    } else {
        remake.table = remake.table.add_family(&map, true, &[]).ok()?;
        // A family that has lost all of its columns goes.
        let used: Vec<_> = remake.table.columns.iter().filter_map(|column| column.place.family().cloned()).collect();
        remake.table.families.retain(|family| used.contains(&family.name));
    }
    let pair = |column: &&Column| {
        let value = cut(&column.name).map_or("", |(_, value)| value);
        format!("'{}', {}", value.replace('\'', "''"), quote_ident(&column.name))
    };
    let pairs = columns.iter().map(pair).collect::<Vec<_>>().join(", ");
    remake.values.push((map, format!("jsonb_strip_nulls(jsonb_build_object({pairs}))")));
    Some(remake)
}

/// A name that ends with digits, in what stands before them and the digits with what stands between: `m` and `01`,
/// `sales` and `2023_04`.
pub(super) fn cut(name: &str) -> Option<(&str, &str)> {
    let is_value = |of: char| of.is_ascii_digit() || matches!(of, '_' | '-');
    let stem = name.trim_end_matches(is_value);
    let value = name[stem.len()..].trim_start_matches(['_', '-']);
    (!stem.is_empty() && value.ends_with(|of: char| of.is_ascii_digit())).then_some((stem, value))
}
