//! Forms of discovery.

use apimachinery::error::ApiError;
use http::HeaderMap;
use http::header::ACCEPT;

use super::clause::clauses;
use super::{MediaType, joined};

/// The discovery document that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiscoveryForm {
    /// `apidiscovery.k8s.io/v2`
    V2,
    /// `apidiscovery.k8s.io/v2beta1`
    V2Beta1,
    /// The unaggregated `APIGroupList`.
    Legacy,
}

impl DiscoveryForm {
    /// Returns the exact `Content-Type`: kube-aggregator takes any other for a server that cannot
    /// aggregate.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
            Self::Legacy => "application/json",
        }
    }
}

/// Returns the form of `/apis` that a client asks for.
///
/// # Errors
/// 406 when it accepts no JSON.
pub fn accept_discovery(headers: &HeaderMap) -> Result<DiscoveryForm, ApiError> {
    let header = joined(headers, &ACCEPT);
    if header.is_empty() {
        return Ok(DiscoveryForm::Legacy);
    }
    clauses(&header)
        .iter()
        .filter(|clause| clause.matches(MediaType::Json))
        .find_map(
            |clause| match (clause.param("as"), clause.param("g"), clause.param("v")) {
                ("", "", "") => Some(DiscoveryForm::Legacy),
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(DiscoveryForm::V2),
                ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                    Some(DiscoveryForm::V2Beta1)
                }
                _ => None,
            },
        )
        .ok_or_else(|| ApiError::not_acceptable(&MediaType::ALL.map(MediaType::as_str)))
}
