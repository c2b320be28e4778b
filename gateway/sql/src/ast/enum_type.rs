//! `CREATE`, `ALTER` and `DROP TYPE` of enumerated types.

use keyspan_catalog::enum_type::LabelPlace;
use keyspan_pg::names::RelationName;

/// A change of enumerated types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypeChange {
    /// `CREATE TYPE … AS ENUM (…)`
    Create {
        /// The name.
        name: RelationName,
        /// The labels, in the order of the values.
        labels: Vec<String>,
    },
    /// `ALTER TYPE … ADD VALUE …`
    AddLabel {
        /// The type.
        name: RelationName,
        /// The new label.
        label: String,
        /// Where it goes.
        place: LabelPlace,
        /// `IF NOT EXISTS`
        if_not_exists: bool,
    },
    /// `ALTER TYPE … RENAME TO …`
    Rename {
        /// The type.
        name: RelationName,
        /// Its new name.
        to: String,
    },
    /// `ALTER TYPE … SET SCHEMA …`
    Move {
        /// The type.
        name: RelationName,
        /// The name of the schema.
        to: String,
    },
    /// `DROP TYPE`
    Drop {
        /// The types.
        names: Vec<RelationName>,
        /// `IF EXISTS`
        if_exists: bool,
        /// `CASCADE`
        cascade: bool,
    },
}
