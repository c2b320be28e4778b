//! Rights on the relations of a database, as PostgreSQL has them: owners, and lists of what was granted.
//!
//! A list belongs to an object, given by OID, of one tenant's database: a table, a view, a sequence, or the schema
//! `public`. Shared tables have one in each database, so that each tenant grants rights on its own rows. An object that
//! names no owner belongs to the owner of the database, as the shared tables and `public` always do
//! ([`DATABASE_OWNER`]). All functions here are pure; [`Private`](crate::Private) applies the edits, and
//! [`Snapshot`](crate::Snapshot) knows who is a member of which role.

use crate::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    ops::{BitAnd, BitOr, Not},
};

/// The grantee of what everybody may do: no role's OID.
pub const PUBLIC: u32 = 0;
/// The OID that stands for the operators: PostgreSQL's bootstrap superuser. It owns what no role made.
pub const OPERATORS: u32 = 10;
/// `pg_database_owner`: the role of the owner of the database that a session is in.
pub const DATABASE_OWNER: u32 = 6171;
/// `pg_read_all_data`: it may read every relation.
pub const READ_ALL_DATA: u32 = 6181;
/// `pg_write_all_data`: it may change the rows of every relation.
pub const WRITE_ALL_DATA: u32 = 6182;
/// The predefined roles.
pub const PREDEFINED: [(u32, &str); 3] =
    [(DATABASE_OWNER, "pg_database_owner"), (READ_ALL_DATA, "pg_read_all_data"), (WRITE_ALL_DATA, "pg_write_all_data")];
/// The OID of the schema `public`.
pub const PUBLIC_SCHEMA: u32 = 2200;
/// Items in the list of an object. PostgreSQL has room for about as many in a row of its catalog.
pub const ITEMS_MAX: usize = 1_000;

/// A set of privileges, as PostgreSQL's bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Privileges(pub u16);

/// Letters of privileges and their names, in the order of their bits.
pub const PRIVILEGES: [(char, &str); 12] = [
    ('a', "INSERT"),
    ('r', "SELECT"),
    ('w', "UPDATE"),
    ('d', "DELETE"),
    ('D', "TRUNCATE"),
    ('x', "REFERENCES"),
    ('t', "TRIGGER"),
    ('X', "EXECUTE"),
    ('U', "USAGE"),
    ('C', "CREATE"),
    ('T', "TEMPORARY"),
    ('c', "CONNECT"),
];

impl Privileges {
    /// No privilege.
    pub const NONE: Self = Self(0);
    /// `INSERT`
    pub const INSERT: Self = Self(1);
    /// `SELECT`
    pub const SELECT: Self = Self(1 << 1);
    /// `UPDATE`
    pub const UPDATE: Self = Self(1 << 2);
    /// `DELETE`
    pub const DELETE: Self = Self(1 << 3);
    /// `TRUNCATE`
    pub const TRUNCATE: Self = Self(1 << 4);
    /// `USAGE`
    pub const USAGE: Self = Self(1 << 8);
    /// `CREATE`
    pub const CREATE: Self = Self(1 << 9);
    /// `TEMPORARY`
    pub const TEMPORARY: Self = Self(1 << 10);
    /// `CONNECT`
    pub const CONNECT: Self = Self(1 << 11);

    /// The privilege of a name, in upper case.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "TEMP" { "TEMPORARY" } else { name };
        PRIVILEGES.iter().position(|(_, known)| *known == name).map(|bit| Self(1 << bit))
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of the others are among them.
    pub fn has(self, others: Self) -> bool {
        self & others == others
    }

    /// Letters and names of them, in PostgreSQL's order.
    pub fn each(self) -> impl Iterator<Item = (Self, char, &'static str)> {
        let all = (0_u16..).zip(PRIVILEGES).map(|(bit, (letter, name))| (Self(1 << bit), letter, name));
        all.filter(move |(one, ..)| self.has(*one))
    }
}

