//! Objects reduced to their metadata.

use serde_json::{Map, Value};

/// The version of `meta.k8s.io` that a client asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MetaVersion {
    /// `v1`
    #[default]
    V1,
    /// `v1beta1`, still asked for by old clients.
    V1Beta1,
}

impl MetaVersion {
    /// Returns `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// Returns a `PartialObjectMetadata` of an object.
#[must_use]
pub fn partial_metadata(whole: Value, version: MetaVersion) -> Value {
    let metadata = match whole {
        Value::Object(mut fields) => fields.remove("metadata"),
        _ => None,
    };
    object([
        ("apiVersion", version.api_version().into()),
        ("kind", "PartialObjectMetadata".into()),
        (
            "metadata",
            metadata.unwrap_or_else(|| Value::Object(Map::new())),
        ),
    ])
}

/// Returns a `PartialObjectMetadataList`; `metadata` is that of the original list.
#[must_use]
pub fn partial_metadata_list(
    metadata: Value,
    objects: impl IntoIterator<Item = Value>,
    version: MetaVersion,
) -> Value {
    let items: Vec<Value> = objects
        .into_iter()
        .map(|object| partial_metadata(object, version))
        .collect();
    object([
        ("apiVersion", version.api_version().into()),
        ("kind", "PartialObjectMetadataList".into()),
        ("metadata", metadata),
        ("items", items.into()),
    ])
}

/// Returns an object of these fields, which are moved and not copied as `json!` would.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}
