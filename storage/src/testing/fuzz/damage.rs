//! Damage, as fuzzers describe it: each [`EDIT_BYTES`] bytes are one edit of a file.

/// Bytes of an edit: kind, offset, amount, content.
pub(super) const EDIT_BYTES: usize = 6;

/// The bytes with all of the edits.
pub(super) fn damaged(bytes: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for edit in edits.chunks_exact(EDIT_BYTES) {
        change(&mut bytes, edit);
    }
    bytes
}

/// One edit.
pub(super) fn change(bytes: &mut Vec<u8>, edit: &[u8]) {
    let place = usize::from(u16::from_le_bytes([edit[1], edit[2]]));
    let at = place % (bytes.len() + 1);
    let end = bytes.len().min(at + usize::from(edit[3]) + 1);
    match edit[0] % 7 {
        0..2 => bytes[at..end].iter_mut().take(1).for_each(|byte| *byte ^= edit[4] | 1),
        2 => bytes[at..end].fill(edit[4]),
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
        _ => bytes.extend(std::iter::repeat_n(edit[4], usize::from(edit[3]) + 1)),
    }
}
