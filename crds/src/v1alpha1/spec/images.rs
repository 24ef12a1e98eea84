//! `spec.images`: images and their registry.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LocalReference;

/// Images and their registry.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImagesSpec {
    /// Registry (host, optional port and path) that replaces the default one of every image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 255),
        regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._:/-]*$")
    )]
    pub registry: Option<String>,
    /// The server's image. Default: the one of the operator's own release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ImageSpec>,
    /// The image of mode `Managed`: the official image of PostgreSQL, or one with its interface.
    /// Default: the newest minor version at the time of the operator's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub postgres: Option<ImageSpec>,
    /// Secrets in `targetNamespace` with the registry's credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub pull_secrets: Option<Vec<LocalReference>>,
}

/// One image.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageSpec {
    /// Repository below the registry, such as `reports-server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 255),
        regex(pattern = r"^[a-z0-9][a-z0-9._/-]*$")
    )]
    pub repository: Option<String>,
    /// Tag; ignored where `digest` is given, as container runtimes do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 128),
        regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")
    )]
    pub tag: Option<String>,
    /// Digest, such as `sha256:` and 64 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 71), regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub digest: Option<String>,
    /// The pull policy of the image. Default: `IfNotPresent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
}

/// The pull policy of an image.
#[derive(JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(transform = crate::v1alpha1::schema::without_description)]
pub enum PullPolicy {
    /// At each start of a container.
    Always,
    /// Only if the node does not have the image.
    #[default]
    IfNotPresent,
    /// Never.
    Never,
}

impl PullPolicy {
    /// Returns the value of a container's `imagePullPolicy`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}
