//! Keys to positions.
//!
//! The tail knows the first key of each page of `_key`; a page that is looked into is decoded once and cached. What is not
//! between the segment's ends, or not in its bloom filter, is not looked for.

use super::{
    decode,
    open::{Loaded, Segment},
    projection::Projection,
};
use crate::{KeyRange, Result, RowKey, engine::dead::Position};
use arrow::array::{Array, AsArray, BinaryArray};
use std::slice;
use std::{ops::Range, sync::Arc};

/// The keys of a page.
#[derive(Debug)]
pub(super) struct Keys {
    first: Position,
    keys: BinaryArray,
}

impl Keys {
    /// Bytes in memory.
    pub(super) fn weight(&self) -> u64 {
        self.keys.get_array_memory_size() as u64
    }

    fn len(&self) -> Position {
        self.keys.len() as Position
    }

    /// How many are less than `key`.
    fn less(&self, key: &[u8]) -> Position {
        let (mut low, mut high) = (0, self.keys.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.keys.value(middle) < key { low = middle + 1 } else { high = middle }
        }
        low as Position
    }

    fn find(&self, key: &[u8]) -> Option<Position> {
        let at = self.less(key);
        (at < self.len() && self.keys.value(at as usize) == key).then_some(self.first + at)
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

    /// The positions of ascending keys, of those that are there.
    ///
    /// # Errors
    /// Those of [`find`](Self::find).
    pub(crate) fn resolve<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Option<Position>>> {
        let mut loaded = None;
        // The page at hand, which most often holds the next key too.
        let mut at_hand: Option<(usize, Arc<Keys>)> = None;
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

    /// The position of the least key that is not less than `key`; that after the last row if all are less.
    ///
    /// # Errors
    /// Those of [`find`](Self::find).
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
    /// Those of [`find`](Self::find).
    pub(crate) fn positions(&self, range: &KeyRange) -> Result<Range<Position>> {
        let end = range.end.as_ref().map_or(Ok(self.meta.rows), |end| self.lower_bound(end))?;
        Ok(self.lower_bound(&range.start)?.min(end)..end)
    }

    /// The key of a row.
    ///
    /// # Errors
    /// Those of [`find`](Self::find).
    ///
    /// # Panics
    /// If there is no row at the position.
    pub(crate) fn key_at(&self, position: Position) -> Result<RowKey> {
        assert!(position < self.meta.rows, "a position is that of a row");
        let loaded = self.load()?;
        let page = loaded.pages.partition_point(|page| page.first <= position) - 1;
        let keys = self.keys(&loaded, page)?;
        decode::row_key(&loaded, loaded.footer.group_of(position), keys.keys.value((position - keys.first) as usize))
    }

    /// The least key that is not less than `key`.
    ///
    /// # Errors
    /// Those of [`find`](Self::find).
    pub(crate) fn next_key(&self, key: &[u8]) -> Result<Option<RowKey>> {
        let position = self.lower_bound(key)?;
        if position == self.meta.rows { Ok(None) } else { self.key_at(position).map(Some) }
    }

    fn may_hold(&self, key: &[u8]) -> bool {
        *self.meta.first <= *key && *key <= *self.meta.last
    }

    fn keys(&self, loaded: &Arc<Loaded>, page: usize) -> Result<Arc<Keys>> {
        self.caches.keys(loaded.id, page as u32, || loaded.read_keys(page).map(Arc::new))
    }
}

impl Loaded {
    /// The page in which the key is, if it is anywhere.
    fn page_of(&self, key: &[u8]) -> Option<usize> {
        self.pages.partition_point(|page| *page.key <= *key).checked_sub(1)
    }

    fn read_keys(self: &Arc<Self>, page: usize) -> Result<Keys> {
        let first = self.pages[page].first;
        let end = self.pages.get(page + 1).map_or(self.footer.rows(), |next| next.first);
        let group = self.footer.group_of(first);
        let mut reading = decode::read(
            self,
            group,
            &Projection::keys(),
            slice::from_ref(&(first..end)),
            (end - first) as usize,
            None,
        )?;
        let batch = reading.next_batch()?;
        let keys = batch.as_ref().and_then(|batch| batch.column(0).as_binary_opt::<i32>());
        let keys = keys.filter(|keys| keys.len() == (end - first) as usize && keys.null_count() == 0);
        let keys = keys.filter(|keys| keys.value(0) == self.pages[page].key);
        let keys = keys.ok_or_else(|| self.damaged(group, "a page of keys is not what the tail says".into()))?;
        Ok(Keys { first, keys: keys.clone() })
    }
}
