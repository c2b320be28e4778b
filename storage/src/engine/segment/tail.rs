//! The own part of a segment's tail. Pure.
//!
//! ```text
//! 8 bytes      magic "KSSEG\r\n\0"
//! varint       format version, 1
//! byte string  CRC-32C of each block of BLOCK_BYTES before the tail, the last one shorter: 4 bytes each, little-endian
//! varint       pages of column _key
//! for each page:
//!   varint       rows
//!   byte string  its first key
//! byte string  bloom filter of the keys: Parquet's split blocks of 32 bytes; empty if there is none
//! ```
//!
//! Pages cover the rows of all row groups in order: no page holds rows of two.

use crate::engine::{
    codec::{Cursor, put_bytes, put_varint},
    deletion_vector::Position,
};
use bytes::Bytes;
use parquet::bloom_filter::Sbbf;

/// Bytes that one checksum covers.
pub(super) const BLOCK_BYTES: usize = 8 << 10;

const MAGIC: &[u8; 8] = b"KSSEG\r\n\0";
const FORMAT_VERSION: u64 = 1;
/// Bytes of magic and version.
#[cfg(feature = "testing")]
pub(super) const HEAD_BYTES: usize = MAGIC.len() + 1;
/// Bytes of a block of the bloom filter.
const BLOOM_BLOCK_BYTES: usize = 32;

/// The beginning of a page of the column of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PageStart {
    /// The position of its first row.
    pub(super) first: Position,
    /// The first row's key.
    pub(super) key: Bytes,
}

/// The decoded own part.
#[derive(Debug)]
pub(super) struct Tail {
    /// CRC-32C of each block.
    pub(super) blocks: Vec<u32>,
    /// The pages, in order.
    pub(super) pages: Vec<PageStart>,
    /// A bloom filter of the keys.
    pub(super) bloom: Option<Sbbf>,
}

/// Encodes the own part; `rows` is the number of rows in all pages.
pub(super) fn encode(blocks: &[u32], pages: &[PageStart], rows: Position, bloom: Option<&Sbbf>) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put_varint(&mut out, FORMAT_VERSION);
    put_varint(&mut out, blocks.len() as u64 * 4);
    out.extend(blocks.iter().flat_map(|block| block.to_le_bytes()));
    put_varint(&mut out, pages.len() as u64);
    for (at, page) in pages.iter().enumerate() {
        let end = pages.get(at + 1).map_or(rows, |next| next.first);
        put_varint(&mut out, u64::from(end - page.first));
        put_bytes(&mut out, &page.key);
    }
    let mut bits = Vec::new();
    if let Some(bloom) = bloom {
        bloom.write_bitset(&mut bits).expect("memory takes what is written");
    }
    put_bytes(&mut out, &bits);
    out
}

/// Decodes the own part at the beginning of the tail; an error text if it is malformed.
pub(super) fn decode(tail: &[u8], rows: Position) -> Result<Tail, String> {
    let Some(rest) = tail.strip_prefix(MAGIC) else { return Err("the tail does not begin as it should".into()) };
    let mut cursor = Cursor::new(rest);
    match cursor.varint() {
        Some(FORMAT_VERSION) => {}
        version => return Err(format!("the format version is {version:?}, this program reads {FORMAT_VERSION}")),
    }
    take(&mut cursor, rows).ok_or_else(|| "the tail contradicts itself".into())
}

fn take(cursor: &mut Cursor<'_>, rows: Position) -> Option<Tail> {
    let (blocks, rest) = cursor.bytes()?.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let mut pages: Vec<PageStart> = Vec::new();
    let mut first: Position = 0;
    for _ in 0..cursor.varint()? {
        let rows = u32::try_from(cursor.varint()?).ok().filter(|&rows| rows > 0)?;
        let key = cursor.bytes()?;
        if pages.last().is_some_and(|before| before.key >= key) {
            return None;
        }
        pages.push(PageStart { first, key: Bytes::copy_from_slice(key) });
        first = first.checked_add(rows)?;
    }
    let bits = cursor.bytes()?;
    let bloom = (!bits.is_empty() && bits.len() % BLOOM_BLOCK_BYTES == 0).then(|| Sbbf::new(bits));
    let blocks = blocks.iter().map(|&block| u32::from_le_bytes(block)).collect();
    (first == rows).then_some(Tail { blocks, pages, bloom })
}
