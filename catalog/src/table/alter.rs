//! `ALTER TABLE`: changes of a table's definition. Each takes a table and returns the changed one. If existing rows
//! must be checked or rewritten ([`Table::effect_on_rows`]), the caller does it; only private tables have such changes.

use super::{
    ColumnDefinition, ColumnPlace, Options, Table,
    define::{check_name, check_type, hidden_key, unsupported_in_private},
};
use crate::value::seconds::SECOND_DIGITS_MAX;
use crate::{
    Column, Encoding, Error, ErrorKind, KeyEncoding, KeyPart, KeySchema, PartOrder, Result, SqlType, TableFamily,
};

/// What a change of a table requires of its existing rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowEffect {
    /// The rows stay as they are.
    Nothing,
    /// The rows must satisfy the new constraints.
    Check,
    /// The rows must satisfy the new constraints and be rewritten: under another key, or with an additional value.
    Rewrite,
}

impl Table {
    /// Adds a column. Its family may be omitted if the table has only one.
    ///
    /// # Errors
    /// [`ColumnExists`](ErrorKind::ColumnExists), [`NoColumn`](ErrorKind::NoColumn) for the family, and
    /// [`Unsupported`](ErrorKind::Unsupported) for NOT NULL in a shared table: existing rows have no value.
    pub fn add_column(&self, column: &ColumnDefinition) -> Result<Self> {
        let family = match (&column.family, self.families.as_slice()) {
            (Some(family), _) => family.clone(),
            (None, [family]) => family.name.to_string(),
            (None, _) => {
                return Err(Error::new(ErrorKind::Invalid, format!("column \"{}\" belongs to no family", column.name))
                    .with_hint("Name one: ADD COLUMN … FAMILY name."));
            }
        };
        if column.not_null && !self.is_private() {
            let message = format!("column \"{}\" cannot be added as NOT NULL", column.name);
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_detail("The rows that are there have no value for it."));
        }
        if self.is_private() && column.is_placed() {
            return Err(unsupported_in_private(&format!("the qualifier or encoding of column \"{}\"", column.name)));
        }
        let mut table = self.clone();
        let encoding = column.encoding.clone().or(self.open_encoding(&family)).unwrap_or_default();
        table.push_cell_column(column, &family, encoding)?;
        Ok(table)
    }

    /// Drops a column. Of a shared table its cells are hidden and to be [erased](crate::Erasure); the rows of a private
    /// table are rewritten without them ([`erases_from`](Self::erases_from)).
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn); [`InUse`](ErrorKind::InUse) for a part of the key.
    pub fn drop_column(&self, name: &str) -> Result<Self> {
        let at = self.position(name)?;
        let mut table = self.clone();
        // As in PostgreSQL, CHECK constraints on the column are dropped with it.
        table.checks.retain(|check| !check.columns.iter().any(|column| column == name));
        match table.columns.remove(at).place {
            ColumnPlace::Key(_) => {
                let message = format!("cannot drop column \"{name}\" because it is part of the primary key");
                Err(Error::new(ErrorKind::InUse, message))
            }
            ColumnPlace::Cell { family, qualifier, .. } => {
                if !table.is_private() {
                    table.erasing.push((family.clone(), qualifier.clone()));
                }
                table.retired.push((family, qualifier));
                Ok(table)
            }
            ColumnPlace::Open { family, .. } => {
                let message = format!("cannot drop column \"{name}\" because it shows the open family \"{family}\"");
                Err(Error::new(ErrorKind::InUse, message)
                    .with_hint(format!("ALTER TABLE … DROP FAMILY {family} drops both.")))
            }
        }
    }

    /// Renames a column; its values stay where they are stored.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn), [`ColumnExists`](ErrorKind::ColumnExists), [`Reserved`](ErrorKind::Reserved).
    pub fn rename_column(&self, from: &str, to: &str) -> Result<Self> {
        let at = self.position(from)?;
        check_name("column", to)?;
        self.check_column_name(to)?;
        if let Some(check) = self.checks.iter().find(|check| check.columns.iter().any(|column| column == from)) {
            let message = format!("renaming column \"{from}\", which constraint \"{}\" names", check.name);
            return Err(Error::new(ErrorKind::Unsupported, message).with_hint("Drop the constraint and add it again."));
        }
        if self.column(to).is_some() {
            return Err(self.column_exists(to));
        }
        let mut table = self.clone();
        if let ColumnPlace::Key(part) = table.columns[at].place {
            to.clone_into(&mut table.key.parts[part].name);
        }
        to.clone_into(&mut table.columns[at].name);
        Ok(table)
    }

    /// Renames the table; the name of the store's table stays.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid).
    pub fn rename(&self, to: &str) -> Result<Self> {
        check_name("table", to)?;
        Ok(Self { name: to.to_owned(), ..self.clone() })
    }

    /// Changes a column's type, if every stored value reads the same as the new type.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn); [`Unsupported`](ErrorKind::Unsupported) for every other type.
    pub fn alter_type(&self, name: &str, kind: SqlType) -> Result<Self> {
        let at = self.position(name)?;
        check_type(kind)?;
        if !self.reads_as(name, kind)? {
            let message = format!("cannot change column \"{name}\" from {} to {kind}", self.columns[at].kind);
            return Err(Error::new(ErrorKind::Unsupported, message)
                .with_detail("What is stored would not read the same.")
                .with_hint("Add a column of the new type, UPDATE it from this one, then drop this one."));
        }
        let mut table = self.clone();
        table.columns[at].kind = kind;
        // As in PostgreSQL: the column is of the plain type now.
        (table.columns[at].enumerated, table.columns[at].domain) = (None, None);
        if let ColumnPlace::Key(part) = table.columns[at].place {
            table.key.parts[part].kind = kind;
        }
        Ok(table)
    }

    /// Whether every stored value of a column reads the same as another type.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn).
    pub fn reads_as(&self, name: &str, kind: SqlType) -> Result<bool> {
        let column = &self.columns[self.position(name)?];
        Ok(match &column.place {
            ColumnPlace::Key(_) => widens(column.kind, kind),
            ColumnPlace::Cell { encoding, .. } => reads_as(column.kind, kind, encoding),
            ColumnPlace::Open { .. } => column.kind == kind,
        })
    }

    /// Changes a column's type to any: the rows have to be written anew.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn); [`Unsupported`](ErrorKind::Unsupported) for a shared table, whose rows are
    /// every tenant's, and for types that no key can hold; [`Invalid`](ErrorKind::Invalid) for an identity column that
    /// would be no integer.
    pub fn retyped(&self, name: &str, kind: SqlType) -> Result<Self> {
        if !self.is_private() {
            return self.alter_type(name, kind);
        }
        let at = self.position(name)?;
        check_type(kind)?;
        let is_integer = matches!(kind, SqlType::Int2 | SqlType::Int4 | SqlType::Int8);
        if self.columns[at].identity.is_some() && !is_integer {
            let message = "identity column type must be smallint, integer, or bigint";
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut table = self.clone();
        let column = &mut table.columns[at];
        column.kind = kind;
        (column.enumerated, column.domain) = (None, None);
        match &mut column.place {
            ColumnPlace::Key(part) => table.key.parts[*part].kind = kind,
            ColumnPlace::Cell { encoding, .. } => *encoding = Encoding::default(),
            ColumnPlace::Open { .. } => {}
        }
        table.key.check()?;
        Ok(table)
    }

    /// Drops a column's NOT NULL.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn); [`Invalid`](ErrorKind::Invalid) for a part of the key.
    pub fn drop_not_null(&self, name: &str) -> Result<Self> {
        let at = self.position(name)?;
        let mut table = self.clone();
        if let ColumnPlace::Key(_) = table.columns[at].place {
            return Err(Error::new(ErrorKind::Invalid, format!("column \"{name}\" is in a primary key")));
        }
        table.columns[at].not_null = false;
        Ok(table)
    }

    /// Sets a column's NOT NULL.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn); [`Unsupported`](ErrorKind::Unsupported) for a shared table.
    pub fn set_not_null(&self, name: &str) -> Result<Self> {
        let at = self.position(name)?;
        self.check_private("ALTER COLUMN … SET NOT NULL")?;
        let mut table = self.clone();
        table.columns[at].not_null = true;
        Ok(table)
    }

    /// Adds a primary key to a table without one: its columns, and the order of each.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn), [`ColumnExists`](ErrorKind::ColumnExists) for one twice;
    /// [`Invalid`](ErrorKind::Invalid) for a table that has a primary key; [`Unsupported`](ErrorKind::Unsupported) for
    /// a shared table and for types that no key can hold.
    pub fn add_primary_key(&self, parts: &[(String, PartOrder)]) -> Result<Self> {
        if !self.has_hidden_key() {
            let message = format!("multiple primary keys for table \"{}\" are not allowed", self.name);
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut table = self.clone();
        let mut key = KeySchema { encoding: KeyEncoding::Ordered, parts: Vec::new(), salt: 0, with_tenant: false };
        for (part, (name, order)) in parts.iter().enumerate() {
            if key.parts.iter().any(|other| other.name == *name) {
                let message = format!("column \"{name}\" appears twice in primary key constraint");
                return Err(Error::new(ErrorKind::ColumnExists, message));
            }
            let column = table.columns.iter_mut().find(|column| column.name == *name).ok_or_else(|| {
                Error::new(ErrorKind::NoColumn, format!("column \"{name}\" named in key does not exist"))
            })?;
            (column.place, column.not_null) = (ColumnPlace::Key(part), true);
            key.parts.push(KeyPart { name: name.clone(), kind: column.kind, order: *order });
        }
        key.check()?;
        table.key = key;
        Ok(table)
    }

    /// Drops the primary key of a private table, which then has a hidden key. The columns stay, and stay NOT NULL.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for a shared table.
    pub fn drop_primary_key(&self) -> Result<Self> {
        self.check_private("dropping the primary key")?;
        let mut table = self.clone();
        for at in 0..table.columns.len() {
            if let ColumnPlace::Key(_) = table.columns[at].place {
                let family = table.families[0].name.clone();
                let qualifier = table.free_qualifier(&family, &table.columns[at].name);
                table.columns[at].place = ColumnPlace::Cell { family, qualifier, encoding: Encoding::default() };
                table.columns[at].not_null = true;
            }
        }
        table.key = hidden_key();
        Ok(table)
    }

    /// Whether this table lacks a column of the table `before` whose values are cells.
    pub fn erases_from(&self, before: &Self) -> bool {
        self.dropped_columns(before).next().is_some()
    }

    /// The columns of the table `before`, in cells, that this one lacks.
    pub fn dropped_columns<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a Column> {
        let is_kept = |column: &Column| self.columns.iter().any(|kept| kept.id == column.id);
        let in_cells = |column: &Column| matches!(column.place, ColumnPlace::Cell { .. });
        before.columns.iter().filter(move |column| in_cells(column) && !is_kept(column))
    }

    /// The families of the table `before` that this one lacks.
    pub fn dropped_families<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = &'a TableFamily> {
        before.families.iter().filter(|family| self.families.iter().all(|kept| kept.id != family.id))
    }

    /// What the change from the table `before` to this one requires of the existing rows; the cells of dropped columns
    /// aside.
    pub fn effect_on_rows(&self, before: &Self) -> RowEffect {
        let old = |id: u16| before.columns.iter().find(|column| column.id == id);
        let moved = |id: u16, place: &ColumnPlace| old(id).is_some_and(|old| old.place != *place);
        let filled = |id: u16, has: bool| old(id).is_none() && has;
        if before.key.parts.len() != self.key.parts.len()
            || self.columns.iter().any(|column| moved(column.id, &column.place))
            || self.columns.iter().any(|column| filled(column.id, column.default.is_some()))
        {
            return RowEffect::Rewrite;
        }
        let stricter = |id: u16, not_null: bool| not_null && old(id).is_none_or(|old| !old.not_null);
        let checked = self.columns.iter().any(|column| stricter(column.id, column.not_null))
            || self.checks.iter().any(|check| !before.checks.contains(check));
        if checked { RowEffect::Check } else { RowEffect::Nothing }
    }

    fn check_private(&self, what: &str) -> Result<()> {
        if self.is_private() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unsupported, format!("{what} of a shared table is not supported"))
            .with_detail("It would be a change of every tenant's rows."))
    }

    /// Changes options: policies, history, and the GC rules of families. A rule keeps the limit (versions or age) that
    /// is not named.
    ///
    /// # Errors
    /// Those of [`Options::parse`]; [`Unsupported`](ErrorKind::Unsupported) for options that are fixed at creation.
    pub fn set_options(&self, pairs: &[(String, String)]) -> Result<Self> {
        let options = Options::parse(pairs)?;
        if let (true, Some((option, _))) = (self.is_private(), pairs.first()) {
            return Err(unsupported_in_private(&format!("parameter \"{option}\"")));
        }
        options.check_changeable()?;
        options.check_families(self)?;
        let mut table = self.clone();
        table.on_bad_value = options.on_bad_value.unwrap_or(table.on_bad_value);
        table.on_bad_key = options.on_bad_key.unwrap_or(table.on_bad_key);
        table.history_micros = options.history_micros.unwrap_or(table.history_micros);
        for family in &mut table.families {
            family.gc = options.change(family.name.as_str(), &family.gc, family.aggregate)?;
        }
        Ok(table)
    }

    /// Adds a family with its options, named as in [`set_options`](Self::set_options); an open one with its column.
    ///
    /// # Errors
    /// [`ColumnExists`](ErrorKind::ColumnExists), [`Reserved`](ErrorKind::Reserved), and those of [`Options::parse`].
    pub fn add_family(&self, name: &str, open: bool, pairs: &[(String, String)]) -> Result<Self> {
        if self.is_private() {
            return Err(unsupported_in_private(&format!("family \"{name}\"")));
        }
        let options = Options::parse(pairs)?;
        let mut table = self.clone();
        table.push_family(name, &options)?;
        if let Some((other, _)) = pairs.iter().find(|(option, _)| option.rsplit_once('.').is_none_or(|of| of.0 != name))
        {
            let message = format!("parameter \"{other}\" is none of family \"{name}\"");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        if open {
            table.push_open_column(name, &options)?;
        }
        Ok(table)
    }

    /// Drops a family without declared columns, and its cells; of an open one its column, too.
    ///
    /// # Errors
    /// [`NoColumn`](ErrorKind::NoColumn); [`InUse`](ErrorKind::InUse) when it has columns or is the only one.
    pub fn drop_family(&self, name: &str) -> Result<Self> {
        let in_use = |why: String| {
            let message = format!("cannot drop family \"{name}\" of relation \"{}\"", self.name);
            Err(Error::new(ErrorKind::InUse, message).with_detail(why))
        };
        let at = self.families.iter().position(|family| family.name.as_str() == name);
        let at = at.ok_or_else(|| self.no_family(name))?;
        let column = self
            .columns
            .iter()
            .find(|column| matches!(&column.place, ColumnPlace::Cell { family, .. } if family.as_str() == name));
        if let Some(column) = column {
            return in_use(format!("Column \"{}\" is in it.", column.name));
        }
        if self.families.len() == 1 {
            return in_use("A table has at least one family.".into());
        }
        let mut table = self.clone();
        let family = table.families.remove(at);
        table.erasing.retain(|(of, _)| *of != family.name);
        if let Some(open) = self.open_column(name) {
            table.columns.retain(|column| column.id != open.id);
            table.checks.retain(|check| !check.columns.contains(&open.name));
        }
        Ok(table)
    }

    fn position(&self, name: &str) -> Result<usize> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| self.no_column(name))
    }
}

