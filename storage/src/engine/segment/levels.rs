//! Which rows of an encoded page have a value, without decoding the page.
//!
//! A point read of a wide row meets a page of each of hundreds of columns, and the row has a value in a few of them.
//! Every column of a segment is a root that may be null, or is never null, so that a page's definition levels are one
//! bit for each row, in Parquet's hybrid of run lengths and packed bits
//! ([its specification](https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE)).

use parquet::{basic::Encoding, column::page::Page};

/// Whether none of these rows, ascending, has a value in a page of a column that may be null. `false` also for what is
/// encoded otherwise, or is damaged: whoever decodes it says so.
pub(super) fn are_null(page: &Page, rows: &[u32]) -> bool {
    let Page::DataPage { buf, def_level_encoding: Encoding::RLE, .. } = page else { return false };
    let Some((length, rest)) = buf.split_first_chunk::<4>() else { return false };
    let levels = usize::try_from(u32::from_le_bytes(*length)).ok().and_then(|length| rest.get(..length));
    levels.is_some_and(|levels| any_set(levels, rows) == Some(false))
}

/// Whether one of the levels at these places, ascending, is not 0; `None` if the levels end before.
fn any_set(levels: &[u8], places: &[u32]) -> Option<bool> {
    let (mut rest, mut first) = (levels, 0_usize);
    let mut places = places.iter().map(|place| *place as usize).peekable();
    while let Some(next) = places.peek().copied() {
        let header = varint(&mut rest)?;
        let length = usize::try_from(header >> 1).ok()?;
        // Packed bits come in groups of eight.
        let (bytes, count) = if header & 1 == 1 { (length, length.checked_mul(8)?) } else { (1, length) };
        let (run, after) = rest.split_at_checked(bytes)?;
        let end = first.checked_add(count)?;
        if next < end {
            while let Some(place) = places.next_if(|place| *place < end) {
                let at = place - first;
                let is_set = if header & 1 == 1 { run[at / 8] >> (at % 8) & 1 == 1 } else { run[0] != 0 };
                if is_set {
                    return Some(true);
                }
            }
        }
        (rest, first) = (after, end);
    }
    Some(false)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_found_in_runs_and_in_packed_bits() {
        // 200 times 0, then 0 0 1 0 0 0 0 0, then 5 times 1.
        let levels = [0x90, 0x03, 0, 0x03, 0b100, 0x0a, 1];
        let set = |places: &[u32]| any_set(&levels, places);
        assert_eq!(set(&[]), Some(false));
        assert_eq!(set(&[0, 7, 199, 200, 201, 203, 207]), Some(false));
        assert_eq!(set(&[202]), Some(true));
        assert_eq!(set(&[0, 208]), Some(true));
        assert_eq!(set(&[212]), Some(true));
        assert_eq!(set(&[0, 213]), None);
        assert_eq!(any_set(&[0x03], &[1]), None);
        assert_eq!(any_set(&[0x80; 11], &[1]), None);
    }
}
