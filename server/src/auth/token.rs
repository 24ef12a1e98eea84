//! Authentication by `TokenReview`.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, UserInfo as ReviewedUser,
};
use kube::Api;
use kube::api::PostParams;
use moka::future::Cache;
use sha2::{Digest, Sha256};

use super::review::{ReviewError, with_retries};
use super::user::UserInfo;
use crate::telemetry::ReviewMetrics;

/// Time for which the result of a review is reused, good or bad.
const RESULT_TTL: Duration = Duration::from_secs(10);
/// Most results kept.
const MAX_RESULTS: u64 = 4096;

/// Asks the kube-apiserver for the owner of a bearer token.
pub struct TokenAuthenticator {
    api: Api<TokenReview>,
    /// Results by the SHA-256 of the token, so that no token stays in memory.
    results: Cache<[u8; 32], Option<Arc<UserInfo>>>,
    metrics: ReviewMetrics,
}

impl TokenAuthenticator {
    /// Returns an authenticator with an empty cache.
    #[must_use]
    pub fn new(client: kube::Client, metrics: ReviewMetrics) -> Self {
        let results = Cache::builder()
            .max_capacity(MAX_RESULTS)
            .time_to_live(RESULT_TTL)
            .build();
        Self {
            api: Api::all(client),
            results,
            metrics,
        }
    }

    /// Returns the owner of a token; `None` when the token is not valid.
    ///
    /// # Errors
    /// If the kube-apiserver could not be asked.
    pub async fn authenticate(&self, token: &str) -> Result<Option<Arc<UserInfo>>, ReviewError> {
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.results
            .try_get_with(key, self.review(token))
            .await
            .map_err(|error: Arc<ReviewError>| error.as_ref().clone())
    }

    async fn review(&self, token: &str) -> Result<Option<Arc<UserInfo>>, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let params = PostParams::default();
        let answer = with_retries("TokenReview", || self.api.create(&params, &review)).await;
        self.metrics.token(answer.is_ok());
        let status = answer?.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        Ok(user.map(|user| Arc::new(reviewed(user))))
    }
}

fn reviewed(user: ReviewedUser) -> UserInfo {
    UserInfo {
        username: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default(),
    }
}

/// Returns the bearer token of a request, if it carries one.
#[must_use]
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_start().split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("Bearer abc", Some("abc"))]
    #[case("bearer  abc", Some("abc"))]
    #[case("Bearer", None)]
    #[case("Bearer ", None)]
    #[case("Basic abc", None)]
    fn finds_the_token(#[case] header: &str, #[case] expected: Option<&str>) {
        let value = HeaderValue::from_str(header).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        assert_eq!(bearer(&headers), expected);
    }
}
