//! Names of relations: their schema, and where a name without a schema is looked up.
//!
//! A database has the server's schemas, `public`, and what its users create ([`Schema`]). A [`RelationName`] is a name
//! as a statement wrote it; a
//! [`SearchPath`] says in which schemas one without a schema is looked up, in order: the setting `search_path`, with
//! PostgreSQL's two that need not be named before it. `lookup::find`, in the gateway, is the one way from a name to a
//! table or view of users; what DataFusion reads by name follows the same path (`query::schemas`).

use crate::error::{Result, SqlError, SqlState, subject::Subject};
use std::{fmt, ops::Deref, sync::Arc};

/// What names of the session's own schema of temporary tables begin with; it is an alias for that schema, too.
pub const TEMPORARY: &str = "pg_temp";

/// A schema of a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Schema {
    /// The session's temporary tables and views.
    Temporary,
    /// `pg_catalog`
    Catalog,
    /// `information_schema`
    Information,
    /// `public`: users' tables.
    Public,
    /// `keyspan`: what only the operator sees.
    Keyspan,
    /// One that users create, by name. Whether it exists, the catalog knows.
    Own(Arc<str>),
}

impl Schema {
    /// The schema of a name.
    pub fn named(name: &str) -> Self {
        Self::of(name).unwrap_or_else(|| Self::Own(name.into()))
    }

    /// The schema of a name that every database has; `pg_temp` is the session's own.
    pub fn of(name: &str) -> Option<Self> {
        let all = [Self::Temporary, Self::Catalog, Self::Information, Self::Public, Self::Keyspan];
        all.into_iter().find(|schema| schema.name() == name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Temporary => TEMPORARY,
            Self::Catalog => "pg_catalog",
            Self::Information => "information_schema",
            Self::Public => "public",
            Self::Keyspan => "keyspan",
            Self::Own(name) => name,
        }
    }

    /// Whether users make relations in it.
    pub fn is_of_users(&self) -> bool {
        matches!(self, Self::Temporary | Self::Public | Self::Own(_))
    }

    /// 3F000: the catalog does not have it.
    pub fn missing(&self) -> SqlError {
        SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{}\" does not exist", self.name()))
    }
}

/// A relation as a statement names it: it reads as the name without the schema.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RelationName {
    /// The schema that the statement names.
    pub schema: Option<Schema>,
    /// The name in the schema.
    pub name: String,
}

impl RelationName {
    /// A name without a schema.
    pub fn bare(name: impl Into<String>) -> Self {
        Self { schema: None, name: name.into() }
    }

    /// A name in a schema.
    pub fn within(schema: Schema, name: impl Into<String>) -> Self {
        Self { schema: Some(schema), name: name.into() }
    }

    /// As errors about missing relations write it.
    pub fn written(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.name(), self.name),
            None => self.name.clone(),
        }
    }

    /// As SQL reads it.
    pub fn sql(&self) -> String {
        let name = crate::ident::quoted(&self.name);
        match &self.schema {
            Some(schema) => format!("{}.{name}", crate::ident::quote_ident(schema.name())),
            None => name.to_string(),
        }
    }

    /// 42P01 for a relation, a table, ….
    pub fn missing(&self, what: &str) -> SqlError {
        let message = format!("{what} \"{}\" does not exist", self.written());
        SqlError::new(SqlState::UNDEFINED_TABLE, message).with_subject(Subject::Relation(self.written()))
    }
}

impl Deref for RelationName {
    type Target = str;
    fn deref(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for RelationName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.written())
    }
}

/// Where names without a schema are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath(Vec<Schema>);

impl Default for SearchPath {
    fn default() -> Self {
        Self(vec![Schema::Public])
    }
}

impl SearchPath {
    /// Of the setting's text, in a database without schemas that users created.
    pub fn of(setting: &str, operator: bool) -> Self {
        Self::among(setting, operator, "", |_| false)
    }

    /// Of the setting's text, for a role: `"$user"` is the schema of its name. `has` says whether it may use a schema
    /// that users created; others are skipped.
    pub fn among(setting: &str, operator: bool, role: &str, has: impl Fn(&str) -> bool) -> Self {
        let mut schemas: Vec<Schema> = Vec::new();
        for name in items(setting) {
            let name = if name == "$user" { role } else { name.as_str() };
            let schema = match Schema::named(name) {
                Schema::Own(name) if !has(&name) => continue,
                Schema::Keyspan if !operator => continue,
                schema => schema,
            };
            if !schemas.contains(&schema) {
                schemas.push(schema);
            }
        }
        Self(schemas)
    }

    /// Where a relation is looked up, in order.
    pub fn lookup(&self) -> impl Iterator<Item = Schema> + Clone {
        let before = [Schema::Temporary, Schema::Catalog].into_iter().filter(|schema| !self.0.contains(schema));
        before.chain(self.0.iter().cloned())
    }

    /// The schemas that it names, in order.
    pub fn named(&self) -> &[Schema] {
        &self.0
    }

