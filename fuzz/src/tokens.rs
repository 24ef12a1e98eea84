//! Continue tokens.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reports_server::api::token::Continue;

use crate::parts::bounded;

/// A token, and the JSON within one: what is read is written and read again as the same, and leads
/// to no place outside of its list.
pub fn continue_token(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        read(text, data);
    }
    read(&URL_SAFE_NO_PAD.encode(data), data);
}

fn read(token: &str, input: &[u8]) {
    let page = match Continue::decode(token) {
        Ok(page) => page,
        Err(error) => return bounded("an error", error.to_string().len(), input),
    };
    assert_eq!(Continue::decode(&page.encode()).as_ref(), Ok(&page));
    let (key, inclusive) = page.position();
    assert_eq!(page.start.ends_with('\0'), !inclusive);
    assert!(page.start.starts_with(key));
    assert_ne!(page.rv, Some(0));
    for part in page.start.split('/') {
        assert!(!matches!(part, "" | "." | ".."), "{:?}", page.start);
    }
}
