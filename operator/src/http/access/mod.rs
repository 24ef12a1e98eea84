//! Access to the metrics. The kube-apiserver names the user of a token (`TokenReview`) and says whether
//! that user may `get` the path (`SubjectAccessReview`).

mod decide;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use kube::{Api, Client};
use moka::future::Cache;
use sha2::{Digest, Sha256};
use tracing::warn;

pub(super) use self::decide::{PATH, Refusal, Verdict, refusal};

/// Time for which a verdict is used again, good or bad.
const VERDICT_TTL: Duration = Duration::from_secs(10);
/// Most verdicts that are kept.
const MAX_VERDICTS: u64 = 256;
/// Longest time for one question to the kube-apiserver; a Prometheus waits ten seconds for both.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(4);

/// The reason why the kube-apiserver did not say who reads.
#[derive(Debug, thiserror::Error)]
enum ReviewError {
    /// It refused, or could not be reached.
    #[error("{what} failed: {source}")]
    Failed {
        /// The kind of the review.
        what: &'static str,
        /// The error of the client.
        source: kube::Error,
    },
    /// It did not answer in time.
    #[error("{0} had no answer in time")]
    Late(&'static str),
}

/// Decides who may read the metrics. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    tokens: Api<TokenReview>,
    rights: Api<SubjectAccessReview>,
    /// Verdicts by the SHA-256 of the token, so that no token stays in memory.
    verdicts: Cache<[u8; 32], Verdict>,
}

impl Access {
    /// Returns the decision of the cluster behind `client`, with nothing remembered.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let verdicts = Cache::builder()
            .max_capacity(MAX_VERDICTS)
            .time_to_live(VERDICT_TTL)
            .build();
        Self {
            tokens: Api::all(client.clone()),
            rights: Api::all(client),
            verdicts,
        }
    }

    /// Decides about a request with these headers. Requests with one token wait for one review.
    pub(super) async fn decide(&self, headers: &HeaderMap) -> Verdict {
        let Some(token) = decide::bearer(headers) else {
            return Verdict::NoToken;
        };
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let verdict = self.verdicts.try_get_with(key, self.review(token)).await;
        verdict.unwrap_or_else(|error: Arc<ReviewError>| {
            warn!(%error, "a reader of the metrics could not be checked");
            Verdict::Unknown
        })
    }

    async fn review(&self, token: &str) -> Result<Verdict, ReviewError> {
        let params = PostParams::default();
        let review = decide::token_review(token);
        let answer = ask("TokenReview", self.tokens.create(&params, &review)).await?;
        let Some(user) = decide::owner(answer.status) else {
            return Ok(Verdict::InvalidToken);
        };
        let review = decide::access_review(&user);
        let answer = ask("SubjectAccessReview", self.rights.create(&params, &review)).await?;
        Ok(decide::verdict(user, answer.status))
    }
}

/// Returns the answer of the kube-apiserver, unless it is late.
async fn ask<T>(
    what: &'static str,
    question: impl Future<Output = kube::Result<T>>,
) -> Result<T, ReviewError> {
    match tokio::time::timeout(REVIEW_TIMEOUT, question).await {
        Ok(answer) => answer.map_err(|source| ReviewError::Failed { what, source }),
        Err(_) => Err(ReviewError::Late(what)),
    }
}
