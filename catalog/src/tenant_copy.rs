//! What a copy of a tenant has in place of the numbers of its source, and whether a table can take the rows of another.
//! Pure; [`TenantCopy`](crate::catalog::TenantCopy) does the IO.
//!
//! A copy has relations of its own with new OIDs, and reads the same shared tables. A source in another store (a
//! backup) may have these tables under other OIDs, with other column numbers: tables and columns are matched by name.

use crate::{
    Domain, EnumType, Error, ErrorKind, Private, PrivateEdit, Result, Schema, Sequence, SqlView, Table, TableId,
    enum_type,
    rights::PUBLIC_SCHEMA,
    table::{ColumnDefault, DefaultValue},
};
use bytes::Bytes;
use keyspan_storage::FamilyName;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Returns the text of a view's query with other numbers: a function of the gateway, which knows the text.
pub type Renumber = fn(&str, &Numbers) -> Result<String>;

/// Relations in one edit of the catalog.
const EDITS_MAX: usize = 256;
/// Bytes of texts after which an edit takes no more relations.
const EDIT_BYTES_TARGET: usize = 1 << 20;

/// The OIDs and column numbers of the copy, by those of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    relations: BTreeMap<u32, u32>,
    /// The columns of relations whose numbers may differ.
    columns: BTreeMap<u32, BTreeMap<u16, u16>>,
}

impl Numbers {
    /// Gives the tenant's own relations the OIDs from `first_oid` on.
    pub fn of_private(own: &Private, first_oid: u32) -> Self {
        let oids = own.tables.keys().map(|id| id.0).chain(own.sequences.keys().copied());
        let oids = oids.chain(own.views.keys().copied()).chain(own.protos.keys().copied());
        let oids = oids.chain(own.schemas.keys().copied()).chain(own.enum_types.keys().copied());
        let oids = oids.chain(own.domains.keys().copied());
        Self { relations: oids.zip(first_oid..).collect(), columns: BTreeMap::new() }
    }

    /// Adds a shared table of the source, and the one that takes its place.
    pub fn add_shared(&mut self, source: &Table, target: &Table) {
        self.relations.insert(source.id.0, target.id.0);
        let number = |name: &str| target.column(name).map(|column| column.id);
        let columns = source.columns.iter().filter_map(|column| Some((column.id, number(&column.name)?)));
        self.columns.insert(source.id.0, columns.collect());
    }

    /// The OID in place of a relation's.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) for a relation that the source does not have.
    pub fn relation(&self, oid: u32) -> Result<u32> {
        self.relations.get(&oid).copied().ok_or_else(|| unknown(oid))
    }

    /// The OID in place of a schema's.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) for a schema that the source does not have.
    pub fn schema(&self, oid: u32) -> Result<u32> {
        if oid == PUBLIC_SCHEMA { Ok(oid) } else { self.relation(oid) }
    }

    /// The number in place of a column's.
    ///
    /// # Errors
    /// [`Corrupt`](ErrorKind::Corrupt) for a column that the source does not have.
    pub fn column(&self, relation: u32, column: u16) -> Result<u16> {
        match self.columns.get(&relation) {
            Some(columns) => columns.get(&column).copied().ok_or_else(|| unknown(relation)),
            None => Ok(column),
        }
    }
}

fn unknown(oid: u32) -> Error {
    Error::new(ErrorKind::Corrupt, format!("a relation or a column of relation {oid} is not in its catalog"))
}

