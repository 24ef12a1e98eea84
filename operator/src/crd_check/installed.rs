//! The CRD that the cluster has, and the words about it.

use crds::v1alpha1::ReportsServer;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResourceExt, Resource};
use serde_json::{Map, Value};

use super::schema;

/// The file with the CRD in a checkout.
const FILE: &str = "manifests/crd/reports-server.io_reportsservers.yaml";
/// Most paths that are named one by one: an event has room for 1024 characters.
const MAX_NAMED: usize = 8;

/// The CRD that the cluster has, beside the operator's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Installed {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// It could not be read, and is taken for complete.
    Unreadable,
    /// There is none that serves the operator's version.
    Absent,
    /// It has all that the operator's has.
    Complete,
    /// It lacks something.
    Older(Older),
}

/// A CRD that lacks something.
#[derive(Clone, Debug, PartialEq)]
pub struct Older {
    /// The paths of the fields that it lacks, and the values of enumerations; never empty.
    missing: Vec<String>,
    /// The schema of the status.
    status: Value,
}

impl Installed {
    /// Returns what a CRD is beside the operator's own schema.
    #[must_use]
    pub fn of(own: &Value, crd: &CustomResourceDefinition) -> Self {
        let Some(installed) = schema::of(crd) else {
            return Self::Absent;
        };
        let missing = schema::missing(own, &installed);
        if missing.is_empty() {
            return Self::Complete;
        }
        let status = installed["properties"]["status"].clone();
        Self::Older(Older { missing, status })
    }

    /// Returns whether somebody has looked.
    #[must_use]
    pub fn is_known(&self) -> bool {
        *self != Self::Unknown
    }

    /// Returns whether there is no CRD.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        *self == Self::Absent
    }

    /// Returns the number of what the CRD lacks; -1 where there is none.
    #[must_use]
    pub fn lacks(&self) -> i64 {
        match self {
            Self::Absent => -1,
            Self::Older(older) => i64::try_from(older.missing.len()).unwrap_or(i64::MAX),
            Self::Unknown | Self::Unreadable | Self::Complete => 0,
        }
    }

    /// Returns what is wrong with a CRD that is there, and what to do.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let Self::Older(Older { missing, .. }) = self else {
            return None;
        };
        let mut named = missing[..missing.len().min(MAX_NAMED)].join(", ");
        if missing.len() > MAX_NAMED {
            named = format!("{named} and {} more", missing.len() - MAX_NAMED);
        }
        Some(format!(
            "the CRD {} is older than the operator {}: it lacks {named}. Such fields of a \
             specification have no effect, those of the status are not written. {}",
            ReportsServer::crd_name(),
            env!("CARGO_PKG_VERSION"),
            remedy()
        ))
    }

    /// Returns the part of a status that the CRD takes.
    #[must_use]
    pub fn taken(&self, status: Value) -> Value {
        match self {
            Self::Older(older) => {
                let taken = schema::taken(status, &older.status);
                taken.unwrap_or_else(|| Value::Object(Map::new()))
            }
            Self::Unknown | Self::Unreadable | Self::Absent | Self::Complete => status,
        }
    }
}

/// Returns what is wrong where there is no CRD, and what to do.
#[must_use]
pub fn absent() -> String {
    format!(
        "the cluster has no CRD {} that serves {}: nothing can be reconciled until there is one. {} \
         The operator goes on by itself then",
        ReportsServer::crd_name(),
        ReportsServer::version(&()),
        remedy()
    )
}

fn remedy() -> String {
    format!(
        "Install the CRD of the operator's release, in the way in which the operator was installed or \
         by: kubectl apply -f {FILE} (crd.yaml of a release)."
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_file_that_is_named_is_the_crd() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let text = std::fs::read_to_string(root.join(FILE)).unwrap();
        let crd: Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(crd["metadata"]["name"], ReportsServer::crd_name());
        assert!(absent().contains(FILE), "{}", absent());
    }

    #[test]
    fn of_many_fields_some_are_named_and_the_rest_is_counted() {
        let missing = (0..11).map(|number| format!("status.f{number}")).collect();
        let status = Value::Null;
        let older = Installed::Older(Older { missing, status });
        let words = older.complaint().unwrap();
        assert!(
            words.contains("status.f0, status.f1") && words.contains("status.f7 and 3 more."),
            "{words}"
        );
        assert_eq!(older.lacks(), 11);
        assert_eq!(Installed::Complete.complaint(), None);
        assert_eq!(Installed::Absent.lacks(), -1);
    }
}
