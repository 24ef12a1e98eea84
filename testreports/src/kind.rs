//! The kinds of reports that tests write.

use kube::core::{ApiResource, GroupVersionKind};

/// One kind of report. The discriminant is part of made-up uids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKind {
    /// `wgpolicyk8s.io` in namespaces.
    PolicyReport,
    /// `wgpolicyk8s.io` of the cluster.
    ClusterPolicyReport,
    /// `reports.kyverno.io` in namespaces.
    EphemeralReport,
    /// `reports.kyverno.io` of the cluster.
    ClusterEphemeralReport,
    /// `openreports.io` in namespaces.
    Report,
    /// `openreports.io` of the cluster.
    ClusterReport,
}

impl ReportKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::PolicyReport,
        Self::ClusterPolicyReport,
        Self::EphemeralReport,
        Self::ClusterEphemeralReport,
        Self::Report,
        Self::ClusterReport,
    ];

    /// Returns the API group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::PolicyReport | Self::ClusterPolicyReport => "wgpolicyk8s.io",
            Self::EphemeralReport | Self::ClusterEphemeralReport => "reports.kyverno.io",
            Self::Report | Self::ClusterReport => "openreports.io",
        }
    }

    /// Returns the version that clients use.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Self::PolicyReport | Self::ClusterPolicyReport => "v1alpha2",
            Self::EphemeralReport | Self::ClusterEphemeralReport => "v1",
            Self::Report | Self::ClusterReport => "v1alpha1",
        }
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::PolicyReport => "PolicyReport",
            Self::ClusterPolicyReport => "ClusterPolicyReport",
            Self::EphemeralReport => "EphemeralReport",
            Self::ClusterEphemeralReport => "ClusterEphemeralReport",
            Self::Report => "Report",
            Self::ClusterReport => "ClusterReport",
        }
    }

    /// Returns the plural name.
    #[must_use]
    pub fn plural(self) -> String {
        format!("{}s", self.kind().to_lowercase())
    }

    /// Returns whether reports of this kind live in namespaces.
    #[must_use]
    pub fn namespaced(self) -> bool {
        matches!(
            self,
            Self::PolicyReport | Self::EphemeralReport | Self::Report
        )
    }

    /// Returns whether this is one of Kyverno's short-lived kinds, whose results are below `spec`.
    #[must_use]
    pub fn ephemeral(self) -> bool {
        matches!(self, Self::EphemeralReport | Self::ClusterEphemeralReport)
    }

    /// Returns the resource for dynamic clients.
    #[must_use]
    pub fn api_resource(self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group(), self.version(), self.kind());
        ApiResource::from_gvk_with_plural(&gvk, &self.plural())
    }

    /// Returns the path of the collection: of a namespace, or of the whole cluster.
    #[must_use]
    pub fn path(self, namespace: Option<&str>) -> String {
        let (group, version, plural) = (self.group(), self.version(), self.plural());
        match namespace {
            Some(namespace) => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("/apis/{group}/{version}/{plural}"),
        }
    }
}