/// The edits that define the relations of a tenant once more, in groups. What a view reads is defined before it.
///
/// # Errors
/// [`Corrupt`](ErrorKind::Corrupt) for a reference to what does not exist; the errors of `renumber`.
pub fn definitions(own: &Private, numbers: &Numbers, renumber: Renumber) -> Result<Vec<Vec<PrivateEdit>>> {
    let schemas = own.schemas.values().map(|schema| {
        let copied = Schema { id: numbers.relation(schema.id)?, ..schema.as_ref().clone() };
        Ok::<_, Error>((0, PrivateEdit::CreateSchema(copied)))
    });
    let enum_types = own.enum_types.values().map(|of| {
        let copied = renumbered_enum(of, numbers)?;
        Ok::<_, Error>((of.bytes(), PrivateEdit::CreateEnum(Box::new(copied))))
    });
    let domains = domains_in_order(own);
    let domains = domains.iter().map(|domain| {
        let copied = renumbered_domain(domain, numbers)?;
        Ok::<_, Error>((domain.bytes(), PrivateEdit::CreateDomain(Box::new(copied))))
    });
    let protos = own.protos.values().map(|descriptor| {
        let copied = descriptor.with_id(numbers.relation(descriptor.id)?);
        Ok::<_, Error>((descriptor.bytes(), PrivateEdit::CreateProto(Box::new(copied))))
    });
    let sequences = own
        .sequences
        .values()
        .map(|sequence| Ok::<_, Error>((0, PrivateEdit::CreateSequence(renumbered_sequence(sequence, numbers)?))));
    let tables = own.tables.values().map(|table| {
        let bytes = table.columns.iter().filter_map(|column| column.default.as_ref()).map(|default| default.sql.len());
        let messages = table.columns.iter().filter_map(|column| Some(column.message()?.bytes()));
        let bytes = bytes.chain(table.checks.iter().map(|check| check.sql.len())).chain(messages).sum();
        Ok((bytes, PrivateEdit::CreateTable(Box::new(renumbered_table(table, numbers)?))))
    });
    let views = in_order(own);
    let views = views
        .iter()
        .map(|view| Ok((view.sql.len(), PrivateEdit::CreateView(Box::new(renumbered_view(view, numbers, renumber)?)))));
    let (mut groups, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
    for edit in schemas.chain(enum_types).chain(protos).chain(sequences).chain(domains).chain(tables).chain(views) {
        let (more, edit) = edit?;
        if group.len() >= EDITS_MAX || (bytes + more > EDIT_BYTES_TARGET && !group.is_empty()) {
            groups.push(std::mem::take(&mut group));
            bytes = 0;
        }
        bytes += more;
        group.push(edit);
    }
    groups.push(group);
    groups.retain(|group| !group.is_empty());
    Ok(groups)
}

/// The edit that gives the relations of a copy their owners and what was granted, as a template's are in PostgreSQL.
pub fn rights_of(own: &Private, numbers: &Numbers) -> PrivateEdit {
    // What the copy does not have, a shared table that was dropped meanwhile, has no rights either.
    let oid = |oid| if oid == PUBLIC_SCHEMA { Some(oid) } else { numbers.relation(oid).ok() };
    let rights = own.rights.iter().filter_map(|(of, rights)| Some((oid(*of)?, rights.as_ref().clone())));
    let defaults = own.defaults.iter().map(|(role, defaults)| {
        let mut defaults = defaults.as_ref().clone();
        // A list of a schema that the copy does not have would give rights in all schemas without it.
        defaults.lists.retain_mut(|list| match list.in_schema {
            None => true,
            Some(schema) => {
                list.in_schema = oid(schema);
                list.in_schema.is_some()
            }
        });
        (*role, defaults)
    });
    let defaults = defaults.filter(|(_, defaults)| !defaults.lists.is_empty());
    PrivateEdit::SetRights(rights.collect(), defaults.collect())
}

/// The views, each after those that it reads.
fn in_order(own: &Private) -> Vec<&Arc<SqlView>> {
    let (mut ordered, mut placed) = (Vec::with_capacity(own.views.len()), BTreeSet::new());
    let mut left: Vec<&Arc<SqlView>> = own.views.values().collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|view| {
            let is_ready = view.uses.keys().all(|oid| !own.views.contains_key(oid) || placed.contains(oid));
            if is_ready {
                placed.insert(view.id);
                ordered.push(*view);
            }
            !is_ready
        });
        // Views do not read themselves; if a damaged catalog has such views, the edit refuses them.
        if left.len() == before {
            ordered.append(&mut left);
        }
    }
    ordered
}

fn renumbered_sequence(sequence: &Sequence, numbers: &Numbers) -> Result<Sequence> {
    let owner = match sequence.owner {
        Some((table, column)) => Some((TableId(numbers.relation(table.0)?), column)),
        None => None,
    };
    let schema = numbers.schema(sequence.schema)?;
    Ok(Sequence { id: numbers.relation(sequence.id)?, schema, owner, ..sequence.clone() })
}

