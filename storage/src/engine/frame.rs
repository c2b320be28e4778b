//! The format of a log file. Pure.
//!
//! A log file is allocated at full size, as zeroes, and filled from the front. Integers are little-endian.
//!
//! ```text
//! header, 40 bytes, synced before the first frame is written
//!      0   8  magic            "KSLOG\r\n\0"
//!      8   4  format version   3
//!     12   4  zero
//!     16   8  number of the file
//!     24   8  creation time of the file, in microseconds
//!     32   4  CRC-32C of bytes 0 to 32
//!     36   4  zero
//!
//! frame, one for each group of commits, from a multiple of 8 bytes on
//!      0   4  length of the payload, at least 1
//!      4   4  CRC-32C of length, sequence and payload, seeded with the header's CRC
//!      8   8  sequence: that of the previous frame, in this file or the one before, plus 1
//!     16      payload: records (module `record`)
//!             zeroes up to a multiple of 8
//!
//! after the last frame: zeroes
//! ```
//!
//! The seed covers the file's number and creation time: a frame is sound in its own file only, and no client can write
//! a value that looks like one.
//!
//! A frame is written after the sync of the previous one. So a bad frame was never acknowledged if nothing sound comes
//! after it ([`Tail::Torn`]), and was damaged later if a frame with a later sequence follows anywhere. The length of a
//! bad frame cannot be trusted, so every offset at which a frame may begin is examined. One case is ambiguous: damage
//! to the very last frame looks like a torn one. To exclude that, the synced length would have to be kept elsewhere.

/// Bytes of a file's header.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of a frame before its payload.
pub(crate) const FRAME_BYTES: usize = 16;
/// Alignment of frames.
pub(crate) const ALIGNMENT: usize = 8;
/// The format that this program writes, and the only one that it reads.
pub(crate) const FORMAT_VERSION: u32 = 3;

const MAGIC: &[u8; 8] = b"KSLOG\r\n\0";

/// The result of reading a file's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Header {
    /// A sound header.
    Sound {
        /// The number in the header.
        number: u64,
        /// The seed of its frames' checksums.
        seed: u32,
    },
    /// Sound, but in a format that this program does not know.
    Version(u32),
    /// Not a header, and nothing after it: the creation of the file was interrupted.
    Unfinished,
    /// Not a header, with frames after it.
    Damaged,
}

/// The header of a new file.
pub(crate) fn header(number: u64, made_micros: i64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes[24..32].copy_from_slice(&made_micros.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..32]);
    bytes[32..36].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads the header of a whole file.
pub(crate) fn read_header(file: &[u8]) -> Header {
    let sound = |bytes: &&[u8]| bytes.starts_with(MAGIC) && crc32c::crc32c(&bytes[..32]) == u32_at(bytes, 32);
    match file.get(..HEADER_BYTES).filter(sound) {
        Some(bytes) if u32_at(bytes, 8) != FORMAT_VERSION => Header::Version(u32_at(bytes, 8)),
        Some(bytes) => Header::Sound { number: u64_at(bytes, 16), seed: u32_at(bytes, 32) },
        None if file.iter().skip(HEADER_BYTES).all(|&byte| byte == 0) => Header::Unfinished,
        None => Header::Damaged,
    }
}

/// Fills in the head before the payload, and pads. The buffer begins with [`FRAME_BYTES`] bytes of any content.
pub(crate) fn seal(buffer: &mut Vec<u8>, seed: u32, sequence: u64) {
    let length = u32::try_from(buffer.len() - FRAME_BYTES).expect("a group is bounded far below 4 GiB");
    buffer[..4].copy_from_slice(&length.to_le_bytes());
    buffer[8..16].copy_from_slice(&sequence.to_le_bytes());
    let checksum = checksum(buffer, seed);
    buffer[4..8].copy_from_slice(&checksum.to_le_bytes());
    buffer.resize(padded(buffer.len()), 0);
}

/// The next multiple of [`ALIGNMENT`].
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// A sound frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its sequence.
    pub(crate) sequence: u64,
    /// Its records.
    pub(crate) payload: &'a [u8],
    /// The offset of the next one in the file.
    pub(crate) end: usize,
}

/// The sound frame that begins at `offset`, if there is one.
pub(crate) fn frame_at(file: &[u8], offset: usize, seed: u32) -> Option<Frame<'_>> {
    let rest = file.get(offset..)?;
    if rest.len() < FRAME_BYTES {
        return None;
    }
    let length = u32_at(rest, 0) as usize;
    let bytes = rest.get(..FRAME_BYTES.checked_add(length)?).filter(|_| length > 0)?;
    (checksum(bytes, seed) == u32_at(bytes, 4)).then(|| Frame {
        sequence: u64_at(bytes, 8),
        payload: &bytes[FRAME_BYTES..],
        end: (offset + padded(bytes.len())).min(file.len()),
    })
}

/// The content after the last sound frame of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Zeroes.
    Clean,
    /// An incomplete frame, never acknowledged.
    Torn {
        /// The end of its last byte in the file.
        end: usize,
    },
    /// A bad frame, followed by a sound one of a later sequence.
    Damaged {
        /// The offset of the sound frame.
        sound: usize,
    },
}

