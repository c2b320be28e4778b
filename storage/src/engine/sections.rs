//! Where the rows of one owner end and those of another begin, in a table of the store that many owners share. Pure.
//!
//! Rows of a [section](crate::Layouts::section) are laid out alike. A segment has one set of columns, and one decoder
//! of keys. So a compaction ends its bases where a large section begins and ends: then its columns have its types, and
//! its keys their parts. Small sections share bases, since a base for each of many small tables would be as many tiny
//! files.
//!
//! Sections are judged by the first keys of the pages of the segments that are merged, which are in memory anyway. So
//! a boundary may be missed by as many rows as a page has.

use bytes::Bytes;

/// Rows from which on a section has bases of its own.
pub(crate) const SECTION_ROWS_MIN: u64 = 64 << 10;

/// The first key of some rows.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) key: Bytes,
    pub(crate) rows: u64,
}

/// The keys of rows that are merged, and the boundaries between them.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// Ascending by key.
    marks: Vec<Mark>,
    boundaries: Vec<Bytes>,
}

impl Sections {
    /// The sections that `section` names, of rows that the marks sample.
    pub(crate) fn new(mut marks: Vec<Mark>, rows_min: u64, section: impl Fn(&[u8]) -> Option<&[u8]>) -> Self {
        marks.sort_by(|a, b| a.key.cmp(&b.key));
        let mut boundaries: Vec<Bytes> = Vec::new();
        for run in marks.chunk_by(|a, b| section(&a.key) == section(&b.key)) {
            let Some(prefix) = section(&run[0].key) else { continue };
            if run.iter().map(|mark| mark.rows).sum::<u64>() < rows_min {
                continue;
            }
            let ends = [Some(Bytes::copy_from_slice(prefix)), end_of(prefix)];
            boundaries.extend(ends.into_iter().flatten());
        }
        boundaries.dedup();
        Self { marks, boundaries }
    }

    /// Where large sections begin and end, ascending.
    pub(crate) fn boundaries(&self) -> &[Bytes] {
        &self.boundaries
    }

    /// The first boundary after `key`.
    pub(crate) fn boundary_after(&self, key: &[u8]) -> Option<&Bytes> {
        self.boundaries.get(self.boundaries.partition_point(|boundary| boundary[..] <= *key))
    }

    /// Keys of rows after `key`, up to the next boundary.
    pub(crate) fn keys_after<'a>(&'a self, key: &[u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let first = self.marks.partition_point(|mark| mark.key[..] <= *key);
        let end = self.boundary_after(key);
        let within = move |mark: &&Mark| end.is_none_or(|end| mark.key < *end);
        self.marks[first..].iter().take_while(within).map(|mark| &mark.key[..])
    }
}

/// The least key behind all that begin with the prefix; `None` if there is none.
pub(crate) fn end_of(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(marks: &[(&'static str, u64)]) -> Sections {
        let mark = |(key, rows): &(&'static str, u64)| Mark { key: Bytes::from_static(key.as_bytes()), rows: *rows };
        fn section(key: &[u8]) -> Option<&[u8]> {
            key.iter().position(|byte| *byte == b'#').map(|at| &key[..=at])
        }
        Sections::new(marks.iter().map(mark).collect(), 100, section)
    }

    #[test]
    fn large_sections_are_bounded() {
        let found =
            sections(&[("a#1", 60), ("c#1", 50), ("a#2", 39), ("b#1", 60), ("b#3", 40), ("c#2", 50), ("d", 900)]);
        assert_eq!(found.boundaries(), ["b#", "b$", "c#", "c$"].map(Bytes::from));
        let after =
            |key: &str| found.keys_after(key.as_bytes()).map(|key| key.escape_ascii().to_string()).collect::<Vec<_>>();
        assert_eq!(after("a#1"), ["a#2"]);
        assert_eq!(after("b#"), ["b#1", "b#3"]);
        assert_eq!(after("c#1"), ["c#2"]);
        assert_eq!(after("c$"), ["d"]);
    }
}
