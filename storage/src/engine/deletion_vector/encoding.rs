//! The format of a deletion vector's file. Pure.
//!
//! ```text
//! 8 bytes     magic "KSDEAD\r\n"
//! 1 byte      format version, 1
//! varint      chunks
//! for each chunk, in order:
//!   varint      number of the chunk, minus that of the previous chunk, minus one
//!   1 byte      form
//!     0           all of its positions are dead
//!     1           512 bytes: bit n of byte m is position 8 × m + n within the chunk
//!     2           varint: number of dead positions; then for each a varint: the position within the chunk, minus the
//!                 previous one, minus one
//! 4 bytes     CRC-32C of everything before, little-endian
//! ```
//!
//! A set of positions has exactly one encoding.

use super::super::codec::{Cursor, put_varint};
use super::{CHUNK_POSITIONS, CHUNK_WORDS, Chunk, DeletionVector, Words, count, positions};

/// Up to this number of dead positions a chunk is encoded as a list, which is shorter than its bits.
const LIST_POSITIONS_MAX: u32 = 255;

pub(super) const MAGIC: &[u8; 8] = b"KSDEAD\r\n";
/// The format that this program writes, and the only one that it reads.
pub(super) const FORMAT_VERSION: u8 = 1;
const FORM_FULL: u8 = 0;
const FORM_BITS: u8 = 1;
const FORM_LIST: u8 = 2;

impl DeletionVector {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(FORMAT_VERSION);
        put_varint(&mut out, self.chunks.len() as u64);
        let mut next = 0;
        for (&number, chunk) in &self.chunks {
            put_varint(&mut out, u64::from(number - next));
            next = number + 1;
            match chunk {
                Chunk::Full => out.push(FORM_FULL),
                Chunk::Some(words) => put_words(&mut out, words),
            }
        }
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Decodes the result of [`encode`](Self::encode); `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (content, checksum) = bytes.split_last_chunk()?;
        if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let mut cursor = Cursor::new(content.strip_prefix(MAGIC)?);
        if cursor.u8()? != FORMAT_VERSION {
            return None;
        }
        let (mut dead, mut next) = (Self::default(), 0u32);
        for _ in 0..cursor.varint()? {
            let number = next.checked_add(u32::try_from(cursor.varint()?).ok()?)?;
            if number > u32::MAX / CHUNK_POSITIONS {
                return None;
            }
            next = number + 1;
            let chunk = take_chunk(&mut cursor)?;
            dead.count += u64::from(count(chunk.words()));
            dead.chunks.insert(number, chunk);
        }
        cursor.is_empty().then_some(dead)
    }
}

fn put_words(out: &mut Vec<u8>, words: &Words) {
    let count = count(words);
    if count > LIST_POSITIONS_MAX {
        out.push(FORM_BITS);
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        return;
    }
    out.push(FORM_LIST);
    put_varint(out, u64::from(count));
    let mut next = 0;
    for position in positions(*words) {
        put_varint(out, u64::from(position - next));
        next = position + 1;
    }
}

fn take_chunk(cursor: &mut Cursor<'_>) -> Option<Chunk> {
    let mut words = [0; CHUNK_WORDS];
    match cursor.u8()? {
        FORM_FULL => return Some(Chunk::Full),
        FORM_BITS => {
            for word in &mut words {
                *word = cursor.i64()? as u64;
            }
            if count(&words) <= LIST_POSITIONS_MAX || count(&words) == CHUNK_POSITIONS {
                return None;
            }
        }
        FORM_LIST => {
            let mut next = 0u32;
            let count = cursor.varint()?;
            if count > u64::from(LIST_POSITIONS_MAX) {
                return None;
            }
            for _ in 0..count {
                let position = next.checked_add(u32::try_from(cursor.varint()?).ok()?)?;
                *words.get_mut(position as usize / 64)? |= 1 << (position % 64);
                next = position + 1;
            }
        }
        _ => return None,
    }
    Chunk::new(words)
}