/// The table's space is new as well: it has the number of the table.
fn renumbered_table(table: &Table, numbers: &Numbers) -> Result<Table> {
    let id = numbers.relation(table.id.0)?;
    let mut renumbered =
        Table { id: TableId(id), schema: numbers.schema(table.schema)?, space: Some(id), ..table.clone() };
    for column in &mut renumbered.columns {
        if let Some(default) = &mut column.default {
            renumber_default(default, numbers)?;
        }
        if let Some(of) = &mut column.domain {
            of.id = numbers.relation(of.id)?;
        }
    }
    renumber_enums(&mut renumbered, numbers)?;
    Ok(renumbered)
}

fn renumbered_enum(of: &EnumType, numbers: &Numbers) -> Result<EnumType> {
    Ok(EnumType { id: numbers.relation(of.id)?, schema: numbers.schema(of.schema)?, ..of.clone() })
}

/// The domains, each after the one that it is based on.
fn domains_in_order(own: &Private) -> Vec<&Arc<Domain>> {
    let mut ordered: Vec<_> = own.domains.values().collect();
    ordered.sort_by_key(|domain| own.domain_chain(domain.id).len());
    ordered
}

fn renumbered_domain(domain: &Domain, numbers: &Numbers) -> Result<Domain> {
    let number = |of: Option<u32>| of.map(|of| numbers.relation(of)).transpose();
    let mut copied = Domain {
        id: numbers.relation(domain.id)?,
        schema: numbers.schema(domain.schema)?,
        enumerated: number(domain.enumerated)?,
        over: number(domain.over)?,
        ..domain.clone()
    };
    if let Some(default) = &mut copied.default {
        renumber_default(default, numbers)?;
    }
    for check in &mut copied.checks {
        check.sql = enum_type::renumbered(&check.sql, |of| numbers.relation(of))?;
    }
    Ok(copied)
}

fn renumber_default(default: &mut ColumnDefault, numbers: &Numbers) -> Result<()> {
    if let DefaultValue::Next(sequence) = &mut default.value {
        *sequence = numbers.relation(*sequence)?;
    }
    Ok(())
}

fn renumber_enums(table: &mut Table, numbers: &Numbers) -> Result<()> {
    for of in table.columns.iter_mut().filter_map(|column| column.enumerated.as_mut()) {
        *of = Arc::new(renumbered_enum(of, numbers)?);
    }
    for check in &mut table.checks {
        check.sql = enum_type::renumbered(&check.sql, |of| numbers.relation(of))?;
    }
    Ok(())
}

fn renumbered_view(view: &SqlView, numbers: &Numbers, renumber: Renumber) -> Result<SqlView> {
    let mut uses = BTreeMap::new();
    for (oid, columns) in &view.uses {
        let columns = columns.iter().map(|column| numbers.column(*oid, *column)).collect::<Result<_>>()?;
        uses.insert(numbers.relation(*oid)?, columns);
    }
    let (id, schema) = (numbers.relation(view.id)?, numbers.schema(view.schema)?);
    let materialized = view.materialized.as_ref().map(|table| {
        let space = table.space.map(|_| id);
        let mut table = Table { id: TableId(id), schema, space, ..table.as_ref().clone() };
        renumber_enums(&mut table, numbers).map(|()| Box::new(table))
    });
    let materialized = materialized.transpose()?;
    let sql = enum_type::renumbered(&renumber(&view.sql, numbers)?, |of| numbers.relation(of))?;
    let mut columns = view.columns.clone();
    for column in &mut columns {
        // Those of PostgreSQL's types are below all others.
        column.type_oid = numbers.relation(column.type_oid).unwrap_or(column.type_oid);
    }
    Ok(SqlView { id, schema, uses, sql, materialized, columns, ..view.clone() })
}

/// Checks that the rows of a table of another store mean the same in a table of this one. The table may have more
/// columns, whose values are NULL then.
///
/// # Errors
/// [`Invalid`](ErrorKind::Invalid), with the first difference as detail.
pub fn check_agreement(source: &Table, target: &Table) -> Result<()> {
    let Some(difference) = difference(source, target) else { return Ok(()) };
    let message = format!("table \"{}\" of the backup differs from the table of this store", source.name);
    Err(Error::new(ErrorKind::Invalid, message)
        .with_detail(difference)
        .with_hint("Make the definitions agree first, or serve the backup by itself."))
}