impl BitOr for Privileges {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Privileges {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Privileges {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

/// A kind of object with a list of rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// A table or a view.
    Relation,
    /// A sequence.
    Sequence,
    /// The schema `public`.
    Schema,
    /// A schema that the tenant has created: at first only its owner may use it.
    OwnSchema,
}

impl ObjectKind {
    /// All privileges that such an object has.
    pub fn all(self) -> Privileges {
        match self {
            Self::Relation => Privileges(0x7F),
            Self::Sequence => Privileges::SELECT | Privileges::UPDATE | Privileges::USAGE,
            Self::Schema | Self::OwnSchema => Privileges::USAGE | Privileges::CREATE,
        }
    }

    /// The list of such an object before anything was granted or revoked.
    pub fn default_items(self, owner: u32) -> Vec<AclItem> {
        let item = |grantee, privileges| AclItem { grantee, grantor: owner, privileges, grantable: Privileges::NONE };
        let public = (self == Self::Schema).then(|| item(PUBLIC, Privileges::USAGE));
        [item(owner, self.all())].into_iter().chain(public).collect()
    }
}

/// What one role granted another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AclItem {
    /// The role that may, or [`PUBLIC`].
    pub grantee: u32,
    /// The role that granted it: the owner, or one with the grant option.
    pub grantor: u32,
    /// What.
    pub privileges: Privileges,
    /// What of it the grantee may grant.
    #[serde(default, skip_serializing_if = "none_are")]
    pub grantable: Privileges,
}

fn none_are(privileges: &Privileges) -> bool {
    privileges.is_empty()
}

/// The rights on one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRights {
    /// The owner; `None` for the owner of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// The list; `None` for [the one that such objects have at first](ObjectKind::default_items).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Vec<AclItem>>,
}

/// What a role's new objects are granted: `ALTER DEFAULT PRIVILEGES`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultRights {
    /// The lists.
    pub lists: Vec<DefaultList>,
}

/// The list of a role's new objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefaultList {
    /// The kind of objects.
    pub kind: ObjectKind,
    /// The schema that `IN SCHEMA` named: it adds to the list without a schema then.
    #[serde(with = "in_schema")]
    pub in_schema: Option<u32>,
    /// The list.
    pub items: Vec<AclItem>,
}

/// The schema of a list in its stored form: `false` for none, `true` for `public`, as before there were others, else
/// the OID.
mod in_schema {
    use super::PUBLIC_SCHEMA;
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Public(bool),
        Other(u32),
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(super) fn serialize<S: Serializer>(schema: &Option<u32>, to: S) -> Result<S::Ok, S::Error> {
        match schema {
            None => to.serialize_bool(false),
            Some(PUBLIC_SCHEMA) => to.serialize_bool(true),
            Some(other) => to.serialize_u32(*other),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
        Ok(match Form::deserialize(from)? {
            Form::Public(is) => is.then_some(PUBLIC_SCHEMA),
            Form::Other(oid) => Some(oid),
        })
    }
}

/// Whose list an edit changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListOf {
    /// An object's, given by OID.
    Object(u32),
    /// That of a role's new objects.
    Default {
        /// The role that makes them.
        role: u32,
        /// Their kind.
        kind: ObjectKind,
        /// The schema of `IN SCHEMA`.
        #[serde(with = "in_schema")]
        in_schema: Option<u32>,
    },
}

/// A change of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListChange {
    /// `GRANT`
    Grant(AclItem),
    /// `REVOKE`
    Revoke {
        /// Whose privileges, granted by whom, and which. What is `grantable` is revoked as a grant option.
        item: AclItem,
        /// Whether what the grantee has granted on goes too.
        cascade: bool,
    },
}

impl ObjectRights {
    /// The role that the object belongs to.
    pub fn owner(&self) -> u32 {
        self.owner.unwrap_or(DATABASE_OWNER)
    }

    /// The list.
    pub fn items(&self, kind: ObjectKind) -> Vec<AclItem> {
        self.items.clone().unwrap_or_else(|| kind.default_items(self.owner()))
    }

