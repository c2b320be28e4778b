//! The layout of a table's rows for a scan: which column of a batch is a part of the key, a cell or the map of an open
//! family, and which families and qualifiers the store reads for that.

use super::{
    decode::{self, CellColumn, Layout, RowLayout, Shows},
    open_family::{self, MapColumn, Wanted},
};
use arrow::datatypes::SchemaRef;
use keyspan_catalog::{
    Encoding, SqlType, Table,
    proto::ProtoMessage,
    table::{Column, ColumnPlace},
};
use keyspan_storage::{Columns, scan::FamilyColumns};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What is read of each column of an open family, and of a message, by the id of the column; all of those that are not
/// named.
pub(crate) type WantedMaps = BTreeMap<u16, Wanted>;

/// The columns of a table whose values are cells.
pub(super) fn cell_columns(table: &Table) -> impl Iterator<Item = &Column> {
    table.columns.iter().filter(|column| matches!(column.place, ColumnPlace::Cell { .. }))
}

/// The layout of batches of `schema`, whose columns are those of [`schema_of`](super::schema_of) with the indexes
/// `projection`, each at most once, under any names; and the columns of the store to read for it. `wanted` says what is
/// read of open families.
pub fn row_layout(
    table: &Arc<Table>,
    operator: bool,
    projection: &[usize],
    schema: SchemaRef,
    wanted: &WantedMaps,
) -> (Arc<dyn Layout>, Columns) {
    layout_of((table, operator), (projection, usize::MAX), schema, wanted)
}

/// The message of which only some fields are read.
fn read_of(message: &ProtoMessage, wanted: &Wanted) -> ProtoMessage {
    let only = match wanted {
        Wanted::These(these) => message.only(these.iter().filter_map(|name| std::str::from_utf8(name).ok())),
        _ => None,
    };
    only.unwrap_or_else(|| message.clone())
}

/// [`row_layout`], where indexes from `width` on are those of the timestamps of cells.
pub(super) fn layout_of(
    (table, operator): (&Arc<Table>, bool),
    (projection, width): (&[usize], usize),
    schema: SchemaRef,
    wanted: &WantedMaps,
) -> (Arc<dyn Layout>, Columns) {
    let tenant = usize::from(operator);
    let (mut parts, mut cells, mut maps, mut kinds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (place, at) in projection.iter().enumerate() {
        let timed = at.checked_sub(width).and_then(|at| cell_columns(table).nth(at));
        let Some(at) = at.checked_sub(tenant) else {
            parts.push((0, place));
            kinds.push(SqlType::Text);
            continue;
        };
        let Some(column) = timed.or_else(|| table.columns.get(at)) else {
            parts.push((tenant, place));
            kinds.push(table.key.parts[0].kind);
            continue;
        };
        let shows = if timed.is_some() { Shows::Timestamp } else { Shows::Value };
        kinds.push(if timed.is_some() { SqlType::Timestamptz(None) } else { column.kind });
        match &column.place {
            ColumnPlace::Key(part) => parts.push((part + tenant, place)),
            ColumnPlace::Cell { family, qualifier, encoding } => {
                let cell = CellColumn {
                    name: column.name.clone(),
                    family: family.clone(),
                    qualifier: qualifier.clone().into(),
                    kind: column.kind,
                    encoding: match (encoding, wanted.get(&column.id)) {
                        (Encoding::Protobuf(message), Some(wanted)) => Encoding::Protobuf(read_of(message, wanted)),
                        _ => encoding.clone(),
                    },
                    aggregate: table.family(family.as_str()).and_then(|family| family.aggregate),
                    shows,
                };
                cells.push((cell, place));
            }
            ColumnPlace::Open { family, encoding } => {
                let map = MapColumn {
                    name: column.name.clone(),
                    family: family.clone(),
                    encoding: encoding.clone(),
                    hidden: open_family::hidden(table, family),
                    wanted: wanted.get(&column.id).cloned().unwrap_or_default(),
                };
                maps.push((map, place));
            }
        }
    }
    cells.sort_by(|(a, _), (b, _)| (&a.family, &a.qualifier).cmp(&(&b.family, &b.qualifier)));
    // `None` for all qualifiers of a family.
    let mut families: BTreeMap<_, Option<BTreeSet<_>>> = BTreeMap::new();
    for (cell, _) in &cells {
        let read = families.entry(cell.family.clone()).or_insert_with(|| Some(BTreeSet::new()));
        read.get_or_insert_default().insert(cell.qualifier.clone());
    }
    for (map, _) in &maps {
        let read = families.entry(map.family.clone()).or_insert_with(|| Some(BTreeSet::new()));
        match (&map.wanted, read) {
            (Wanted::These(these), Some(read)) => read.extend(these.iter().cloned()),
            (_, read) => *read = None,
        }
    }
    let of_family = |(family, qualifiers): (_, Option<BTreeSet<_>>)| FamilyColumns {
        family,
        qualifiers: qualifiers.map(|all| all.into_iter().collect()),
    };
    let mut keys = table.key.clone();
    keys.with_tenant = operator;
    let layout = RowLayout {
        schema,
        keys,
        parts,
        cells,
        maps,
        kinds,
        on_bad_value: table.on_bad_value,
        on_bad_key: table.on_bad_key,
    };
    let layout: Arc<dyn decode::Layout> = Arc::new(Arc::new(layout));
    (layout, Columns::Of(families.into_iter().map(of_family).collect()))
}
