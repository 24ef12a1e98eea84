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
}

impl Continue {
    /// Returns the token of the page that follows the object with this key.
    #[must_use]
    pub fn after(rv: Option<u64>, key: &str) -> Self {
        Self {
            rv,
            start: format!("{key}\0"),
        }
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
        Ok(Self {
            rv: u64::try_from(wire.rv).ok(),
            start: key.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn there_and_back() {
        for token in [
            Continue::after(Some(7), "ns/name"),
            Continue::after(None, "name"),
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
    fn no_tokens(#[case] token: String) {
        let error = Continue::decode(&token).unwrap_err().to_string();
        assert!(error.starts_with("invalid continue token: continue key is not valid: "));
    }
}