    /// What one of some roles may do, and what of it grant. The roles' OIDs are those that a session has the rights of.
    pub fn of_roles(&self, kind: ObjectKind, roles: &BTreeSet<u32>) -> (Privileges, Privileges) {
        let owns = roles.contains(&self.owner());
        let mut granted = match &self.items {
            Some(items) => sum(items, |item| item.grantee == PUBLIC || roles.contains(&item.grantee)),
            None if owns => (kind.all(), kind.all()),
            None => sum(&kind.default_items(self.owner()), |item| item.grantee == PUBLIC),
        };
        if owns {
            granted.1 = kind.all();
        }
        granted.0 = granted.0 | predefined(kind, roles);
        granted
    }

    /// Gives the object to another role: what the old owner granted, the new one has granted.
    pub fn set_owner(&mut self, owner: u32) {
        let old = self.owner();
        if let Some(items) = &mut self.items {
            for item in items.iter_mut() {
                let renamed = |role: u32| if role == old { owner } else { role };
                (item.grantee, item.grantor) = (renamed(item.grantee), renamed(item.grantor));
            }
            let merged = std::mem::take(items).into_iter().fold(Vec::new(), |mut merged, item| {
                add(&mut merged, item);
                merged
            });
            *items = merged;
        }
        self.owner = Some(owner);
    }

    /// The roles that it names, but PUBLIC.
    pub fn roles(&self) -> impl Iterator<Item = u32> {
        let items = self.items.iter().flatten().flat_map(|item| [item.grantee, item.grantor]);
        self.owner.into_iter().chain(items).filter(|role| *role != PUBLIC)
    }
}

/// What the predefined roles may do with every object.
fn predefined(kind: ObjectKind, roles: &BTreeSet<u32>) -> Privileges {
    let (read, write) = match kind {
        ObjectKind::Schema | ObjectKind::OwnSchema => (Privileges::USAGE, Privileges::USAGE),
        _ => (Privileges::SELECT, (Privileges::INSERT | Privileges::UPDATE | Privileges::DELETE) & kind.all()),
    };
    let of = |role: u32, privileges| if roles.contains(&role) { privileges } else { Privileges::NONE };
    of(READ_ALL_DATA, read) | of(WRITE_ALL_DATA, write)
}

/// All privileges, and all grant options, of some items.
fn sum(items: &[AclItem], is: impl Fn(&AclItem) -> bool) -> (Privileges, Privileges) {
    let start = (Privileges::NONE, Privileges::NONE);
    items
        .iter()
        .filter(|item| is(item))
        .fold(start, |(all, grantable), item| (all | item.privileges, grantable | item.grantable))
}

/// Adds to the item of the same roles.
fn add(items: &mut Vec<AclItem>, new: AclItem) {
    match items.iter_mut().find(|item| (item.grantee, item.grantor) == (new.grantee, new.grantor)) {
        Some(item) => {
            (item.privileges, item.grantable) = (item.privileges | new.privileges, item.grantable | new.grantable);
        }
        None => items.push(new),
    }
}

/// The list after a change. `owner` has all grant options.
///
/// # Errors
/// [`InUse`](ErrorKind::InUse) for privileges that the grantee has granted on; [`Invalid`](ErrorKind::Invalid) for a
/// grant option of PUBLIC; [`TooMuch`](ErrorKind::TooMuch) beyond [`ITEMS_MAX`].
pub fn changed(items: Vec<AclItem>, owner: u32, change: &ListChange) -> Result<Vec<AclItem>> {
    let mut items = items;
    match change {
        ListChange::Grant(item) => {
            if item.grantee == PUBLIC && !item.grantable.is_empty() {
                return Err(Error::new(ErrorKind::InvalidGrant, "grant options can only be granted to roles"));
            }
            add(&mut items, *item);
        }
        ListChange::Revoke { item, cascade } => revoke(&mut items, owner, *item, *cascade)?,
    }
    items.retain(|item| !item.privileges.is_empty());
    if items.len() > ITEMS_MAX {
        let message = format!("an object has at most {ITEMS_MAX} grants");
        return Err(Error::new(ErrorKind::TooMuch, message).with_hint("Grant to a role that others are members of."));
    }
    Ok(items)
}

