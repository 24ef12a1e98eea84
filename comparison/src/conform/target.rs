//! The kinds on which cases run.

use std::path::Path;

use crds::catalog;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Map, Value, json};

use super::case::{Scope, read_yaml};
use super::variables::Variables;
use super::{ConformError, foreign};
use testreports::Input;

/// Group on whose kinds most cases run.
pub const STANDARD: &str = "wgpolicyk8s.io";
/// Group of the CRDs with properties that reports do not have.
pub const RICH: &str = "inspection.example.com";
/// Group of the CRD with rules in CEL.
pub const RULED: &str = "rules.example.com";

/// One kind in one version.
#[derive(Clone, Debug)]
pub struct Target {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Kind of lists.
    pub list_kind: String,
    /// Plural name.
    pub plural: String,
    /// Singular name.
    pub singular: String,
    /// The scope of its objects.
    pub scope: Scope,
    /// The structural schema.
    pub schema: Value,
}

impl Target {
    fn new(crd: &CustomResourceDefinition, version: &str) -> Self {
        let names = &crd.spec.names;
        let scope = match crd.spec.scope.as_str() {
            "Cluster" => Scope::Cluster,
            _ => Scope::Namespaced,
        };
        Self {
            group: crd.spec.group.clone(),
            version: version.to_owned(),
            kind: names.kind.clone(),
            list_kind: names.list_kind.clone().unwrap_or_default(),
            plural: names.plural.clone(),
            singular: names.singular.clone().unwrap_or_default(),
            scope,
            schema: schema(crd, version),
        }
    }

    /// Returns `kind.group/version`, for people.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}/{}", self.plural, self.group, self.version)
    }

    /// Returns the path of the collection; of a namespaced kind in `namespace`.
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let (group, version, plural) = (&self.group, &self.version, &self.plural);
        match self.scope {
            Scope::Namespaced => {
                format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}")
            }
            Scope::Cluster => format!("/apis/{group}/{version}/{plural}"),
        }
    }

    /// Returns the variables that every case has.
    #[must_use]
    pub fn variables(&self, namespace: &str) -> Variables {
        let (group, version, plural) = (&self.group, &self.version, &self.plural);
        let base = format!("/apis/{group}/{version}");
        let texts = [
            ("collection", self.collection(namespace)),
            ("all", format!("{base}/{plural}")),
            ("base", base),
            ("group", group.clone()),
            ("version", version.clone()),
            ("apiVersion", format!("{group}/{version}")),
            ("kind", self.kind.clone()),
            ("listKind", self.list_kind.clone()),
            ("plural", plural.clone()),
            ("singular", self.singular.clone()),
            ("namespace", namespace.to_owned()),
        ];
        texts
            .into_iter()
            .map(|(name, text)| (name.to_owned(), Value::from(text)))
            .collect()
    }

    /// Returns a small valid object.
    #[must_use]
    pub fn report(&self, name: &str) -> Value {
        let mut report = content(&self.group, name);
        report.insert(
            "apiVersion".to_owned(),
            json!(format!("{}/{}", self.group, self.version)),
        );
        report.insert("kind".to_owned(), json!(self.kind));
        report.insert(
            "metadata".to_owned(),
            json!({"name": name, "labels": {"app": name}}),
        );
        Value::Object(report)
    }
}

fn schema(crd: &CustomResourceDefinition, version: &str) -> Value {
    let mut versions = crd.spec.versions.iter();
    let version = versions.find(|known| known.name == version);
    let schema = version.and_then(|version| version.schema.as_ref());
    let schema = schema.and_then(|schema| serde_json::to_value(&schema.open_api_v3_schema).ok());
    schema.unwrap_or_default()
}

/// Returns the content of a small object beside its metadata.
fn content(group: &str, name: &str) -> Map<String, Value> {
    let summary = json!({"pass": 1, "fail": 0, "warn": 0, "error": 0, "skip": 0});
    let result = json!({"policy": "p", "rule": "r", "result": "pass"});
    let scope = json!({"apiVersion": "v1", "kind": "Pod", "name": name});
    let content = match group {
        RICH => json!({"spec": {"target": name}}),
        RULED => json!({"spec": {"owner": "a", "min": 1, "max": 2}}),
        "reports.kyverno.io" | "kyverno.io" => json!({"spec": {
            "owner": {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"},
            "results": [result], "summary": summary}}),
        foreign::GROUP => {
            let scanner = json!({"name": "s", "vendor": "v", "version": "1"});
            let counts = ["critical", "high", "medium", "low", "unknown"];
            let counts = counts.map(|level| (format!("{level}Count"), json!(0)));
            json!({"report": {"artifact": {"repository": name}, "os": {}, "scanner": scanner,
                "summary": Map::from_iter(counts), "updateTimestamp": "2001-02-03T04:05:06Z",
                "vulnerabilities": []}})
        }
        "openreports.io" => json!({"source": "s", "scope": scope, "results": [result],
            "summary": summary}),
        _ => json!({"scope": scope, "results": [result], "summary": summary}),
    };
    match content {
        Value::Object(content) => content,
        _ => Map::new(),
    }
}

/// Returns the CRDs of all groups of reports, or of [`STANDARD`] alone: the vendors' where they are
/// present, else the catalog's; and those of ours that are rich in properties that reports do not
/// have.
///
/// # Errors
/// If one cannot be read.
pub fn crds(all: bool) -> Result<Vec<CustomResourceDefinition>, ConformError> {
    let groups = if all {
        catalog::groups()
    } else {
        vec![STANDARD]
    };
    let mut crds = Vec::new();
    for group in groups {
        let mut found = Input::detect().crds(&[group])?;
        if found.is_empty() {
            found = Input::Generated { seed: 1 }.crds(&[group])?;
        }
        crds.extend(found);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    for file in ["inspections.yaml", "clusterinspections.yaml"] {
        crds.push(read_yaml(&folder.join(file))?);
    }
    Ok(crds)
}

/// Returns every kind of the CRDs in its storage version.
#[must_use]
pub fn targets(crds: &[CustomResourceDefinition]) -> Vec<Target> {
    let of_crd = |crd: &CustomResourceDefinition| {
        let version = crd.spec.versions.iter().find(|version| version.storage)?;
        Some(Target::new(crd, &version.name))
    };
    crds.iter().filter_map(of_crd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_have_kinds_of_both_scopes() {
        let targets = targets(&crds(true).unwrap());
        for group in [
            STANDARD,
            "reports.kyverno.io",
            "openreports.io",
            "kyverno.io",
            RICH,
        ] {
            for scope in [Scope::Namespaced, Scope::Cluster] {
                let found = targets.iter().any(|t| t.group == group && t.scope == scope);
                assert!(found, "{group} {scope:?}");
            }
        }
    }

    #[test]
    fn paths_of_both_scopes() {
        let targets = targets(&crds(false).unwrap());
        let cluster = targets.iter().find(|t| t.scope == Scope::Cluster).unwrap();
        let path = "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports";
        assert_eq!(cluster.collection("n"), path);
        assert_eq!(cluster.variables("n")["all"], path);
        let spaced = targets
            .iter()
            .find(|t| t.scope == Scope::Namespaced)
            .unwrap();
        assert_eq!(
            spaced.collection("n"),
            "/apis/wgpolicyk8s.io/v1alpha2/namespaces/n/policyreports"
        );
    }
}
