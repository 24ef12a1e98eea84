//! JSON text as Go writes it.

/// Bytes that are looked at together.
const STRIDE: usize = 64;

/// Bytes after which a second look is needed: the characters themselves and the first byte of
/// U+2028 and U+2029 in UTF-8.
#[expect(
    clippy::needless_bitwise_bool,
    reason = "branches cannot be made vectors of"
)]
fn suspicious(byte: u8) -> bool {
    (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == 0xE2)
}

/// Returns the position of the next of them. A list is a hundred megabytes with hardly any, so
/// whole strides are searched without a branch, which the compiler turns into vector instructions.
fn next(text: &[u8]) -> Option<usize> {
    let (strides, _) = text.as_chunks::<STRIDE>();
    let clean = |stride: &[u8; STRIDE]| !stride.iter().fold(false, |any, b| any | suspicious(*b));
    let passed = STRIDE * strides.iter().take_while(|stride| clean(stride)).count();
    let found = text.get(passed..)?.iter().position(|b| suspicious(*b))?;
    Some(passed + found)
}

/// Escapes `<`, `>`, `&`, U+2028 and U+2029 in the JSON text behind `from`, as Go's `encoding/json`
/// does. They occur within strings only, where `\u…` is always allowed.
pub fn html(text: &mut Vec<u8>, from: usize) {
    let Some(first) = next(&text[from..]) else {
        return;
    };
    let rest = text.split_off(from + first);
    let mut rest = rest.as_slice();
    while let Some(at) = next(rest) {
        text.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let (escaped, taken): (&[u8], usize) = match rest {
            [b'<', ..] => (b"\\u003c", 1),
            [b'>', ..] => (b"\\u003e", 1),
            [b'&', ..] => (b"\\u0026", 1),
            [0xE2, 0x80, 0xA8, ..] => (b"\\u2028", 3),
            [0xE2, 0x80, 0xA9, ..] => (b"\\u2029", 3),
            _ => (&rest[..1], 1),
        };
        text.extend_from_slice(escaped);
        rest = &rest[taken..];
    }
    text.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use apimachinery::encoding::to_json;

    #[test]
    fn leaves_what_stands_before() {
        let mut text = b"<<\"a<b\"".to_vec();
        html(&mut text, 2);
        assert_eq!(text, b"<<\"a\\u003cb\"");
    }

    proptest! {
        #[test]
        fn equals_the_encoder(plain in 0..200_usize, text in "[a-z<>&\u{2028}\u{2029}\u{2027}é\\\\\"]{0,20}") {
            let value = Value::String("x".repeat(plain) + &text);
            let mut escaped = value.to_string().into_bytes();
            html(&mut escaped, 0);
            prop_assert_eq!(&escaped, &to_json(&value).unwrap());
            prop_assert_eq!(serde_json::from_slice::<Value>(&escaped).unwrap(), value);
        }
    }
}