fn revoke(items: &mut Vec<AclItem>, owner: u32, gone: AclItem, cascade: bool) -> Result<()> {
    let mut lost = Privileges::NONE;
    for item in items.iter_mut().filter(|item| (item.grantee, item.grantor) == (gone.grantee, gone.grantor)) {
        lost = lost | (item.grantable & (gone.privileges | gone.grantable));
        item.privileges = item.privileges & !gone.privileges;
        item.grantable = item.grantable & !(gone.privileges | gone.grantable);
    }
    if gone.grantee == owner {
        return Ok(());
    }
    // What others gave the grantee to grant, it may have granted by.
    let (_, still) = sum(items, |item| item.grantee == gone.grantee);
    let lost = lost & !still;
    let passed_on = |item: &&AclItem| item.grantor == gone.grantee && !(item.privileges & lost).is_empty();
    while let Some(next) = items.iter().find(passed_on).copied() {
        if !cascade {
            return Err(
                Error::new(ErrorKind::InUse, "dependent privileges exist").with_hint("Use CASCADE to revoke them too.")
            );
        }
        let next = AclItem { privileges: next.privileges & lost, grantable: Privileges::NONE, ..next };
        revoke(items, owner, next, cascade)?;
    }
    Ok(())
}

/// In whose name one of some roles grants privileges: the owner's for the roles that have its rights, else that of the
/// role that may grant the most of them; and which of them it may grant. `me` is the session's own role.
pub fn best_grantor(
    (rights, kind): (&ObjectRights, ObjectKind),
    (me, roles): (u32, &BTreeSet<u32>),
    wanted: Privileges,
) -> (u32, Privileges) {
    if roles.contains(&rights.owner()) {
        return (rights.owner(), wanted);
    }
    let items = rights.items(kind);
    let of = |role: u32| sum(&items, |item| item.grantee == role).1 & wanted;
    let mut best = (me, of(me));
    for role in roles {
        if of(*role).0.count_ones() > best.1.0.count_ones() {
            best = (*role, of(*role));
        }
    }
    best
}

impl DefaultRights {
    /// The list of a kind.
    pub fn list(&self, kind: ObjectKind, in_schema: Option<u32>) -> Option<&DefaultList> {
        self.lists.iter().find(|list| (list.kind, list.in_schema) == (kind, in_schema))
    }

    /// Changes the list of a kind. A list that says nothing more is forgotten.
    ///
    /// # Errors
    /// Those of [`changed`].
    pub fn change(&mut self, role: u32, kind: ObjectKind, in_schema: Option<u32>, change: &ListChange) -> Result<()> {
        let first = if in_schema.is_some() { Vec::new() } else { kind.default_items(role) };
        let old = self.list(kind, in_schema).map_or_else(|| first.clone(), |list| list.items.clone());
        let items = changed(old, role, change)?;
        self.lists.retain(|list| (list.kind, list.in_schema) != (kind, in_schema));
        if items != first {
            self.lists.push(DefaultList { kind, in_schema, items });
        }
        Ok(())
    }

    /// The list of a new object of the role in a schema; `None` for that which all objects have at first.
    pub fn items(&self, owner: u32, kind: ObjectKind, schema: u32) -> Option<Vec<AclItem>> {
        let first = kind.default_items(owner);
        let mut items = self.list(kind, None).map_or_else(|| first.clone(), |list| list.items.clone());
        for item in self.list(kind, Some(schema)).into_iter().flat_map(|list| &list.items) {
            add(&mut items, *item);
        }
        (items != first).then_some(items)
    }

    /// The roles that it names, but PUBLIC.
    pub fn roles(&self) -> impl Iterator<Item = u32> {
        let items = self.lists.iter().flat_map(|list| &list.items);
        items.flat_map(|item| [item.grantee, item.grantor]).filter(|role| *role != PUBLIC)
    }
}

#[cfg(test)]
mod tests;
