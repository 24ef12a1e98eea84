//! A response body that is computed once and served many times with an entity tag.

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha512};

/// A ready-made JSON document, with the tags by which a client asks whether it has changed.
///
/// Equal content makes equal bytes and an equal tag, in whatever order it was made, so that the
/// kube-apiserver's `If-None-Match` polls are answered with 304 and replicas agree with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The JSON text, with a newline at its end as the kube-apiserver writes it.
    pub body: Bytes,
    /// SHA-512 of the body in upper-case hex, without quotes: the value of `?hash=`.
    pub hash: Arc<str>,
}

impl Document {
    /// Serialises `content`; types of this crate serialise without errors.
    ///
    /// # Errors
    /// If a map has keys that are no strings.
    pub fn new(content: &impl Serialize) -> Result<Self, serde_json::Error> {
        let mut body = serde_json::to_vec(content)?;
        body.push(b'\n');
        let hash = hex::encode_upper(Sha512::digest(&body));
        Ok(Self {
            body: body.into(),
            hash: hash.into(),
        })
    }

    /// Returns the strong entity tag, quoted: the value of the `ETag` header.
    #[must_use]
    pub fn etag(&self) -> String {
        format!("\"{}\"", self.hash)
    }

    /// Returns whether an `If-None-Match` header names this document (a list of tags, weak ones, or
    /// `*`).
    #[must_use]
    pub fn matches(&self, if_none_match: &str) -> bool {
        if_none_match.split(',').map(str::trim).any(|tag| {
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag == "*" || tag.trim_matches('"') == &*self.hash
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("*", true)]
    #[case("\"TAG\"", true)]
    #[case("W/\"TAG\"", true)]
    #[case("\"other\", \"TAG\"", true)]
    #[case("\"other\"", false)]
    #[case("", false)]
    fn if_none_match(#[case] header: &str, #[case] expected: bool) -> anyhow::Result<()> {
        let document = Document::new(&serde_json::json!({"a": 1}))?;
        assert_eq!(
            document.matches(&header.replace("TAG", &document.hash)),
            expected
        );
        Ok(())
    }

    #[test]
    fn tag_is_quoted_upper_hex_of_the_body() -> anyhow::Result<()> {
        let document = Document::new(&serde_json::json!({"b": 1, "a": 2}))?;
        assert_eq!(&document.body[..], b"{\"a\":2,\"b\":1}\n");
        assert_eq!(document.hash.len(), 128);
        assert!(
            document
                .hash
                .chars()
                .all(|c| c.is_ascii_digit() || c.is_ascii_uppercase())
        );
        assert_eq!(document.etag(), format!("\"{}\"", document.hash));
        Ok(())
    }
}
