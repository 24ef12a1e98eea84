//! Continue tokens of paged lists, in the format of the kube-apiserver: a client that got its
//! token before the switch goes on here, or is told in the usual way that it expired.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// The place where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continue {
    /// Version of the whole list; `None` goes on in the newest data.
    pub rv: Option<u64>,
    /// First key, below the namespace of a namespaced list. Ends in NUL when it was made from the
    /// last key of a page, which it then follows immediately.
    pub start: String,
    /// The rest of the list, where it was counted. A token without a version has none.
    pub left: Option<Left>,
}

/// The number of objects from the place of a token on. A kube-apiserver does not know it, and reads
/// the token without.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The list that was counted.
    of: String,
    objects: u32,
}

/// The message of a 400 about a token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid continue token: continue key is not valid: {0}")]
pub struct TokenError(String);

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    left: Option<Left>,
}

impl Continue {
    /// Returns the token of the page that follows the object with this key.
    #[must_use]
    pub fn after(rv: Option<u64>, key: &str) -> Self {
        Self {
            rv,
            start: format!("{key}\0"),
            left: None,
        }
    }

    /// Adds the number of objects that follow in a list, where it is known.
    #[must_use]
    pub fn with_left(self, list: String, objects: Option<usize>) -> Self {
        let objects = objects.and_then(|objects| u32::try_from(objects).ok());
        let left = objects.map(|objects| Left { of: list, objects });
        Self { left, ..self }
    }

    /// Returns the number of objects from this place on, where it is known of this list. It is what
    /// the client brings: right in a token of ours, and anything in a forged one.
    #[must_use]
    pub fn left_of(&self, list: &str) -> Option<usize> {
        let left = self.left.as_ref().filter(|left| left.of == list)?;
        usize::try_from(left.objects).ok()
    }

    /// Returns the key behind which the page begins, or the key at which it does.
    #[must_use]
    pub fn position(&self) -> (&str, bool) {
        match self.start.strip_suffix('\0') {
            Some(last) => (last, false),
            None => (&self.start, true),
        }
    }

    /// Returns the token.
    #[must_use]
    pub fn encode(&self) -> String {
        let wire = Wire {
            v: "meta.k8s.io/v1".to_owned(),
            rv: self
                .rv
                .map_or(-1, |rv| i64::try_from(rv).unwrap_or(i64::MAX)),
            start: self.start.clone(),
            left: self.left.clone(),
        };
        // A struct of texts and numbers always has a JSON form.
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&wire).unwrap_or_default())
    }

    /// Reads a token.
    ///
    /// # Errors
    /// If it is not one that this or the kube-apiserver made.
    pub fn decode(token: &str) -> Result<Self, TokenError> {
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|e| TokenError(e.to_string()))?;
        let wire: Wire = serde_json::from_slice(&bytes).map_err(|e| TokenError(e.to_string()))?;
        let refuse = |what: &str| Err(TokenError(what.to_owned()));
        if wire.v != "meta.k8s.io/v1" {
            return refuse(&format!(
                "server does not recognize this encoded version {}",
                wire.v
            ));
        }
        if wire.rv == 0 {
            return refuse("incorrect encoded start resourceVersion (version meta.k8s.io/v1)");
        }
        if wire.start.is_empty() {
            return refuse("encoded start key empty (version meta.k8s.io/v1)");
        }
        // What would lead out of the list in a file system is no key of it.
        let key = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        if key.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return refuse(&wire.start);
        }
        let rv = u64::try_from(wire.rv).ok();
        Ok(Self {
            rv,
            start: key.to_owned(),
            // The newest data are not those that were counted.
            left: wire.left.filter(|_| rv.is_some()),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn there_and_back() {
        let counted = Continue::after(Some(7), "name");
        let counted = counted.with_left("things.g/ns".to_owned(), Some(3));
        for token in [
            Continue::after(Some(7), "ns/name"),
            Continue::after(None, "name"),
            counted,
        ] {
            assert_eq!(Continue::decode(&token.encode()), Ok(token));
        }
        assert_eq!(Continue::after(None, "a/b").position(), ("a/b", false));
    }

    #[test]
    fn a_token_of_the_kube_apiserver() {
        // {"v":"meta.k8s.io/v1","rv":1234,"start":"default/a\u0000"}
        let token =
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTIzNCwic3RhcnQiOiJkZWZhdWx0L2FcdTAwMDAifQ";
        let decoded = Continue::decode(token).unwrap();
        assert_eq!(decoded, Continue::after(Some(1234), "default/a"));
        assert_eq!(decoded.encode(), token);
    }

    #[test]
    fn what_is_left_is_of_one_list_at_one_version() {
        let token = |rv, objects| {
            let token = Continue::after(rv, "a");
            token.with_left("l".to_owned(), objects)
        };
        assert_eq!(token(Some(7), Some(3)).left_of("l"), Some(3));
        assert_eq!(token(Some(7), Some(3)).left_of("m"), None);
        assert_eq!(token(Some(7), None).left_of("l"), None);
        assert_eq!(token(Some(7), Some(usize::MAX)).left_of("l"), None);
        let newest = Continue::decode(&token(None, Some(3)).encode());
        assert_eq!(newest, Ok(Continue::after(None, "a")));
    }

    #[test]
    fn a_token_that_says_more_than_this_release_knows() {
        let token = wire(r#"{"v":"meta.k8s.io/v1","rv":7,"start":"a\u0000","more":{"x":1}}"#);
        let decoded = Continue::decode(&token);
        assert_eq!(decoded, Ok(Continue::after(Some(7), "a")));
    }

    fn wire(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    #[rstest]
    #[case("nonsense!".to_owned())]
    #[case("bm90IGpzb24".to_owned())]
    #[case(wire(r#"{"v":"v2","rv":1,"start":"a"}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a"}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":""}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a","left":3}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a","left":{"of":"l"}}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a","left":{"of":"","objects":-1}}"#))]
    #[case(wire(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a","left":{"of":"","objects":5e9}}"#))]
    fn no_tokens(#[case] token: String) {
        let error = Continue::decode(&token).unwrap_err().to_string();
        assert!(error.starts_with("invalid continue token: continue key is not valid: "));
    }
}
