//! `CREATE TABLE`: a definition, checked and turned into a [`Table`].

use super::{
    Column, ColumnPlace, HIDDEN_KEY, KEY_COLUMN, MARKER_FAMILY, Options, TENANT_COLUMN, Table, TableFamily,
    open::OPEN_ENCODING,
};
use crate::{
    Comments, Encoding, Error, ErrorKind, FamilyId, FoundDefinition, KeyEncoding, KeyPart, KeySchema, PartOrder,
    RemoteDefinition, RemoteTable, Result, SqlType, TableId,
    private::private_table,
    value::{bits, exact},
};
use keyspan_storage::{FamilyName, TableName, model::limits::FAMILIES_MAX};

/// Length limit of a name in SQL, in bytes: PostgreSQL's NAMEDATALEN less one.
const NAME_BYTES_MAX: usize = 63;
/// Maximum precision of a `numeric`.
const NUMERIC_DIGITS_MAX: u8 = 38;
/// The family of a table that declares no families.
pub(crate) const DEFAULT_FAMILY: &str = "cf";

/// A column as `CREATE TABLE` or `ADD COLUMN` declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDefinition {
    /// The name.
    pub name: String,
    /// Its type.
    pub kind: SqlType,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// The family, if the column names one.
    pub family: Option<String>,
    /// The encoding of values; `None` for the family's default.
    pub encoding: Option<Encoding>,
    /// The qualifier of its cells, if the definition names one.
    pub qualifier: Option<String>,
}

impl ColumnDefinition {
    /// Whether the definition says how the column's cells are stored.
    pub(super) fn is_placed(&self) -> bool {
        // Messages are of any table.
        self.qualifier.is_some() || self.encoding.as_ref().is_some_and(|encoding| encoding.message().is_none())
    }
}

/// A family as `CREATE TABLE` declares it: `FAMILY name (columns) OPEN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyDefinition {
    /// The name.
    pub name: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// Whether a column of the family's name shows all cells that are not those of declared columns.
    pub open: bool,
}

/// The content of `CREATE TABLE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableDefinition {
    /// The table's name.
    pub name: String,
    /// The columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// The columns of the primary key in order, and the order of each.
    pub primary_key: Vec<(String, PartOrder)>,
    /// The families in order.
    pub families: Vec<FamilyDefinition>,
    /// `WITH`: dotted names and the text of their values.
    pub options: Vec<(String, String)>,
    /// Where its rows are, if that is a server.
    pub remote: Option<RemoteDefinition>,
}

