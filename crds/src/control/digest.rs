//! The digest of what is stored, and the checksum of an object.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Most entries in one [`Digest`] page; a larger `limit` is lowered to it.
pub const MAX_DIGEST_ITEMS: usize = 5000;

/// Query value `set` of the `digest` subresource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DigestSet {
    /// The objects as they are now.
    #[default]
    Objects,
    /// The etcd copies that were imported and not pruned, with the uid and resourceVersion they
    /// had there, whatever became of the object here since.
    Imported,
}

/// Answer of the `digest` subresource; query parameters `set`, `limit`, `continue`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Digest {
    /// Always [`API_VERSION`](super::API_VERSION).
    pub api_version: String,
    /// Always `Digest`.
    pub kind: String,
    /// `resourceVersion` of the snapshot and, before the last page, `continue`.
    pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta,
    /// Sorted by namespace, then name.
    pub items: Vec<DigestItem>,
}

/// One object in a [`Digest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DigestItem {
    /// Namespace; empty for cluster-scoped kinds.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
    /// resourceVersion.
    pub resource_version: String,
    /// [`checksum`] of the object in hexadecimal digits; empty in the set `Imported`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    /// True while the object is as it was imported: no write of ours has touched it.
    #[serde(default)]
    pub as_imported: bool,
    /// True while an object of this name is stored, whatever its uid; always so in the set
    /// `Objects`.
    #[serde(default)]
    pub stored: bool,
}

/// SHA-256 of an object; see [`checksum`].
pub type Checksum = [u8; 32];

/// Returns the checksum of an object as both sides of a migration compute it: SHA-256 over its
/// compact JSON with sorted keys, without `apiVersion` (the same object reads differently in each
/// served version) and without `metadata.resourceVersion` (compared on its own).
#[must_use]
pub fn checksum(object: &Value) -> Checksum {
    let mut hasher = Sha256::new();
    hash_value(object, 0, &mut hasher);
    hasher.finalize().into()
}

/// Hashes a value. Depth 0 is the object, depth 1 its `metadata` and other top-level fields.
fn hash_value(value: &Value, depth: u8, hasher: &mut Sha256) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                if depth == 0 && key == "apiVersion" {
                    continue;
                }
                hasher.update(Value::String(key.clone()).to_string().as_bytes());
                hasher.update(b":");
                match map.get(key) {
                    Some(Value::Object(meta)) if depth == 0 && key == "metadata" => {
                        let mut meta = meta.clone();
                        meta.remove("resourceVersion");
                        hash_value(&Value::Object(meta), 1, hasher);
                    }
                    Some(inner) => hash_value(inner, 1, hasher),
                    None => {}
                }
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                hash_value(item, 1, hasher);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::checksum;

    #[test]
    fn checksum_ignores_served_version_and_resource_version_only() {
        let a = json!({"apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "n", "resourceVersion": "1"}, "spec": {"apiVersion": "x"}});
        let mut b = a.clone();
        b["apiVersion"] = json!("g/v2");
        b["metadata"]["resourceVersion"] = json!("2");
        assert_eq!(checksum(&a), checksum(&b));
        b["spec"]["apiVersion"] = json!("y");
        assert_ne!(checksum(&a), checksum(&b));
        b = a.clone();
        b["metadata"]["labels"] = json!({});
        assert_ne!(checksum(&a), checksum(&b));
    }
}