/// Whether every value of type `from` is one of type `to` as it is.
fn widens(from: SqlType, to: SqlType) -> bool {
    match (from, to) {
        _ if from == to => true,
        (SqlType::Text | SqlType::Varchar(_), SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Varchar(Some(from)), SqlType::Varchar(Some(to))) | (SqlType::Char(from), SqlType::Char(to)) => {
            from <= to
        }
        (SqlType::Varbit(Some(from)), SqlType::Varbit(Some(to)))
        | (SqlType::Bit(Some(from)), SqlType::Varbit(Some(to))) => from <= to,
        (SqlType::Bit(_) | SqlType::Varbit(_), SqlType::Varbit(None)) | (SqlType::Bit(_), SqlType::Bit(None)) => true,
        (SqlType::Char(_) | SqlType::Name, SqlType::Text | SqlType::Varchar(None)) => true,
        (SqlType::Time(from), SqlType::Time(to))
        | (SqlType::Timestamp(from), SqlType::Timestamp(to))
        | (SqlType::Timestamptz(from), SqlType::Timestamptz(to))
        | (SqlType::Interval(from), SqlType::Interval(to)) => {
            from.unwrap_or(SECOND_DIGITS_MAX) <= to.unwrap_or(SECOND_DIGITS_MAX)
        }
        _ => false,
    }
}

/// Whether the bytes of every value of type `from` decode to the same value of type `to`.
fn reads_as(from: SqlType, to: SqlType, encoding: &Encoding) -> bool {
    use SqlType::{Exact, Int2, Int4, Int8, Json, Jsonb, Numeric, Text, Varchar};
    match (from, to) {
        // Binary integers have the width of their type.
        (Json | Jsonb, _) if encoding.message().is_some() => from == to,
        (Int2, Int4 | Int8) | (Int4, Int8) => *encoding != Encoding::Binary,
        (Numeric { precision: p, scale: s }, Numeric { precision, scale }) => scale >= s && precision - scale >= p - s,
        (Numeric { .. } | Exact(_), Exact(None)) => true,
        // As JSON, a text is quoted and json is not.
        (Json | Jsonb, Text | Varchar(None)) => *encoding != Encoding::Json,
        (Jsonb, Json) => true,
        _ => widens(from, to),
    }
}