    /// The schema in which a relation without a schema is created.
    ///
    /// # Errors
    /// 3F000 without one, 42501 if it is one of the server's.
    pub fn first(&self) -> Result<Schema> {
        match self.0.first() {
            Some(schema) if schema.is_of_users() => Ok(schema.clone()),
            Some(schema) => {
                let message = format!("permission denied for schema {}", schema.name());
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
                    .with_detail("Its relations are made by the server, and can only be read."))
            }
            None => {
                let message = "no schema has been selected to create in";
                Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message)
                    .with_hint("SET search_path = public, or write public before the name."))
            }
        }
    }
}

/// The names of a list as `search_path` has them: folded to lower case unless they are in quotes.
fn items(setting: &str) -> Vec<String> {
    let (mut all, mut name, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = setting.chars().peekable();
    while let Some(next) = characters.next() {
        match next {
            '"' if quoted && characters.peek() == Some(&'"') => {
                name.push('"');
                characters.next();
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(std::mem::take(&mut name)),
            next if quoted => name.push(next),
            next if next.is_whitespace() => {}
            next => name.extend(next.to_lowercase()),
        }
    }
    all.push(name);
    all
}

/// The schema of users' tables.
pub const PUBLIC: &str = "public";

/// The schema of what only the operator sees.
pub const KEYSPAN: &str = "keyspan";

/// The schemas of PostgreSQL's own relations.
pub const SYSTEM: [&str; 2] = [PG_CATALOG, INFORMATION_SCHEMA];

/// The schema of PostgreSQL's own relations.
pub const PG_CATALOG: &str = "pg_catalog";

/// The schema of the SQL standard's relations.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// How the schema of the table that a write reads and writes ends, and of such a table with its hidden keys as a
/// column.
const TARGETS: [&str; 2] = [" as target", " with keys"];

/// The schema of the table that a write reads and writes, with its hidden keys as a column or without: of a schema's
/// OID, or, for `None`, of temporary tables. What a write reads there it needs other rights for than a query, so that
/// no client may write these names ([`target_of`]).
pub fn target(schema: Option<u32>, keyed: bool) -> String {
    let end = TARGETS[usize::from(keyed)];
    schema.map_or_else(|| format!("{TEMPORARY}{end}"), |schema| format!("{schema}{end}"))
}

/// What a name that [`target`] made was made of.
pub fn target_of(name: &str) -> Option<(Option<u32>, bool)> {
    let split = |keyed: bool| name.strip_suffix(TARGETS[usize::from(keyed)]).map(|schema| (schema, keyed));
    let (schema, keyed) = split(false).or_else(|| split(true))?;
    Some((if schema == TEMPORARY { None } else { Some(schema.parse().ok()?) }, keyed))
}

/// The schema of names without a schema.
pub const PATH: &str = "search path";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_what_there_is_and_what_need_not_be_named() {
        let path = |text: &str| {
            SearchPath::of(text, false).lookup().map(|one| one.name().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(path("\"$user\", public"), "pg_temp pg_catalog public");
        assert_eq!(path("\"\""), "pg_temp pg_catalog");
        assert_eq!(path(""), "pg_temp pg_catalog");
        assert_eq!(path("PUBLIC, pg_catalog,public"), "pg_temp public pg_catalog");
        assert_eq!(path("\"PUBLIC\", nix, information_schema"), "pg_temp pg_catalog information_schema");
        assert_eq!(path("public, pg_temp"), "pg_catalog public pg_temp");
        assert_eq!(path("keyspan, public"), "pg_temp pg_catalog public");
        assert_eq!(SearchPath::of("keyspan, public", true).named(), [Schema::Keyspan, Schema::Public]);
        let own = |text: &str| {
            let path = SearchPath::among(text, false, "ana", |name| name == "ana" || name == "Sales");
            path.named().iter().map(|one| one.name().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(own("\"$user\", public"), "ana public");
        assert_eq!(own("sales, \"Sales\", ana, \"$user\", bob"), "Sales ana");
    }

    #[test]
    fn names_of_targets_are_read_as_they_are_written() {
        for target_schema in [(None, false), (None, true), (Some(2200), false), (Some(16_390), true)] {
            assert_eq!(target_of(&target(target_schema.0, target_schema.1)), Some(target_schema));
        }
        assert_eq!(target_of("sales as target"), None);
        assert_eq!(target_of("2200"), None);
    }

    #[test]
    fn relations_are_made_in_the_first_schema_that_there_is() {
        let first = |text: &str| SearchPath::of(text, false).first().map_err(|error| error.state);
        assert_eq!(first("nix, public, pg_temp"), Ok(Schema::Public));
        assert_eq!(first("pg_temp, public"), Ok(Schema::Temporary));
        assert_eq!(first("nix"), Err(SqlState::INVALID_SCHEMA_NAME));
        assert_eq!(first("pg_catalog, public"), Err(SqlState::INSUFFICIENT_PRIVILEGE));
    }
}
