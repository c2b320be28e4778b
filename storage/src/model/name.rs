//! Names of tables and families, checked once.

use super::limits;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks the name.
            ///
            /// # Errors
            /// [`Error::Invalid`] for an empty or too long name or a character outside of `[-_.a-zA-Z0-9]`.
            pub fn new(name: &str) -> Result<Self> {
                let fits = !name.is_empty() && name.len() <= $max;
                if !fits || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
                    return Err(Error::Invalid(format!(
                        concat!($what, " name {:?} is not 1 to {} characters of [-_.a-zA-Z0-9]"), name, $max
                    )));
                }
                Ok(Self(name.into()))
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;
            fn try_from(name: String) -> Result<Self> {
                Self::new(&name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name!(
    /// The name of a table in a store.
    TableName, "table", limits::TABLE_NAME_MAX
);
/// Suffix of the name of a history table; no client's name has such a character.
const HISTORY_SUFFIX: &str = "@past";

impl TableName {
    /// The name of the table with the [history](crate::History) of the table of this name. No client can name it.
    pub(crate) fn history_table(&self) -> Self {
        Self([self.as_str(), HISTORY_SUFFIX].concat().into())
    }

    /// The table whose history table has this name; `None` for the name of an ordinary table.
    pub fn of_history(&self) -> Option<Self> {
        Some(Self(self.0.strip_suffix(HISTORY_SUFFIX)?.into()))
    }
}

name!(
    /// The name of a column family. Cheap to clone.
    FamilyName, "family", limits::FAMILY_NAME_MAX
);
