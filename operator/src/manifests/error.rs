//! The reason why manifests could not be made.

/// The reason why a manifest could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The CRD could not be built.
    #[error("the CRD cannot be built: {0}")]
    Crd(#[source] serde_json::Error),
    /// An object could not be written as YAML.
    #[error("an object cannot be written as YAML: {0}")]
    Yaml(#[from] serde_yaml::Error),
    /// An object could not be written as JSON.
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A text that the chart replaces in an object is not there, or more than once.
    #[error("the chart replaces {0:?}, which is not in the object exactly once")]
    Edit(String),
    /// The installation lacks an object that a way needs by itself.
    #[error("the installation has no {0}")]
    Missing(&'static str),
}
