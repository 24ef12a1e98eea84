//! The division of inputs into parts, and the bound of an answer to one.

use apimachinery::error::ApiError;

/// Most bytes of a bounded text beside what it repeats of its input: the name of a manager is told
/// again for each character in it that is not printable, and may have 128.
const ROOM: usize = 384 * 1024;
/// Most times that a bounded text may repeat its input: in a message and its causes, where a byte
/// that is not printable takes up to ten.
const TIMES: usize = 64;

/// Returns the parts of an input, which lines of `%%` divide.
pub fn parts(data: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    let mut rest = data;
    while let Some(at) = rest.windows(4).position(|window| window == b"\n%%\n") {
        let (part, behind) = rest.split_at(at);
        parts.push(part);
        // The line feed that ends the divider may begin the next one.
        rest = &behind[3..];
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    parts.push(rest);
    parts
}

/// Returns the first line of a part, and what follows it.
pub fn first_line(part: &[u8]) -> (String, &[u8]) {
    let end = part.iter().position(|byte| *byte == b'\n');
    let (line, rest) = match end {
        Some(end) => (&part[..end], &part[end + 1..]),
        None => (part, &[][..]),
    };
    (String::from_utf8_lossy(line).into_owned(), rest)
}

/// The words of the server about an input do not outgrow it.
pub fn bounded(what: &str, length: usize, input: &[u8]) {
    let most = ROOM + TIMES * input.len();
    assert!(
        length <= most,
        "{what} is {length} bytes long, from an input of {}",
        input.len()
    );
}

/// A refusal has one of these codes, and its text is bounded.
pub fn refused(error: &ApiError, codes: &[u16], input: &[u8]) {
    assert!(codes.contains(&error.code()), "{}: {error}", error.code());
    let status = serde_json::to_vec(&error.to_status()).expect("a Status has a JSON form");
    bounded("a Status", status.len(), input);
}
