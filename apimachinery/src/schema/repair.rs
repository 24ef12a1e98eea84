//! JSON texts that Go's decoder reads although they hold text that is no Unicode: it puts the
//! replacement character in its place.

use std::borrow::Cow;

/// Returns the text of a JSON body in a form that can be read: with replacement characters where it
/// needs them.
#[must_use]
pub fn readable(body: &[u8]) -> Cow<'_, str> {
    match (repaired(body), str::from_utf8(body)) {
        (None, Ok(text)) => Cow::Borrowed(text),
        (text, _) => Cow::Owned(text.unwrap_or_default()),
    }
}

/// Returns the text with each byte that is no UTF-8, and each escaped half of a surrogate pair,
/// replaced; none where there is nothing to replace.
#[must_use]
pub(super) fn repaired(body: &[u8]) -> Option<String> {
    if let Ok(text) = str::from_utf8(body) {
        return with_whole_pairs(text);
    }
    let text = replaced(body);
    Some(with_whole_pairs(&text).unwrap_or(text))
}

/// Returns a text with each byte that is no UTF-8 replaced.
#[must_use]
pub(super) fn replaced(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Returns the text without escaped halves of surrogate pairs; none where it has none.
fn with_whole_pairs(text: &str) -> Option<String> {
    if !text.contains("\\u") {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut changed = false;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match (surrogate(escape), escape.get(6..).and_then(surrogate)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                out.push_str("\\ufffd");
                changed = true;
                rest = &escape[6..];
                continue;
            }
            // The escaped character, be it a backslash.
            (None, _) => 1 + escape[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&escape[..length]);
        rest = &escape[length..];
    }
    out.push_str(rest);
    changed.then_some(out)
}

/// Returns the half of a pair that an escape at the beginning of a text means.
fn surrogate(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let half = u32::from_str_radix(digits, 16).ok()?;
    (0xd800..=0xdfff).contains(&half).then_some(half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(b"{\"a\":\"\xff\xfe\"}", "{\"a\":\"\u{fffd}\u{fffd}\"}")]
    #[case(br#"["\ud800"]"#, r#"["\ufffd"]"#)]
    #[case(br#"["\udc00\ud83d\ude00"]"#, r#"["\ufffd\ud83d\ude00"]"#)]
    #[case(br#"["\ud800\u0041"]"#, r#"["\ufffd\u0041"]"#)]
    #[case(br#"["\\ud800\ud800"]"#, r#"["\\ud800\ufffd"]"#)]
    fn halves_and_bytes_are_replaced(#[case] body: &[u8], #[case] expected: &str) {
        assert_eq!(repaired(body).as_deref(), Some(expected));
    }

    #[rstest::rstest]
    #[case(b"{}")]
    #[case(br#"["\ud83d\ude00 \\ \" \u00e9"]"#)]
    #[case(b"\"\\")]
    #[case(b"\\\xc3\xa9")]
    fn most_texts_stay(#[case] body: &[u8]) {
        assert_eq!(repaired(body), None);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(body in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let _ = repaired(&body);
        }

        #[test]
        fn escapes_never_panic(body in r"[\\ud8cé0-9a-f]{0,40}") {
            let _ = repaired(body.as_bytes());
        }
    }
}
