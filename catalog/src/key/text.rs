//! Keys as people read them.

use std::fmt::Write;

/// A key as text: characters that print as they are, a backslash as two, every other byte as `\xNN`.
pub fn key_text(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    // Writing to a String does not fail.
    let escaped = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _ = write!(text, "\\x{byte:02x}");
        }
    };
    for chunk in key.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                printed if !printed.is_control() => text.push(printed),
                other => escaped(&mut text, other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        escaped(&mut text, chunk.invalid());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(key: &[u8], expected: Expect) {
        expected.assert_eq(&key_text(key));
    }

    #[test]
    fn keys_are_shown_without_loss() {
        check(b"alto#phone#New$`York", expect!["alto#phone#New$`York"]);
        check("café\\".as_bytes(), expect!["café\\\\"]);
        check(b"alto#\x00\xff\n", expect!["alto#\\x00\\xff\\x0a"]);
        check("\u{85}".as_bytes(), expect!["\\xc2\\x85"]);
        check(b"", expect![""]);
    }
}
