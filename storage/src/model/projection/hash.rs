//! Numbers for texts.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Returns a number that no other text has, even if somebody tries to make one: 64 bits of SHA-256.
pub(crate) fn hash(text: &[u8]) -> i64 {
    let digest = Sha256::digest(text);
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}

/// Returns JSON that PostgreSQL can take texts from: it knows no NUL character, which becomes
/// U+FFFD. (Where the text has a backslash before `u0000`, that becomes `ufffd`, too; so it does in
/// the views.)
pub(super) fn json(value: &impl Serialize) -> String {
    // Structs, tuples, numbers and texts have a JSON text, always.
    let json = serde_json::to_string(value).unwrap_or_default();
    if json.contains("\\u0000") {
        json.replace("\\u0000", "\\ufffd")
    } else {
        json
    }
}
