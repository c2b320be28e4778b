//! Open families: all cells of one are a column of type jsonb, but those of declared columns.
//!
//! The column has the family's name at first. A cell whose qualifier is that of a declared column, or of one that was
//! dropped, is *hidden*: the map neither shows it nor takes it.

use super::{Column, ColumnDefinition, ColumnPlace, Options, Table};
use crate::{Encoding, Error, ErrorKind, Result, SqlType};
use bytes::Bytes;
use keyspan_storage::{FamilyName, model::limits::QUALIFIER_BYTES_MAX};

/// The encoding of an open family that names none: what is written is read as it was written, numbers as numbers.
pub(super) const OPEN_ENCODING: Encoding = Encoding::Json;

impl Table {
    /// The column that shows an open family; `None` for other families.
    pub fn open_column(&self, family: &str) -> Option<&Column> {
        self.columns
            .iter()
            .find(|column| matches!(&column.place, ColumnPlace::Open { family: of, .. } if of.as_str() == family))
    }

    /// The encoding of an open family's values.
    pub(super) fn open_encoding(&self, family: &str) -> Option<Encoding> {
        match &self.open_column(family)?.place {
            ColumnPlace::Open { encoding, .. } => Some(encoding.clone()),
            _ => None,
        }
    }

    /// The qualifiers that the column of an open family does not show, sorted: those of declared columns, with their
    /// names, and those of dropped ones.
    pub fn hidden_qualifiers(&self, family: &FamilyName) -> Vec<(Bytes, Option<&str>)> {
        let declared = self.columns.iter().filter_map(|column| match &column.place {
            ColumnPlace::Cell { family: of, qualifier, .. } if of == family => {
                Some((Bytes::copy_from_slice(qualifier.as_bytes()), Some(column.name.as_str())))
            }
            _ => None,
        });
        let dropped = self.retired.iter().filter(|(of, _)| of == family);
        let dropped = dropped.map(|(_, qualifier)| (Bytes::copy_from_slice(qualifier.as_bytes()), None));
        let mut all: Vec<_> = declared.chain(dropped).collect();
        all.sort();
        all
    }

    /// Adds the column that shows an open family.
    ///
    /// # Errors
    /// [`ColumnExists`](ErrorKind::ColumnExists) if a column has the family's name; [`Invalid`](ErrorKind::Invalid) for
    /// an aggregate family.
    pub(super) fn push_open_column(&mut self, family: &str, options: &Options) -> Result<()> {
        let Some(found) = self.family(family) else { return Err(self.no_family(family)) };
        if found.aggregate.is_some() {
            let message = format!("aggregate family \"{family}\" cannot be open");
            return Err(Error::new(ErrorKind::Invalid, message)
                .with_detail("Its cells are sums and the like, which columns of type bigint show."));
        }
        if self.column(family).is_some() {
            return Err(self.column_exists(family).with_detail("An open family is a column of its name."));
        }
        let place = ColumnPlace::Open {
            family: found.name.clone(),
            encoding: options.encoding(family).unwrap_or(OPEN_ENCODING),
        };
        let column = ColumnDefinition {
            name: family.to_owned(),
            kind: SqlType::Jsonb,
            not_null: false,
            family: None,
            encoding: None,
            qualifier: None,
        };
        self.push_column(&column, false, place)
    }

    /// The qualifier that a column's definition names.
    ///
    /// # Errors
    /// [`ColumnExists`](ErrorKind::ColumnExists) for that of another column of the family;
    /// [`InUse`](ErrorKind::InUse) for that of a dropped one; [`Invalid`](ErrorKind::Invalid) for one that is too long.
    pub(super) fn named_qualifier(
        &self,
        family: &FamilyName,
        column: &ColumnDefinition,
        qualifier: &str,
    ) -> Result<String> {
        if qualifier.len() > QUALIFIER_BYTES_MAX {
            let message = format!("the qualifier of column \"{}\" has {} bytes", column.name, qualifier.len());
            return Err(Error::new(ErrorKind::Invalid, message)
                .with_hint(format!("A qualifier has at most {QUALIFIER_BYTES_MAX} bytes.")));
        }
        let hidden = self.hidden_qualifiers(family);
        match hidden.iter().find(|(taken, _)| *taken == qualifier.as_bytes()) {
            None => Ok(qualifier.to_owned()),
            Some((_, Some(other))) => {
                let message = format!("qualifier \"{qualifier}\" of family \"{family}\" is that of column \"{other}\"");
                Err(Error::new(ErrorKind::ColumnExists, message))
            }
            Some((_, None)) => {
                let message = format!("qualifier \"{qualifier}\" of family \"{family}\" is that of a dropped column");
                Err(Error::new(ErrorKind::InUse, message)
                    .with_detail("Cells of the dropped column may still be there."))
            }
        }
    }
}
