//! The first part of a key: whether it grows with time, so that all writes go to one place; and names of parts that
//! look like personal data.

use super::{
    Advice, Kind, Remedy, listed,
    remake::{Remake, free_column, parts},
    scans::is_time,
};
use crate::{pg::ident::quote_ident, shares::access::Seen};
use keyspan_catalog::{PartOrder, SqlType, Table, table::TENANT_COLUMN};

/// Fewer rows make no place hot.
const ROWS_MIN: u64 = 10_000;
/// Of a key that grows, at least so many of a hundred rows are written at an end.
const AT_END_PERCENT: u64 = 90;
/// Buckets that are advised.
const BUCKETS: u16 = 8;

/// Words of a column's name that are of people.
const PERSONAL: &[&str] = &[
    "email",
    "mail",
    "phone",
    "mobile",
    "msisdn",
    "ssn",
    "passport",
    "iban",
    "surname",
    "lastname",
    "firstname",
    "fullname",
    "birthday",
    "birthdate",
    "dob",
    "ip",
];
/// Two words in sequence that are.
const PERSONAL_PAIRS: &[(&str, &str)] = &[
    ("first", "name"),
    ("last", "name"),
    ("full", "name"),
    ("family", "name"),
    ("e", "mail"),
    ("birth", "date"),
    ("date", "of"),
    ("tax", "id"),
    ("social", "security"),
    ("card", "number"),
    ("credit", "card"),
    ("street", "address"),
    ("home", "address"),
    ("postal", "address"),
];

/// Writes go to an end of the keys.
pub(super) fn ascending(table: &Table, seen: &Seen) -> Option<Advice> {
    let ends = seen.ends;
    let at_end = ends.above.max(ends.below);
    let part = table.key.parts.first().filter(|_| !table.has_hidden_key())?;
    let grows = is_time(part.kind) || is_whole_number(part.kind);
    let hot = ends.rows >= ROWS_MIN && at_end.saturating_mul(100) >= ends.rows.saturating_mul(AT_END_PERCENT);
    if !grows || !hot || table.key.salt > 0 || part.is_reversed() {
        return None;
    }
    let (name, percent) = (&part.name, at_end * 100 / ends.rows);
    let side = if ends.above >= ends.below { "above" } else { "below" };
    let mut text = format!(
        "{percent} % of {} rows were written {side} all keys that were there: the key begins with {name}, which grows, \
         and all writes go to one place.",
        ends.rows
    );
    let own = parts(table);
    let other = own.iter().skip(1).find(|(name, _)| {
        table.column(name).is_some_and(|column| !is_time(column.kind) && !is_whole_number(column.kind))
    });
    let remake = if let Some((front, order)) = other {
        text +=
            &format!(" With {front} before {name} each {front} has a place of its own, and its rows stay in order.");
        let rest = own.iter().copied().filter(|(name, _)| name != front);
        let key: Vec<_> = std::iter::once((*front, *order)).chain(rest).collect();
        Remake::of(table, &format!("by_{front}")).and_then(|remake| remake.keyed(&key))
    } else if is_whole_number(part.kind) {
        text += &format!(
            " REVERSED stores {name} from its last digit, so that neighbours go to different places; {name} = … stays \
             a lookup, ranges of {name} read all rows."
        );
        let rest = own.iter().skip(1).copied();
        Remake::of(table, "reversed").and_then(|remake| {
            let first = (name.as_str(), PartOrder::Reversed);
            remake.keyed(&std::iter::once(first).chain(rest).collect::<Vec<_>>())
        })
    } else if table.is_private() {
        text += " Put what there are many of before it: a device, an account.";
        None
    } else {
        text += &format!(" Salted, rows go to one of {BUCKETS} places, and a range reads as many; SQL stays as it is.");
        Remake::of(table, "salted").map(|mut remake| {
            remake.table.key.salt = BUCKETS;
            remake
        })
    };
    Some(Advice { kind: Kind::AscendingKey, text, seen: at_end, bytes: None, remedy: Remedy::remake(remake) })
}

fn is_whole_number(kind: SqlType) -> bool {
    matches!(kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8)
}

/// Parts of the key whose names are those of people's data.
pub(super) fn personal(table: &Table) -> Option<Advice> {
    let own = parts(table);
    let found: Vec<&str> = own.iter().map(|(name, _)| *name).filter(|name| is_personal(name)).collect();
    let first = *found.first()?;
    let text = format!(
        "By {} the key has personal data in it: keys are seen where rows are not, in the heat of keys, in plans and in \
         logs of stores, and they can only be changed by a row that is written anew. A random id in its place names the \
         same row, and the data is a column, which can be changed and erased.",
        listed(found.iter().copied())
    );
    let id = free_column(table, &format!("{first}_id"));
    let remake = Remake::of(table, "by_id").and_then(|mut remake| {
        let (tenant, first) = ((!table.is_private()).then_some(TENANT_COLUMN), quote_ident(first));
        let by = tenant.into_iter().chain([first.as_str()]).collect::<Vec<_>>().join(", ");
        remake.from = format!(
            "{from}\n    JOIN (SELECT {by}, gen_random_uuid() AS {id} FROM (SELECT DISTINCT {by} FROM {from}) AS one) AS \
             ids\n    USING ({by})",
            from = remake.from,
            id = quote_ident(&id)
        );
        let mut remake = remake.with_first(&id, SqlType::Uuid, None);
        remake.values.push((id.clone(), quote_ident(&id)));
        let first = found.first()?;
        let parts: Vec<_> = own
            .iter()
            .map(|(name, order)| if name == first { (id.as_str(), PartOrder::Ascending) } else { (*name, *order) })
            .collect();
        remake.keyed(&parts)
    });
    let seen = found.len() as u64;
    Some(Advice { kind: Kind::PersonalKey, text, seen, bytes: None, remedy: Remedy::remake(remake) })
}

/// Whether a name has words of people's data.
pub(super) fn is_personal(name: &str) -> bool {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower.split(|of: char| !of.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    // An id in the place of the data is what is advised.
    if words.last().is_some_and(|last| matches!(*last, "id" | "hash" | "uuid")) && !lower.starts_with("tax") {
        return false;
    }
    let pair = |two: &[&str]| PERSONAL_PAIRS.contains(&(two[0], two[1]));
    words.iter().any(|word| PERSONAL.contains(word)) || words.windows(2).any(pair)
}