fn difference(source: &Table, target: &Table) -> Option<String> {
    if source.key != target.key {
        return Some("The primary keys, or their encodings, differ.".to_owned());
    }
    for column in &source.columns {
        let Some(found) = target.column(&column.name) else {
            return Some(format!("The store's table has no column \"{}\".", column.name));
        };
        if found.kind != column.kind {
            return Some(format!("Column \"{}\" is {} in the backup, {} here.", column.name, column.kind, found.kind));
        }
        if found.place != column.place {
            return Some(format!("The values of column \"{}\" are stored differently.", column.name));
        }
        if found.not_null && !column.not_null {
            return Some(format!("Column \"{}\" is NOT NULL here only.", column.name));
        }
    }
    for column in target.columns.iter().filter(|column| source.column(&column.name).is_none()) {
        if column.not_null {
            return Some(format!("Column \"{}\", which is NOT NULL, is not in the backup.", column.name));
        }
    }
    for family in &source.families {
        let found = target.family(family.name.as_str());
        if found.is_some_and(|found| found.aggregate != family.aggregate) {
            return Some(format!("The aggregates of family \"{}\" differ.", family.name));
        }
    }
    let is_new = |sql: &str| source.checks.iter().all(|check| check.sql != sql);
    let check = target.checks.iter().find(|check| is_new(&check.sql))?;
    Some(format!("The check \"{}\" is not in the backup.", check.name))
}

/// Where the cells of dropped columns are that a table must not get with the rows of another: a new column of it might
/// be stored there.
pub(crate) fn left_out(source: &Table, target: &Table) -> BTreeSet<(FamilyName, Bytes)> {
    let dropped = source.retired.iter().filter(|place| !target.retired.contains(place));
    dropped.map(|(family, qualifier)| (family.clone(), Bytes::copy_from_slice(qualifier.as_bytes()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Comments, SequenceOptions};

    fn view(id: u32, reads: &[u32]) -> (u32, Arc<SqlView>) {
        let uses = reads.iter().map(|oid| (*oid, BTreeSet::from([1]))).collect();
        let (name, sql) = (format!("v{id}"), format!("of {id}"));
        (
            id,
            Arc::new(SqlView {
                id,
                name,
                schema: PUBLIC_SCHEMA,
                columns: Vec::new(),
                sql,
                uses,
                comments: Comments::default(),
                materialized: None,
            }),
        )
    }

    fn renumber(sql: &str, numbers: &Numbers) -> Result<String> {
        Ok(format!("{sql} is {}", numbers.relation(3)?))
    }

    #[test]
    fn what_a_view_reads_is_defined_before_it() {
        let sequence = Sequence::define(3, "s", &SequenceOptions::default()).unwrap();
        let sequences = BTreeMap::from([(3, Arc::new(sequence))]);
        // A view that was replaced may read one that was made later.
        let views = BTreeMap::from([view(5, &[9]), view(7, &[]), view(9, &[7])]);
        let own = Private { sequences, views, ..Private::default() };
        let groups = definitions(&own, &Numbers::of_private(&own, 100), renumber).unwrap();
        let made = groups.iter().flatten().map(|edit| match edit {
            PrivateEdit::CreateSequence(sequence) => (sequence.id, String::new()),
            PrivateEdit::CreateView(view) => (view.id, format!("{} {:?}", view.sql, view.uses)),
            other => panic!("{other:?}"),
        });
        let made: Vec<_> = made.collect();
        let expected =
            [(100, ""), (102, "of 7 is 100 {}"), (103, "of 9 is 100 {102: {1}}"), (101, "of 5 is 100 {103: {1}}")];
        assert_eq!(made, expected.map(|(id, text)| (id, text.to_owned())));
    }

    #[test]
    fn many_relations_are_defined_by_several_edits() {
        let views = (1..=2 * EDITS_MAX as u32).map(|id| view(id, &[])).collect();
        let sequences = BTreeMap::new();
        let own = Private { views, sequences, ..Private::default() };
        let plain: Renumber = |sql, _| Ok(sql.to_owned());
        let groups = definitions(&own, &Numbers::of_private(&own, 1), plain).unwrap();
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [EDITS_MAX, EDITS_MAX]);
        let unknown = definitions(&own, &Numbers::default(), plain).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Corrupt);
    }
}
