//! Authorization by `SubjectAccessReview`, with bounded caches.
//!
//! As the delegated authorizer of Go's API servers: decisions are kept for ten seconds, at most
//! 8192 of them; a review that fails is an error, never a permission.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use moka::future::Cache;

use super::attributes::{Attributes, ResourceTarget, Target};
use super::review::{ReviewError, with_retries};
use super::user::MASTERS;
use crate::telemetry::ReviewMetrics;

/// Time for which a decision is reused, allowed or not.
const DECISION_TTL: Duration = Duration::from_secs(10);
/// Most decisions kept.
const MAX_DECISIONS: u64 = 8192;
/// Longest question in bytes whose decision is kept.
const MAX_CACHED_QUESTION: usize = 10_000;

/// The authorizer's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be done.
    Allow,
    /// It may not; with the authorizer's reason, which may be empty.
    Deny(String),
}

/// Decides whether something may be done.
#[async_trait]
pub trait Authorizer: Send + Sync + 'static {
    /// Decides about exactly these attributes.
    ///
    /// # Errors
    /// If no decision was possible; the caller must then refuse with 500.
    async fn authorize(&self, attributes: &Attributes) -> Result<Decision, ReviewError>;
}

/// Decides about a request that the kube-apiserver has authorized already and passed on with a
/// proven identity.
///
/// The kube-apiserver has asked the exact question. Here the wider ones (all namespaces, all names)
/// are asked first, because one cached permission then covers all requests of a controller. A user
/// who is only allowed single namespaces or names is allowed by the narrower questions.
///
/// # Errors
/// As [`Authorizer::authorize`].
pub async fn authorize_forwarded(
    authorizer: &dyn Authorizer,
    attributes: &Attributes,
) -> Result<Decision, ReviewError> {
    for wider in attributes.widened() {
        if authorizer.authorize(&wider).await? == Decision::Allow {
            return Ok(Decision::Allow);
        }
    }
    authorizer.authorize(attributes).await
}

/// Asks the kube-apiserver.
pub struct SubjectAccess {
    api: Api<SubjectAccessReview>,
    decisions: Cache<Attributes, Decision>,
    metrics: ReviewMetrics,
}

impl SubjectAccess {
    /// Returns an authorizer with empty caches.
    #[must_use]
    pub fn new(client: kube::Client, metrics: ReviewMetrics) -> Self {
        let decisions = Cache::builder()
            .max_capacity(MAX_DECISIONS)
            .time_to_live(DECISION_TTL)
            .build();
        Self {
            api: Api::all(client),
            decisions,
            metrics,
        }
    }

    async fn review(&self, attributes: &Attributes) -> Result<Decision, ReviewError> {
        let review = SubjectAccessReview {
            spec: spec(attributes),
            ..Default::default()
        };
        let params = PostParams::default();
        let answer =
            with_retries("SubjectAccessReview", || self.api.create(&params, &review)).await;
        self.metrics.subject_access(answer.is_ok());
        let status = answer?.status.unwrap_or_default();
        Ok(if status.allowed && status.denied != Some(true) {
            Decision::Allow
        } else {
            Decision::Deny(status.reason.unwrap_or_default())
        })
    }
}

#[async_trait]
impl Authorizer for SubjectAccess {
    async fn authorize(&self, attributes: &Attributes) -> Result<Decision, ReviewError> {
        if attributes.user.in_group(MASTERS) {
            return Ok(Decision::Allow);
        }
        if size(attributes) > MAX_CACHED_QUESTION {
            return self.review(attributes).await;
        }
        // Requests with the same question wait for one review.
        self.decisions
            .try_get_with_by_ref(attributes, self.review(attributes))
            .await
            .map_err(|error: Arc<ReviewError>| error.as_ref().clone())
    }
}

fn size(attributes: &Attributes) -> usize {
    let user = &attributes.user;
    let extra = user
        .extra
        .iter()
        .map(|(k, v)| k.len() + v.iter().map(String::len).sum::<usize>());
    let target = match &attributes.target {
        Target::Path(path) => path.len(),
        Target::Resource(t) => {
            t.group.len()
                + t.resource.len()
                + t.subresource.len()
                + t.namespace.len()
                + t.name.len()
        }
    };
    user.username.len()
        + user.groups.iter().map(String::len).sum::<usize>()
        + extra.sum::<usize>()
        + target
}

fn spec(attributes: &Attributes) -> SubjectAccessReviewSpec {
    let user = &attributes.user;
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let mut spec = SubjectAccessReviewSpec {
        user: filled(&user.username),
        uid: filled(&user.uid),
        groups: (!user.groups.is_empty()).then(|| user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    let verb = filled(&attributes.verb);
    match &attributes.target {
        Target::Path(path) => {
            spec.non_resource_attributes = Some(NonResourceAttributes {
                path: Some(path.clone()),
                verb,
            });
        }
        Target::Resource(target) => {
            let ResourceTarget {
                group,
                version,
                resource,
                subresource,
                namespace,
                name,
            } = target;
            spec.resource_attributes = Some(ResourceAttributes {
                group: filled(group),
                version: filled(version),
                resource: filled(resource),
                subresource: filled(subresource),
                namespace: filled(namespace),
                name: filled(name),
                verb,
                ..ResourceAttributes::default()
            });
        }
    }
    spec
}
