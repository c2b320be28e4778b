//! The column of an open family: its map as cells, and which keys it does not take.

use super::{
    set::Cells,
    target::{Place, Target, TargetColumn},
};
use crate::pg::error::{Result, SqlError, SqlState};
use bytes::Bytes;
use keyspan_catalog::{
    Encoding, SqlType, Value,
    open_map::{self, PlainCells},
};

impl Target {
    /// Gives the columns of open families in a new row the maps as they will be read: without cells, the empty one; of
    /// each value, what its encoding keeps of it.
    ///
    /// # Errors
    /// 22023 and 54000 for what an open family does not take.
    pub(crate) fn settle_maps(&self, values: &mut [Value]) -> Result<()> {
        for (column, value) in self.columns.iter().zip(values) {
            let Place::Open { encoding, .. } = &column.place else { continue };
            if *value == Value::Null {
                *value = Value::Text(open_map::EMPTY.to_owned());
            } else if *encoding != Encoding::Json {
                let mut map = serde_json::Map::new();
                for (qualifier, bytes) in column.cells(value)?.0 {
                    let json = open_map::decode(&bytes, encoding)?;
                    let json = serde_json::from_str(&json).map_err(|error| SqlError::syntax(error.to_string()))?;
                    map.insert(open_map::key_of(&qualifier).into_owned(), json);
                }
                *value = Value::parse(&serde_json::Value::Object(map).to_string(), SqlType::Jsonb)?;
            }
        }
        Ok(())
    }

    /// A bound on the cells of a new row with these values.
    pub(super) fn cells_bound(&self, values: &[Value]) -> usize {
        let of = |(column, value): (&TargetColumn, &Value)| match (&column.place, value) {
            (Place::Key(_), _) | (_, Value::Null) => 0,
            // Each member but the first follows a comma.
            (Place::Open { .. }, Value::Text(map)) => 1 + map.bytes().filter(|byte| *byte == b',').count(),
            _ => 1,
        };
        self.columns.iter().zip(values).map(of).sum()
    }
}

impl TargetColumn {
    /// Whose cells those of a hidden qualifier are: `Some(None)` for a dropped column's, `None` for no hidden one.
    pub(super) fn hides(&self, qualifier: &[u8]) -> Option<Option<&str>> {
        let Place::Open { hidden, .. } = &self.place else { return None };
        let found = hidden.binary_search_by(|(hidden, _)| hidden.as_ref().cmp(qualifier)).ok()?;
        Some(hidden[found].1.as_deref())
    }

    /// The members of a map; none of NULL.
    ///
    /// # Errors
    /// 22P02, and 22023 for what is no object.
    pub(super) fn members(&self, map: &Value) -> Result<serde_json::Map<String, serde_json::Value>> {
        match map {
            Value::Text(map) => Ok(open_map::members(map)?),
            _ => Ok(serde_json::Map::new()),
        }
    }

    /// The cells of a map; none of NULL.
    ///
    /// # Errors
    /// As for [`members`](Self::members) and [`cell`](Self::cell).
    pub(crate) fn cells(&self, map: &Value) -> Result<Cells> {
        if let Some(cells) = self.plain_cells(map) {
            return Ok(Cells(cells.shared()));
        }
        let members = self.members(map)?;
        members.iter().map(|(key, value)| self.cell(key, value)).collect::<Result<_>>().map(Cells)
    }

    /// The cells of a map of plain members, none of which the column refuses; `None` where [`cells`](Self::cells) has
    /// to look.
    fn plain_cells<'a>(&self, map: &'a Value) -> Option<PlainCells<'a>> {
        let (Value::Text(map), Place::Open { encoding, .. }) = (map, &self.place) else { return None };
        let cells = open_map::plain_cells(map, encoding)?;
        let is_taken = cells.iter().all(|(qualifier, _)| self.hides(qualifier).is_none());
        is_taken.then_some(cells)
    }

    /// Puts the cells of a map in the order of their qualifiers; whether there are any.
    ///
    /// # Errors
    /// Those of [`cells`](Self::cells) and of `put`.
    pub(crate) fn put_cells(&self, map: &Value, mut put: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<bool> {
        let mut any = false;
        let mut put = |qualifier: &[u8], value: &[u8]| {
            any = true;
            put(qualifier, value)
        };
        match self.plain_cells(map) {
            Some(mut cells) => {
                cells.sort();
                cells.iter().try_for_each(|(qualifier, value)| put(qualifier, value))?;
            }
            None => {
                let Cells(mut cells) = self.cells(map)?;
                cells.sort();
                cells.iter().try_for_each(|(qualifier, value)| put(qualifier, value))?;
            }
        }
        Ok(any)
    }

    /// The qualifier and the value of a member's cell.
    ///
    /// # Errors
    /// 22023 for a key that stands for no qualifier or for that of a declared or dropped column, and for a value that
    /// has no form; 54000 for what is too long.
    pub(super) fn cell(&self, key: &str, value: &serde_json::Value) -> Result<(Bytes, Bytes)> {
        let Place::Open { encoding, .. } = &self.place else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a map for a column that is no open family"));
        };
        let qualifier = open_map::written_qualifier(key)?;
        match self.hides(&qualifier) {
            None => Ok((qualifier, open_map::encode(key, value, encoding)?)),
            Some(Some(column)) => {
                let message = format!("key \"{key}\" of open family \"{}\" is a declared column", self.name);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint(format!("Give the value to column \"{column}\".")))
            }
            Some(None) => {
                let message = format!("key \"{key}\" of open family \"{}\" was a declared column", self.name);
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_detail("The column was dropped, and no cell with its qualifier is shown any more.")
                    .with_hint("Take another key."))
            }
        }
    }
}
