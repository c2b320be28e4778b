//! Families: those that are always read together, and those that nobody reads.

use super::{Advice, Kind, Remedy, listed, remake::Remake};
use crate::{pg::ident::quote_ident, shares::access::Seen};
use keyspan_catalog::{
    ColumnPlace, Table,
    table::{MARKER_FAMILY, TableFamily},
};

/// Fewer scans say nothing.
const SCANS_MIN: u64 = 100;

pub(super) fn of(table: &Table, seen: &Seen) -> Vec<Advice> {
    // A tenant's own tables have one family, and of tables of others the rules are theirs.
    if table.is_private() || table.families.len() < 2 {
        return Vec::new();
    }
    let scans: u64 = seen.families.iter().map(|of| of.scans).sum();
    if scans < SCANS_MIN {
        return Vec::new();
    }
    let used = |family: &TableFamily| seen.families.iter().filter(|of| reads(of.families.as_deref(), family)).count();
    let is_used = |family: &&TableFamily| used(family) > 0;
    let mut found: Vec<Advice> =
        table.families.iter().filter(|family| !is_used(family)).map(|family| unread(table, family, scans)).collect();
    let families: Vec<&TableFamily> = table.families.iter().filter(is_used).collect();
    // Of three that are together the first has the others.
    for (at, one) in families.iter().enumerate() {
        let with: Vec<&TableFamily> =
            families[at + 1..].iter().copied().filter(|other| are_together(seen, one, other)).collect();
        let is_taken = families[..at].iter().any(|before| are_together(seen, before, one));
        if !with.is_empty() && !is_taken {
            found.extend(together(table, one, &with, seen));
        }
    }
    found
}

fn reads(families: Option<&[keyspan_storage::FamilyName]>, family: &TableFamily) -> bool {
    families.is_none_or(|families| families.contains(&family.name))
}

/// Whether each scan that reads one of them reads the other, in one table with one rule.
fn are_together(seen: &Seen, one: &TableFamily, other: &TableFamily) -> bool {
    let both = |families| (reads(families, one), reads(families, other));
    let agree = seen.families.iter().all(|of| {
        let (one, other) = both(of.families.as_deref());
        one == other
    });
    // What reads all families says nothing of two of them.
    let by_name: u64 = seen
        .families
        .iter()
        .filter(|of| of.families.is_some() && reads(of.families.as_deref(), one))
        .map(|of| of.scans)
        .sum();
    agree && by_name >= SCANS_MIN && one.gc == other.gc && one.aggregate.is_none() && other.aggregate.is_none()
}

fn together(table: &Table, one: &TableFamily, with: &[&TableFamily], seen: &Seen) -> Option<Advice> {
    let is_open = |family: &TableFamily| table.open_column(family.name.as_str()).is_some();
    if is_open(one) || with.iter().any(|family| is_open(family)) {
        return None;
    }
    let scans: u64 = seen.families.iter().filter(|of| reads(of.families.as_deref(), one)).map(|of| of.scans).sum();
    let names = listed(std::iter::once(one).chain(with.iter().copied()).map(|family| family.name.as_str()));
    let text = format!(
        "{scans} scans read families {names} together, none one without the other, and their rules are the same. Each \
         family of a row is kept and read by itself: as one they cost less."
    );
    let remake = Remake::of(table, "joined").map(|mut remake| {
        let gone = |name: &keyspan_storage::FamilyName| with.iter().any(|family| family.name == *name);
        remake.table.families.retain(|family| !gone(&family.name));
        for column in &mut remake.table.columns {
            if let ColumnPlace::Cell { family, .. } = &mut column.place
                && gone(family)
            {
                *family = one.name.clone();
            }
        }
        remake
    });
    Some(Advice { kind: Kind::FamiliesTogether, text, seen: scans, bytes: None, remedy: Remedy::remake(remake) })
}

fn unread(table: &Table, family: &TableFamily, scans: u64) -> Advice {
    debug_assert_ne!(family.name.as_str(), MARKER_FAMILY);
    let name = family.name.as_str();
    let text = format!(
        "None of {scans} scans of the table read family {name}. If nobody needs it for longer, let its cells go by a \
         rule of their age; EXPLAIN in front of the statement says what that would forget."
    );
    let statement =
        format!("ALTER TABLE {} SET ({}.max_age = '30 days');", quote_ident(&table.name), quote_ident(name));
    let has_age = family.gc.age_max_micros().is_some();
    let remedy = if table.is_found() || has_age { Remedy::Words } else { Remedy::Statement(statement) };
    Advice { kind: Kind::FamilyUnread, text, seen: scans, bytes: None, remedy }
}