impl Table {
    /// Makes a shared table. `id` is the catalog's [next OID](crate::Snapshot::next_oid).
    ///
    /// # Errors
    /// When the definition is invalid: reserved or duplicate names, columns in no family or in several, a key that the
    /// encoding does not support, unknown options.
    pub fn define(id: TableId, definition: &TableDefinition) -> Result<Self> {
        check_name("table", &definition.name)?;
        let options = Options::parse(&definition.options)?;
        if definition.primary_key.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, format!("table \"{}\" has no primary key", definition.name))
                .with_hint("Declare PRIMARY KEY (…): it is the row key, and its order the order of the rows."));
        }
        let physical = physical_name(&definition.name, id)?;
        let mut table = Self::define_at(id, definition, &options, (physical, None))?;
        if let Some(RemoteDefinition { server, found }) = &definition.remote {
            table.remote = Some(match found {
                None => RemoteTable { server: *server, name: remote_name(&table.physical, id), found: None },
                Some(found) => {
                    table.take_families(found)?;
                    RemoteTable { server: *server, name: found.name.clone(), found: Some(found.found) }
                }
            });
        }
        Ok(table)
    }

    /// Gives the table the families of the one that was found, with their rules.
    fn take_families(&mut self, found: &FoundDefinition) -> Result<()> {
        let declared = std::mem::take(&mut self.families);
        let used = |name: &FamilyName| self.columns.iter().any(|column| column.place.family() == Some(name));
        if let Some(missing) =
            declared.iter().map(|family| &family.name).find(|name| used(name) && !found.families.contains_key(*name))
        {
            let message = format!("table \"{}\" of the server has no family \"{missing}\"", found.name);
            return Err(Error::new(ErrorKind::NoColumn, message));
        }
        self.next_family_id = 1;
        for (name, family) in found.families.iter().filter(|(name, _)| name.as_str() != MARKER_FAMILY) {
            let of_family = self.columns.iter().filter(|column| column.place.family() == Some(name));
            for column in of_family.filter(|_| family.aggregate.is_some()) {
                let fits = column.kind == SqlType::Int8
                    && matches!(&column.place, ColumnPlace::Cell { encoding: Encoding::Binary, .. });
                if !fits {
                    let message = format!("column \"{}\" of aggregate family \"{name}\" must be a bigint", column.name);
                    return Err(Error::new(ErrorKind::Invalid, message)
                        .with_detail("Cells of an aggregate family hold 64-bit integers, big-endian."));
                }
            }
            let (gc, aggregate) = (family.gc.clone(), family.aggregate);
            self.families.push(TableFamily { id: FamilyId(self.next_family_id), name: name.clone(), gc, aggregate });
            self.next_family_id += 1;
        }
        Ok(())
    }

    /// Makes a private table. It has one family, which keeps one version, and `ordered` keys; without a primary key, it
    /// has a hidden key. Its first space equals its OID.
    ///
    /// # Errors
    /// As [`define`](Self::define); [`Unsupported`](ErrorKind::Unsupported) for families and options, which only shared
    /// tables have.
    pub fn define_private(id: TableId, definition: &TableDefinition) -> Result<Self> {
        check_name("table", &definition.name)?;
        if let Some(column) = definition.columns.iter().find(|column| column.is_placed()) {
            return Err(unsupported_in_private(&format!("the qualifier or encoding of column \"{}\"", column.name)));
        }
        let of_family = definition.columns.iter().find_map(|column| column.family.as_ref());
        let family = definition.families.first().map(|family| &family.name).or(of_family);
        if let Some(what) = family.map(|name| format!("family \"{name}\"")).or_else(|| {
            let (option, _) = definition.options.first()?;
            Some(format!("parameter \"{option}\""))
        }) {
            return Err(unsupported_in_private(&what));
        }
        let options = [("key_encoding", "ordered"), ("cf.max_versions", "1")];
        let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self::define_at(id, definition, &Options::parse(&options)?, (private_table(), Some(id.0)))
    }

    fn define_at(
        id: TableId,
        definition: &TableDefinition,
        options: &Options,
        (physical, space): (TableName, Option<u32>),
    ) -> Result<Self> {
        let key = define_key(definition, options)?;
        let mut table = Self {
            id,
            name: definition.name.clone(),
            schema: crate::rights::PUBLIC_SCHEMA,
            physical,
            space,
            remote: None,
            families: Vec::new(),
            columns: Vec::new(),
            key,
            on_bad_value: options.on_bad_value.unwrap_or_default(),
            on_bad_key: options.on_bad_key.unwrap_or_default(),
            history_micros: options.history_micros.flatten(),
            checks: Vec::new(),
            next_column_id: 1,
            next_family_id: 1,
            retired: Vec::new(),
            erasing: Vec::new(),
            comments: Comments::default(),
        };
        for family in declared_families(definition) {
            table.push_family(&family, options)?;
        }
        options.check_families(&table)?;
        let is_open = |family: &str| definition.families.iter().any(|known| known.open && known.name == family);
        for column in &definition.columns {
            match definition.primary_key.iter().position(|(name, _)| *name == column.name) {
                Some(part) => table.push_key_column(column, part, definition)?,
                None => {
                    let family = family_of(column, definition)?;
                    let default = if is_open(&family) { OPEN_ENCODING } else { Encoding::default() };
                    let encoding = column.encoding.clone().or(options.encoding(&family)).unwrap_or(default);
                    table.push_cell_column(column, &family, encoding)?;
                }
            }
        }
        for family in definition.families.iter().filter(|family| family.open) {
            table.push_open_column(&family.name, options)?;
        }
        check_listed(definition)?;
        Ok(table)
    }

    /// Adds a family with those of `options` that are for it.
    pub(super) fn push_family(&mut self, name: &str, options: &Options) -> Result<()> {
        if name == MARKER_FAMILY {
            return Err(Error::new(ErrorKind::Reserved, format!("family name \"{name}\" is reserved")));
        }
        if self.family(name).is_some() {
            return Err(Error::new(ErrorKind::ColumnExists, format!("family \"{name}\" specified more than once")));
        }
        if self.families.len() + 1 >= FAMILIES_MAX {
            let message = format!("a table has at most {} families", FAMILIES_MAX - 1);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let name = FamilyName::new(name).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
        let (gc, aggregate) = options.family(name.as_str())?;
        self.families.push(TableFamily { id: FamilyId(self.next_family_id), name, gc, aggregate });
        self.next_family_id += 1;
        Ok(())
    }

    fn push_key_column(&mut self, column: &ColumnDefinition, part: usize, definition: &TableDefinition) -> Result<()> {
        let listed = definition.families.iter().any(|family| family.columns.contains(&column.name));
        if listed || column.family.is_some() {
            let message = format!("column \"{}\" is part of the primary key and belongs to no family", column.name);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if column.encoding.is_some() {
            let message = format!("column \"{}\" is part of the primary key and has no encoding", column.name);
            return Err(Error::new(ErrorKind::Invalid, message)
                .with_hint("The table's option key_encoding says how keys are written."));
        }
        if column.qualifier.is_some() {
            let message = format!("column \"{}\" is part of the primary key and has no qualifier", column.name);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        self.push_column(column, true, ColumnPlace::Key(part))
    }

    /// Adds a column that is stored in cells.
    pub(super) fn push_cell_column(
        &mut self,
        column: &ColumnDefinition,
        family: &str,
        encoding: Encoding,
    ) -> Result<()> {
        let Some(found) = self.family(family) else {
            return Err(self.no_family(family));
        };
        if found.aggregate.is_some() && (column.kind != SqlType::Int8 || encoding != Encoding::Binary) {
            let message = format!("column \"{}\" of aggregate family \"{family}\" must be a bigint", column.name);
            return Err(Error::new(ErrorKind::Invalid, message)
                .with_detail("Cells of an aggregate family hold 64-bit integers, big-endian."));
        }
        let family = found.name.clone();
        let qualifier = match &column.qualifier {
            Some(qualifier) => self.named_qualifier(&family, column, qualifier)?,
            None => self.free_qualifier(&family, &column.name),
        };
        self.push_column(column, column.not_null, ColumnPlace::Cell { family, qualifier, encoding })
    }

    pub(super) fn push_column(&mut self, column: &ColumnDefinition, not_null: bool, place: ColumnPlace) -> Result<()> {
        check_name("column", &column.name)?;
        self.check_column_name(&column.name)?;
        check_type(column.kind)?;
        if matches!(column.kind, SqlType::Char(_) | SqlType::Name | SqlType::Bit(_) | SqlType::Varbit(_))
            && !self.is_private()
        {
            let message =
                format!("column \"{}\" of type {} in a shared table is not supported", column.name, column.kind);
            let detail = match column.kind {
                SqlType::Bit(_) | SqlType::Varbit(_) => "What others have written to the store may be no bits.",
                SqlType::Name => "What others have written to the store may be longer than the type keeps.",
                _ => "What others have written to the store may end with blanks, which the type does not keep.",
            };
            return Err(Error::new(ErrorKind::Unsupported, message).with_detail(detail).with_hint("Take varchar."));
        }
        if self.column(&column.name).is_some() {
            return Err(self.column_exists(&column.name));
        }
        let too_many = || Error::new(ErrorKind::Invalid, "tables can have at most 65534 columns, dropped ones counted");
        let next = self.next_column_id.checked_add(1).ok_or_else(too_many)?;
        let (id, name, kind) = (self.next_column_id, column.name.clone(), column.kind);
        self.columns.push(Column {
            id,
            name,
            kind,
            not_null,
            place,
            default: None,
            identity: None,
            enumerated: None,
            domain: None,
        });
        self.next_column_id = next;
        Ok(())
    }

    /// A qualifier that no column of the family has or had.
    pub(super) fn free_qualifier(&self, family: &FamilyName, name: &str) -> String {
        let taken = |qualifier: &str| {
            let retired = self.retired.iter().any(|(of, retired)| of == family && retired == qualifier);
            let used = self.columns.iter().any(|column| {
                matches!(&column.place, ColumnPlace::Cell { family: of, qualifier: used, .. } if of == family && used == qualifier)
            });
            retired || used
        };
        let numbered = (1u32..).map(|number| format!("{name}~{number}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        candidates.find(|candidate| !taken(candidate)).expect("numbers do not run out before columns do")
    }

    /// Checks that a column's name is not reserved in this table.
    pub(super) fn check_column_name(&self, name: &str) -> Result<()> {
        if self.is_private() && name == HIDDEN_KEY {
            let hint = "It is the hidden key of a private table without a primary key.";
            let message = format!("column name \"{name}\" is reserved");
            return Err(Error::new(ErrorKind::Reserved, message).with_hint(hint));
        }
        check_column_name(name)
    }

    pub(super) fn no_column(&self, name: &str) -> Error {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
        Error::new(ErrorKind::NoColumn, message)
    }

    pub(super) fn column_exists(&self, name: &str) -> Error {
        let message = format!("column \"{name}\" of relation \"{}\" already exists", self.name);
        Error::new(ErrorKind::ColumnExists, message)
    }

    pub(super) fn no_family(&self, name: &str) -> Error {
        let message = format!("family \"{name}\" of relation \"{}\" does not exist", self.name);
        Error::new(ErrorKind::NoColumn, message)
    }
}

/// Checks the length of a name in SQL.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        let message = format!("{what} name \"{name}\" must have 1 to {NAME_BYTES_MAX} bytes");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(())
}

/// Checks that a column's name is not reserved in every table.
fn check_column_name(name: &str) -> Result<()> {
    if name == TENANT_COLUMN || name == KEY_COLUMN {
        let hint = "In the operator's database every table has a leading column tenant; raw() shows the key as _key.";
        return Err(
            Error::new(ErrorKind::Reserved, format!("column name \"{name}\" is reserved")).with_hint(hint.to_owned())
        );
    }
    Ok(())
}

/// Checks the length, precision and scale of a type.
pub(super) fn check_type(kind: SqlType) -> Result<()> {
    match kind {
        SqlType::Numeric { precision, scale }
            if !(1..=NUMERIC_DIGITS_MAX).contains(&precision) || scale > precision =>
        {
            let message = format!("{kind} must have a precision of 1 to {NUMERIC_DIGITS_MAX} and a scale within it");
            Err(Error::new(ErrorKind::Invalid, message))
        }
        SqlType::Exact(Some(digits))
            if !(1..=exact::PRECISION_MAX).contains(&digits.precision) || !(-1_000..=1_000).contains(&digits.scale) =>
        {
            let message = format!("{kind} must have a precision and a scale of at most {}", exact::PRECISION_MAX);
            Err(Error::new(ErrorKind::Invalid, message))
        }
        SqlType::Array(item) => check_type(item.kind()),
        SqlType::Char(0) => Err(Error::new(ErrorKind::Invalid, "length for type character must be at least 1")),
        SqlType::Bit(Some(0)) => Err(Error::new(ErrorKind::InvalidOption, "length for type bit must be at least 1")),
        SqlType::Varbit(Some(0)) => {
            Err(Error::new(ErrorKind::InvalidOption, "length for type varbit must be at least 1"))
        }
        SqlType::Bit(Some(length)) | SqlType::Varbit(Some(length)) if length > bits::BITS_MAX => {
            let name = if matches!(kind, SqlType::Bit(_)) { "bit" } else { "varbit" };
            Err(Error::new(
                ErrorKind::InvalidOption,
                format!("length for type {name} cannot exceed {}", bits::BITS_MAX),
            ))
        }
        SqlType::Varchar(Some(0)) => {
            Err(Error::new(ErrorKind::Invalid, "length for type character varying must be at least 1"))
        }
        _ => Ok(()),
    }
}

/// The name of the store's table: the name in SQL if the store allows it, and the id, so that it is never reused.
fn physical_name(name: &str, id: TableId) -> Result<TableName> {
    let readable = TableName::new(&format!("{name}-{}", id.0));
    readable.or_else(|_| TableName::new(&format!("table-{}", id.0))).map_err(Error::from)
}

/// The name of a table that is made on a server: as here, but Bigtable's names begin with a letter, a digit or `_`.
fn remote_name(physical: &TableName, id: TableId) -> TableName {
    let plain = || TableName::new(&format!("table-{}", id.0)).expect("letters and digits are a name");
    if physical.as_str().starts_with(['-', '.']) { plain() } else { physical.clone() }
}

/// The hidden key of a table without a primary key: a value that no row had before, in the order of insertion.
pub(super) fn hidden_key() -> KeySchema {
    let part = KeyPart { name: HIDDEN_KEY.to_owned(), kind: SqlType::Uuid, order: PartOrder::Ascending };
    KeySchema { encoding: KeyEncoding::Ordered, parts: vec![part], salt: 0, with_tenant: false }
}

/// The error for a feature that private tables do not have.
pub(super) fn unsupported_in_private(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} of a private table"))
        .with_detail("All private tables are stored in one family, and their keys are ordered.")
        .with_hint("An operator makes shared tables, which have families and options, in database \"keyspan\".")
}

fn define_key(definition: &TableDefinition, options: &Options) -> Result<KeySchema> {
    if definition.primary_key.is_empty() {
        return Ok(hidden_key());
    }
    let part = |(name, order): &(String, PartOrder)| {
        let column =
            definition.columns.iter().find(|column| column.name == *name).ok_or_else(|| {
                Error::new(ErrorKind::NoColumn, format!("column \"{name}\" named in key does not exist"))
            })?;
        Ok(KeyPart { name: name.clone(), kind: column.kind, order: *order })
    };
    let parts = definition.primary_key.iter().map(part).collect::<Result<_>>()?;
    let (encoding, salt) = (options.key_encoding.unwrap_or_default(), options.salt.unwrap_or_default());
    if encoding == KeyEncoding::Plain && definition.remote.as_ref().is_none_or(|remote| remote.found.is_none()) {
        let message = "key_encoding 'plain' of a table that was not found on a server";
        return Err(Error::new(ErrorKind::Unsupported, message)
            .with_hint("It is for keys that others write. There are delimited and ordered."));
    }
    let key = KeySchema { encoding, parts, salt, with_tenant: false };
    key.check()?;
    Ok(key)
}

/// The families in order: those of `FAMILY` clauses, then those that only columns name; the default family if there are
/// none.
fn declared_families(definition: &TableDefinition) -> Vec<String> {
    let mut names: Vec<String> = definition.families.iter().map(|family| family.name.clone()).collect();
    for family in definition.columns.iter().filter_map(|column| column.family.as_ref()) {
        if !names.contains(family) {
            names.push(family.clone());
        }
    }
    if names.is_empty() {
        names.push(DEFAULT_FAMILY.to_owned());
    }
    names
}

/// The family of a column.
fn family_of(column: &ColumnDefinition, definition: &TableDefinition) -> Result<String> {
    let listing = definition.families.iter().filter(|family| family.columns.contains(&column.name));
    let mut named: Vec<&String> = listing.map(|family| &family.name).chain(column.family.as_ref()).collect();
    named.dedup();
    match named.as_slice() {
        [family] => Ok((*family).clone()),
        [] if declared_families(definition) == [DEFAULT_FAMILY] && definition.families.is_empty() => {
            Ok(DEFAULT_FAMILY.to_owned())
        }
        [] => Err(Error::new(ErrorKind::Invalid, format!("column \"{}\" belongs to no family", column.name))
            .with_hint("Name it in one of the FAMILY clauses, or in the primary key.")),
        [first, second, ..] => {
            let message = format!("column \"{}\" belongs to families \"{first}\" and \"{second}\"", column.name);
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Checks that the columns that families list exist, each listed once.
fn check_listed(definition: &TableDefinition) -> Result<()> {
    for family in &definition.families {
        for (index, name) in family.columns.iter().enumerate() {
            if !definition.columns.iter().any(|column| column.name == *name) {
                let message = format!("column \"{name}\" named in family \"{}\" does not exist", family.name);
                return Err(Error::new(ErrorKind::NoColumn, message));
            }
            if family.columns[..index].contains(name) {
                let message = format!("column \"{name}\" appears twice in family \"{}\"", family.name);
                return Err(Error::new(ErrorKind::ColumnExists, message));
            }
        }
    }
    Ok(())
}
