//! A table in words: its options as the statements that set them take them. Pure.
//!
//! What [`Options`](super::Options) parses, this prints: a table made with [`Table::options`] has the options of the
//! table that printed them.

use super::{Column, ColumnPlace, OnBadKey, OnBadValue, Table, TableFamily, gc, open::OPEN_ENCODING};
use crate::{Encoding, KeyEncoding};
use keyspan_storage::{Aggregate, GcRule};

impl Table {
    /// The options that `WITH` needs to make the table again: names, dotted for those of a family, and values. The
    /// encoding of keys is always among a shared table's. A private table has none.
    pub fn options(&self) -> Vec<(String, String)> {
        let mut options = Vec::new();
        if self.is_private() {
            return options;
        }
        let mut add = |name: &str, value: String| options.push((name.to_owned(), value));
        add("key_encoding", self.key.encoding.name().to_owned());
        if self.key.salt > 0 {
            add("salt", self.key.salt.to_string());
        }
        if self.on_bad_value != OnBadValue::default() {
            add("on_bad_value", self.on_bad_value.name().to_owned());
        }
        if self.on_bad_key != OnBadKey::default() {
            add("on_bad_key", self.on_bad_key.name().to_owned());
        }
        if let Some(micros) = self.history_micros {
            add("history", age_text(micros));
        }
        for family in &self.families {
            options.extend(self.family_options(family));
        }
        options
    }

    /// The options of a family.
    fn family_options(&self, family: &TableFamily) -> Vec<(String, String)> {
        let mut options = Vec::new();
        let mut add = |option: &str, value: String| options.push((format!("{}.{option}", family.name), value));
        family.rule_options().into_iter().for_each(|(option, value)| add(option, value));
        if let Some(aggregate) = family.aggregate {
            add("aggregate", aggregate_name(aggregate).to_owned());
        }
        let is_default = |encoding: &Encoding| match self.open_column(family.name.as_str()) {
            Some(_) => *encoding == OPEN_ENCODING,
            None => *encoding == Encoding::default(),
        };
        if let Some(encoding) = self.encoding_of(family).filter(|encoding| !is_default(encoding)) {
            add("encoding", encoding.name().to_owned());
        }
        options
    }

    /// The columns of a family in order.
    pub fn columns_of(&self, family: &TableFamily) -> impl Iterator<Item = &Column> {
        self.columns
            .iter()
            .filter(|column| matches!(&column.place, ColumnPlace::Cell { family: of, .. } if *of == family.name))
    }

    /// The encoding of an open family, or of another one's first column that names no message: that of the others too,
    /// unless they name one or were added later.
    pub fn encoding_of(&self, family: &TableFamily) -> Option<&Encoding> {
        let open = self.open_column(family.name.as_str());
        open.into_iter().chain(self.columns_of(family)).find_map(|column| match &column.place {
            ColumnPlace::Cell { encoding, .. } => Some(encoding).filter(|encoding| encoding.message().is_none()),
            ColumnPlace::Open { encoding, .. } => Some(encoding),
            ColumnPlace::Key(_) => None,
        })
    }
}

impl TableFamily {
    /// The rule as a condition on the cells that it condemns; `None` for the rule that keeps all.
    pub fn condition(&self) -> Option<String> {
        (self.gc != GcRule::KeepAll).then(|| self.rule())
    }

    /// What an option of its rule says: `max_versions` or `max_age`, where these can say the rule.
    pub fn rule_option(&self, option: &str) -> Option<String> {
        self.rule_options().into_iter().find(|(name, _)| *name == option).map(|(_, value)| value)
    }
}

/// An age as options take it: `30 days`, `1 hour 30 minutes`.
pub fn age_text(micros: i64) -> String {
    gc::display_age(micros)
}

/// The word for an aggregate in options.
pub fn aggregate_name(aggregate: Aggregate) -> &'static str {
    match aggregate {
        Aggregate::Sum => "sum",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::Hll => "hll",
    }
}

impl Encoding {
    /// The word for it in options, and `protobuf`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Text => "text",
            Self::Json => "json",
            Self::Protobuf(_) => "protobuf",
        }
    }
}

impl KeyEncoding {
    /// The word for it in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delimited => "delimited",
            Self::Ordered => "ordered",
            Self::Plain => "plain",
        }
    }
}

impl OnBadValue {
    /// The word for it in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Null => "null",
        }
    }
}

impl OnBadKey {
    /// The word for it in options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Null => "null",
            Self::Error => "error",
        }
    }
}
