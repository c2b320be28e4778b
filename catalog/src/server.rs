//! A server: a Bigtable instance whose tables the operator shows as shared tables. Its definition only; what connects
//! to it is above.

use crate::{Error, ErrorKind, Result, table::check_name};
use keyspan_storage::{Family, FamilyName, TableName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The one kind of server.
pub const BIGTABLE: &str = "bigtable";
/// Length limit of a project, an instance or a profile, in bytes: more than Google allows.
const OPTION_BYTES_MAX: usize = 200;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// The OID, never reused.
    pub id: u32,
    /// The name in SQL.
    pub name: String,
    /// The project.
    pub project: String,
    /// The instance of the project.
    pub instance: String,
    /// The application profile; empty for the instance's default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub app_profile: String,
}

impl Server {
    /// Makes a server of the options of `CREATE SERVER`.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) for a bad name, an unknown, missing or repeated option, and a value that is no
    /// name of Google's.
    pub fn define(id: u32, name: &str, options: &[(String, String)]) -> Result<Self> {
        check_name("server", name)?;
        let mut server = Self {
            id,
            name: name.to_owned(),
            project: String::new(),
            instance: String::new(),
            app_profile: String::new(),
        };
        for (at, (option, value)) in options.iter().enumerate() {
            if options[..at].iter().any(|(other, _)| other == option) {
                let message = format!("option \"{option}\" provided more than once");
                return Err(Error::new(ErrorKind::Invalid, message));
            }
            check_value(option, value)?;
            match option.as_str() {
                "project" => server.project.clone_from(value),
                "instance" => server.instance.clone_from(value),
                "app_profile" => server.app_profile.clone_from(value),
                _ => {
                    return Err(Error::new(ErrorKind::Invalid, format!("invalid option \"{option}\""))
                        .with_hint("There are project, instance and app_profile."));
                }
            }
        }
        for (option, value) in [("project", &server.project), ("instance", &server.instance)] {
            if value.is_empty() {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("option \"{option}\" of server \"{name}\" is missing"),
                ));
            }
        }
        Ok(server)
    }

    /// The options that are given, by name.
    pub fn options(&self) -> Vec<(&'static str, &str)> {
        let all = [("project", &self.project), ("instance", &self.instance), ("app_profile", &self.app_profile)];
        all.into_iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (name, value.as_str())).collect()
    }

    /// What the store calls the server: never reused.
    pub fn route(&self) -> String {
        route(self.id)
    }
}

/// What the store calls the server of an OID.
pub(crate) fn route(id: u32) -> String {
    format!("server {id}")
}

/// The names become parts of paths and headers of requests.
fn check_value(option: &str, value: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if value.is_empty() || value.len() > OPTION_BYTES_MAX || !value.bytes().all(fits) {
        return Err(Error::new(ErrorKind::Invalid, format!("invalid value for option \"{option}\": \"{value}\""))
            .with_hint("It takes letters, digits and -_.: only."));
    }
    Ok(())
}

/// Where the rows of a table on a server are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTable {
    /// The server's OID.
    pub server: u32,
    /// The table's name on the server.
    pub name: TableName,
    /// What holds of a table that was found there; `None` for one that was made there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// A table that was found on a server: it is not ours, so that its families, its rules and itself stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Whether rows are written, for which the table gets the family of markers.
    pub writable: bool,
    /// Whether the rows of a tenant are deleted with it.
    pub on_drop_delete: bool,
}

/// The table of a definition on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteDefinition {
    /// The server's OID.
    pub server: u32,
    /// The table that is there already; `None` for one that is made.
    pub found: Option<FoundDefinition>,
}

/// A table as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDefinition {
    /// Its name.
    pub name: TableName,
    /// How it is used.
    pub found: Found,
    /// Its families.
    pub families: BTreeMap<FamilyName, Family>,
}

impl RemoteTable {
    /// Whether the table was found: not ours.
    pub fn is_found(&self) -> bool {
        self.found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn define(options: &[(&str, &str)]) -> Result<Server> {
        let options: Vec<_> = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Server::define(16_400, "bt", &options)
    }

    #[test]
    fn options_are_names() {
        let server = define(&[("project", "p"), ("instance", "i"), ("app_profile", "sql")]).unwrap();
        assert_eq!(server.options(), [("project", "p"), ("instance", "i"), ("app_profile", "sql")]);
        assert_eq!(define(&[("project", "example.com:p"), ("instance", "i")]).unwrap().options().len(), 2);
        for (options, message) in [
            (&[("project", "p")][..], "option \"instance\" of server \"bt\" is missing"),
            (&[("project", "p"), ("instance", "i/tables/x")], "invalid value for option \"instance\": \"i/tables/x\""),
            (&[("project", "p"), ("project", "q")], "option \"project\" provided more than once"),
            (&[("host", "p")], "invalid option \"host\""),
            (
                &[("project", "p"), ("instance", "i"), ("app_profile", "")],
                "invalid value for option \"app_profile\": \"\"",
            ),
        ] {
            assert_eq!(define(options).unwrap_err().to_string(), message);
        }
    }
}
