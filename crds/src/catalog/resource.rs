//! The description of a report API.

use serde_json::Value;

/// One report API.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogResource {
    /// API group.
    pub group: &'static str,
    /// Kind of an object.
    pub kind: &'static str,
    /// Kind of a list.
    pub list_kind: String,
    /// Plural name, as in paths.
    pub plural: &'static str,
    /// Singular name.
    pub singular: &'static str,
    /// Short names, as in `kubectl get polr`.
    pub short_names: &'static [&'static str],
    /// Categories, as in `kubectl get kyverno`.
    pub categories: &'static [&'static str],
    /// The scope of the objects.
    pub scope: Scope,
    /// Versions, preferred first; exactly one is the storage version.
    pub versions: Vec<CatalogVersion>,
}

/// The scope of a resource's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// One set for the whole cluster.
    Cluster,
}

impl Scope {
    /// Returns the value of a CRD's `spec.scope`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaced => "Namespaced",
            Self::Cluster => "Cluster",
        }
    }
}

/// One version of a report API.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogVersion {
    /// Name, such as `v1alpha2`.
    pub name: &'static str,
    /// True when it is served.
    pub served: bool,
    /// True when a CRD stores objects in it.
    pub storage: bool,
    /// Structural schema of an object (a CRD's `openAPIV3Schema`).
    pub schema: Value,
    /// Printer columns, behind the built-in `NAME`.
    pub columns: Vec<Column>,
}

/// One printer column (a CRD's `additionalPrinterColumns`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// OpenAPI type, or `date`.
    pub type_: &'static str,
    /// The path of the value, as JSONPath.
    pub json_path: &'static str,
    /// 0 is always shown, more only in wide output.
    pub priority: i32,
}

impl Column {
    /// Returns a column that is always shown.
    pub(super) const fn new(
        name: &'static str,
        type_: &'static str,
        json_path: &'static str,
    ) -> Self {
        Self {
            name,
            type_,
            json_path,
            priority: 0,
        }
    }

    /// Returns the same column, shown only in wide output.
    pub(super) const fn wide(self) -> Self {
        Self {
            priority: 1,
            ..self
        }
    }
}
