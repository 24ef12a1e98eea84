//! Order and stored form of versions.

use std::cmp::Ordering;
use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DefinitionError, VersionDefinition};
use crate::schema::Structural;
use crate::table::{Column, Printer};

/// Compares versions by priority, the preferred first: GA before beta before alpha, in each the
/// higher number first (`v10`, `v2`, `v1`, `v2beta1`, `v1alpha2`); other names last, by alphabet.
#[must_use]
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (priority(a), priority(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Returns (stability, major, minor) of `v<major>[(alpha|beta)<minor>]`, without leading zeros.
fn priority(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at(digits);
    let major = number(major)?;
    for (name, stability) in [("alpha", 0), ("beta", 1)] {
        if let Some(minor) = rest.strip_prefix(name) {
            return Some((stability, major, number(minor)?));
        }
    }
    rest.is_empty().then_some((2, major, 0))
}

fn number(text: &str) -> Option<u64> {
    if text.starts_with('0') || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The form of a version in the database: the schema as its source text, read anew on the way back.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stored {
    name: String,
    served: bool,
    storage: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deprecation_warning: Option<String>,
    open_api: Arc<Value>,
    columns: Vec<Column>,
}

impl From<VersionDefinition> for Stored {
    fn from(version: VersionDefinition) -> Self {
        Self {
            name: version.name,
            served: version.served,
            storage: version.storage,
            deprecation_warning: version.deprecation_warning,
            open_api: version.open_api,
            columns: version.columns,
        }
    }
}

impl TryFrom<Stored> for VersionDefinition {
    type Error = DefinitionError;

    fn try_from(stored: Stored) -> Result<Self, DefinitionError> {
        let refuse = |reason: String| DefinitionError {
            field: format!("versions[{}].openApi", stored.name),
            reason,
        };
        let props = JSONSchemaProps::deserialize(&*stored.open_api)
            .map_err(|err| refuse(err.to_string()))?;
        let schema = Structural::parse(&props).map_err(|err| refuse(err.to_string()))?;
        let types = fieldmanager::Schema::from_openapi(&stored.open_api)
            .map_err(|err| refuse(err.to_string()))?;
        let printer = Printer::new(&stored.columns).map_err(|err| refuse(err.to_string()))?;
        Ok(Self {
            printer: Arc::new(printer),
            schema: Arc::new(schema),
            types,
            name: stored.name,
            served: stored.served,
            storage: stored.storage,
            deprecation_warning: stored.deprecation_warning,
            open_api: stored.open_api,
            columns: stored.columns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kube_does() {
        let mut versions = vec![
            "foo10",
            "v11alpha2",
            "v1",
            "v12alpha1",
            "v10",
            "foo1",
            "v3beta1",
            "v2",
            "v10beta3",
            "v11beta2",
            "v1beta1",
            "v01",
            "v1gamma1",
        ];
        versions.sort_by(|a, b| compare_versions(a, b));
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v1beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v01",
            "v1gamma1",
        ];
        assert_eq!(versions, expected);
    }
}
