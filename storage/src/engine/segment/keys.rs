//! Finds the positions of keys.
//!
//! The tail has the first key of each page of `_key`; a page that is searched is decoded once and cached. Keys outside
//! the segment's bounds, or not in its bloom filter, are not searched.

use super::{
    checked::{Ahead, Pages},
    decode,
    open::{ColumnIndexes, Loaded, Segment},
    page::Page,
};
use crate::{KeyRange, Result, RowKey, engine::deletion_vector::Position};
use arrow::array::{Array, BinaryArray};
use std::{ops::Range, sync::Arc};

/// The keys of a page.
#[derive(Debug)]
struct Keys {
    first: Position,
    page: Arc<Page>,
}

impl Keys {
    fn all(&self) -> &BinaryArray {
        self.page.keys().expect("it was looked at when it was read")
    }

    /// Number of keys less than `key`.
    fn less(&self, key: &[u8]) -> Position {
        let keys = self.all();
        let (mut low, mut high) = (0, keys.len());
        while low < high {
            let middle = low.midpoint(high);
            if keys.value(middle) < key { low = middle + 1 } else { high = middle }
        }
        low as Position
    }

    fn find(&self, key: &[u8]) -> Option<Position> {
        let (at, keys) = (self.less(key), self.all());
        ((at as usize) < keys.len() && keys.value(at as usize) == key).then_some(self.first + at)
    }
}

impl Segment {
    /// The position of a key, if it is there.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt), [`Io`](crate::ErrorKind::Io).
    pub(crate) fn find(&self, key: &[u8]) -> Result<Option<Position>> {
        if !self.may_hold(key) {
            return Ok(None);
        }
        let loaded = self.load()?;
        if loaded.bloom.as_ref().is_some_and(|bloom| !bloom.check(key)) {
            return Ok(None);
        }
        let Some(page) = loaded.page_of(key) else { return Ok(None) };
        Ok(self.keys(&loaded, page)?.find(key))
    }

    /// The positions of ascending keys; `None` for absent ones.
    ///
    /// # Errors
    /// Errors of [`find`](Self::find).
    pub(crate) fn resolve<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Option<Position>>> {
        let mut loaded = None;
        // The current page, which mostly has the next key too.
        let mut at_hand: Option<(usize, Keys)> = None;
        let mut resolve = |key: &[u8]| {
            if !self.may_hold(key) {
                return Ok(None);
            }
            let loaded = match &mut loaded {
                Some(loaded) => loaded,
                none => none.insert(self.load()?),
            };
            if loaded.bloom.as_ref().is_some_and(|bloom| !bloom.check(key)) {
                return Ok(None);
            }
            let Some(page) = loaded.page_of(key) else { return Ok(None) };
            let keys = match &mut at_hand {
                Some((at, keys)) if *at == page => keys,
                other => &mut other.insert((page, self.keys(loaded, page)?)).1,
            };
            Ok(keys.find(key))
        };
        keys.into_iter().map(&mut resolve).collect()
    }

    /// The position of the least key that is not less than `key`; the number of rows if all are less.
    ///
    /// # Errors
    /// Errors of [`find`](Self::find).
    pub(crate) fn lower_bound(&self, key: &[u8]) -> Result<Position> {
        if *key <= *self.meta.first {
            return Ok(0);
        }
        if *key > *self.meta.last {
            return Ok(self.meta.rows);
        }
        let loaded = self.load()?;
        let page = loaded.page_of(key).unwrap_or_default();
        let keys = self.keys(&loaded, page)?;
        Ok(keys.first + keys.less(key))
    }

    /// The positions of a range.
    ///
    /// # Errors
    /// Errors of [`find`](Self::find).
    pub(crate) fn positions(&self, range: &KeyRange) -> Result<Range<Position>> {
        let end = range.end.as_ref().map_or(Ok(self.meta.rows), |end| self.lower_bound(end))?;
        Ok(self.lower_bound(&range.start)?.min(end)..end)
    }

    /// The key of a row.
    ///
    /// # Errors
    /// Errors of [`find`](Self::find).
    ///
    /// # Panics
    /// If there is no row at the position.
    pub(crate) fn key_at(&self, position: Position) -> Result<RowKey> {
        assert!(position < self.meta.rows, "a position is that of a row");
        let loaded = self.load()?;
        let page = loaded.pages.partition_point(|page| page.first <= position) - 1;
        let keys = self.keys(&loaded, page)?;
        decode::row_key(&loaded, loaded.footer.group_of(position), keys.all().value((position - keys.first) as usize))
    }

    /// The least key that is not less than `key`.
    ///
    /// # Errors
    /// Errors of [`find`](Self::find).
    pub(crate) fn next_key(&self, key: &[u8]) -> Result<Option<RowKey>> {
        let position = self.lower_bound(key)?;
        if position == self.meta.rows { Ok(None) } else { self.key_at(position).map(Some) }
    }

    fn may_hold(&self, key: &[u8]) -> bool {
        *self.meta.first <= *key && *key <= *self.meta.last
    }

    fn keys(&self, loaded: &Loaded, page: usize) -> Result<Keys> {
        let first = loaded.pages[page].first;
        let group = loaded.footer.group_of(first);
        let row = first - loaded.footer.groups[group].first;
        let page_id = loaded.page_of_row(group, ColumnIndexes::KEY, row);
        let file = || Arc::new(Pages::new(Arc::clone(&loaded.file), Ahead::default()));
        let page = loaded.page(&self.caches, page_id, file)?;
        Ok(Keys { first, page })
    }
}

impl Loaded {
    /// The page that has the key, if any.
    fn page_of(&self, key: &[u8]) -> Option<usize> {
        self.pages.partition_point(|page| *page.key <= *key).checked_sub(1)
    }
}
