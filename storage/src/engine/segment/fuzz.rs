//! Entry points of fuzzers ([`engine::fuzz`](crate::engine::fuzz)): our own parts of a segment's tail, behind a valid
//! checksum.

use super::{footer::Footer, tail};

/// The own part: a decoded one encodes to the same content.
pub(crate) fn fuzz_tail(rows: u32, bytes: &[u8]) {
    // Most random bytes do not even begin with a valid head.
    let begun = [tail::encode(&[], &[], 0, None)[..tail::HEAD_BYTES].to_vec(), bytes.to_vec()].concat();
    for bytes in [bytes, &begun] {
        if let Ok(taken) = tail::decode(bytes, rows) {
            assert!(taken.pages.is_sorted_by(|a, b| a.first < b.first && a.key < b.key));
            let again = tail::encode(&taken.blocks, &taken.pages, rows, taken.bloom.as_ref());
            let again = tail::decode(&again, rows).expect("what was taken is read back");
            assert!(again.blocks == taken.blocks && again.pages == taken.pages);
        }
    }
}

/// The footer: a decoded one encodes to the same content.
pub(crate) fn fuzz_footer(text: &str) {
    if let Ok(footer) = Footer::parse(text) {
        assert_eq!(Footer::parse(&footer.to_json()), Ok(footer.clone()), "a footer does not come back");
        for (at, group) in footer.groups.iter().enumerate().filter(|(_, group)| group.rows > 0) {
            let positions = group.positions();
            assert_eq!((footer.group_of(positions.start), footer.group_of(positions.end - 1)), (at, at));
        }
    }
}
