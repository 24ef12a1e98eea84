//! Characters and quoted strings.

use std::fmt::Write as _;

/// Returns `unicode.IsPrint`: true for letters, marks, numbers, punctuation, symbols and the ASCII
/// space.
#[must_use]
pub fn is_print(character: char) -> bool {
    if matches!(character, '"' | '\'' | '\\') {
        return true;
    }
    // The standard library escapes, after a first character, exactly what is not printable.
    let text = format!("a{character}");
    text.escape_debug().eq(text.chars())
}

/// Returns `%q` of a string.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            _ if is_print(character) => quoted.push(character),
            _ => escape(&mut quoted, character),
        }
    }
    quoted.push('"');
    quoted
}

/// Returns a text as package `time` quotes one that it cannot read: the bytes that are no printable
/// ASCII one by one, except for a delete.
#[must_use]
pub fn quote_time(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            ' '..='\u{7f}' => quoted.push(character),
            _ => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a String does not fail.
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

fn escape(quoted: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a String does not fail.
    let _ = match code {
        0..0x20 | 0x7f => write!(quoted, "\\x{code:02x}"),
        0x20..0x10000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
}