/// Classifies the content from `offset` on, where no sound frame begins and one of sequence `expected` would.
pub(crate) fn read_tail(file: &[u8], offset: usize, seed: u32, expected: u64) -> Tail {
    let rest = file.get(offset..).unwrap_or_default();
    let Some(last) = rest.iter().rposition(|&byte| byte != 0) else { return Tail::Clean };
    let end = offset + last + 1;
    // Frames are numbered consecutively, so hardly any garbage reaches the checksum as a later frame.
    let later = expected.saturating_add(1)..=expected.saturating_add((rest.len() / FRAME_BYTES) as u64 + 1);
    let sound = (offset + ALIGNMENT..end).step_by(ALIGNMENT).find(|&at| {
        file.len() - at >= FRAME_BYTES && later.contains(&u64_at(file, at + 8)) && frame_at(file, at, seed).is_some()
    });
    sound.map_or(Tail::Torn { end }, |sound| Tail::Damaged { sound })
}

fn checksum(frame: &[u8], seed: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &frame[..4]), &frame[8..])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file of 1 KiB with the given payloads, and the end of each frame.
    fn file(payloads: &[&[u8]]) -> (Vec<u8>, Vec<usize>, u32) {
        let mut bytes = header(7, 1_000).to_vec();
        let Header::Sound { number: 7, seed } = read_header(&bytes) else { panic!("header") };
        let mut ends = vec![HEADER_BYTES];
        for (at, payload) in payloads.iter().enumerate() {
            let mut frame = vec![0xaa; FRAME_BYTES];
            frame.extend_from_slice(payload);
            seal(&mut frame, seed, at as u64 + 1);
            bytes.extend_from_slice(&frame);
            ends.push(bytes.len());
        }
        bytes.resize(1024, 0);
        (bytes, ends, seed)
    }

    /// The payloads that a reader gets, and the tail.
    fn read(file: &[u8], seed: u32) -> (Vec<Vec<u8>>, Tail) {
        let (mut at, mut payloads) = (HEADER_BYTES, Vec::new());
        while let Some(frame) = frame_at(file, at, seed) {
            assert_eq!(frame.sequence, payloads.len() as u64 + 1);
            payloads.push(frame.payload.to_vec());
            at = frame.end;
        }
        let tail = read_tail(file, at, seed, payloads.len() as u64 + 1);
        (payloads, tail)
    }

    #[test]
    fn frames_are_read_back() {
        let (bytes, _, seed) = file(&[b"a", b"twelve bytes", &[0; 8]]);
        assert_eq!(read(&bytes, seed), (vec![b"a".to_vec(), b"twelve bytes".to_vec(), vec![0; 8]], Tail::Clean));
        assert_eq!(frame_at(&bytes, HEADER_BYTES, seed ^ 1), None);
    }

    #[test]
    fn a_header_tells_unfinished_from_damaged() {
        let (bytes, _, _) = file(&[]);
        let mut flipped = bytes.clone();
        flipped[20] ^= 1;
        assert_eq!(read_header(&flipped), Header::Unfinished);
        assert_eq!(read_header(&[]), Header::Unfinished);
        flipped[HEADER_BYTES] = 1;
        assert_eq!(read_header(&flipped), Header::Damaged);
        let mut newer = bytes;
        newer[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
        let checksum = crc32c::crc32c(&newer[..32]);
        newer[32..36].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(read_header(&newer), Header::Version(FORMAT_VERSION + 1));
    }

    #[test]
    fn a_damaged_length_does_not_hide_the_frames_behind_it() {
        let (mut bytes, ends, seed) = file(&[b"first", b"second", b"third"]);
        bytes[ends[1]..ends[1] + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&bytes, seed), (vec![b"first".to_vec()], Tail::Damaged { sound: ends[2] }));
        bytes[ends[1]..ends[1] + 4].fill(0);
        assert_eq!(read(&bytes, seed).1, Tail::Damaged { sound: ends[2] });
    }

    proptest! {
        #[test]
        fn a_frame_cut_anywhere_is_a_torn_tail(cut in 0usize..48, payload in prop::collection::vec(1u8.., 32)) {
            let (mut bytes, ends, seed) = file(&[b"first", &payload]);
            bytes[ends[1] + cut..].fill(0);
            let (payloads, tail) = read(&bytes, seed);
            prop_assert_eq!(payloads, vec![b"first".to_vec()]);
            prop_assert!(matches!((cut, tail), (0, Tail::Clean) | (1.., Tail::Torn { .. })), "{:?}", tail);
        }

        #[test]
        fn no_flipped_bit_yields_a_wrong_payload(bit in 0usize..1024 * 8) {
            let payloads: [&[u8]; 3] = [b"first payload", b"second", b"third"];
            let (mut bytes, ends, seed) = file(&payloads);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let at = bit / 8;
            if at < HEADER_BYTES {
                // The checksum of the header does not cover the zero bytes.
                prop_assert!(read_header(&bytes) == Header::Damaged || at >= 36);
                return Ok(());
            }
            let (got, tail) = read(&bytes, seed);
            prop_assert!(payloads.iter().map(|payload| payload.to_vec()).collect::<Vec<_>>().starts_with(&got));
            if got.len() < 3 {
                let last = at >= ends[2];
                prop_assert_eq!(matches!(tail, Tail::Torn { .. }), last, "{:?}", tail);
                prop_assert_eq!(matches!(tail, Tail::Damaged { .. }), !last, "{:?}", tail);
            }
        }
    }
}
