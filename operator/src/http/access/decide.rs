//! The decision about a reader of the metrics, without the questions themselves.

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};

/// Path of the metrics, and the one that a right is about.
pub(crate) const PATH: &str = "/metrics";
/// Verb of that right.
const VERB: &str = "get";

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It may read.
    Admitted,
    /// It has no bearer token.
    NoToken,
    /// The cluster does not know its token.
    InvalidToken,
    /// The user of its token may not read.
    Forbidden(String),
    /// The cluster did not say.
    Unknown,
}

/// The answer to a request that may not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Code of the answer.
    pub(crate) code: StatusCode,
    /// The reason, in one line.
    pub(crate) message: String,
}

/// Returns the answer to a request that may not read; nothing for one that may.
pub(crate) fn refusal(verdict: &Verdict) -> Option<Refusal> {
    let (code, message) = match verdict {
        Verdict::Admitted => return None,
        Verdict::NoToken => (
            StatusCode::UNAUTHORIZED,
            "Unauthorized: send a bearer token".to_owned(),
        ),
        Verdict::InvalidToken => (
            StatusCode::UNAUTHORIZED,
            "Unauthorized: the cluster does not accept the bearer token".to_owned(),
        ),
        Verdict::Forbidden(user) => (
            StatusCode::FORBIDDEN,
            format!("Forbidden: User {user:?} cannot {VERB} path {PATH:?}"),
        ),
        Verdict::Unknown => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError: the kube-apiserver did not say who you are and what you may do"
                .to_owned(),
        ),
    };
    Some(Refusal { code, message })
}

/// Returns the bearer token of a request.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim_start();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns the question whose a token is.
pub(super) fn token_review(token: &str) -> TokenReview {
    TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            audiences: None,
        },
        ..TokenReview::default()
    }
}

/// Returns the owner of a token that is valid.
pub(super) fn owner(status: Option<TokenReviewStatus>) -> Option<UserInfo> {
    let status = status?;
    let is_valid = status.authenticated == Some(true);
    status.user.filter(|user| {
        let name = user.username.as_deref().unwrap_or_default();
        is_valid && !name.is_empty()
    })
}

/// Returns the question whether a user may read the metrics.
pub(super) fn access_review(user: &UserInfo) -> SubjectAccessReview {
    let user = user.clone();
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(PATH.to_owned()),
                verb: Some(VERB.to_owned()),
            }),
            resource_attributes: None,
        },
        ..SubjectAccessReview::default()
    }
}

/// Returns the decision about a user, by the answer to that question.
pub(super) fn verdict(user: UserInfo, status: Option<SubjectAccessReviewStatus>) -> Verdict {
    let status = status.unwrap_or_default();
    if status.allowed && status.denied != Some(true) {
        Verdict::Admitted
    } else {
        Verdict::Forbidden(user.username.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn user(name: &str) -> UserInfo {
        UserInfo {
            username: Some(name.to_owned()),
            ..UserInfo::default()
        }
    }

    #[rstest]
    #[case("Bearer abc", Some("abc"))]
    #[case("bearer  abc", Some("abc"))]
    #[case("Bearer", None)]
    #[case("Bearer ", None)]
    #[case("Basic abc", None)]
    fn a_token_is_found(#[case] header: &str, #[case] expected: Option<&str>) {
        let value = HeaderValue::from_str(header).unwrap();
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        assert_eq!(bearer(&headers), expected);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[rstest]
    #[case(Some(true), Some(user("a")), true)]
    #[case(Some(true), Some(user("")), false)]
    #[case(Some(true), None, false)]
    #[case(Some(false), Some(user("a")), false)]
    #[case(None, Some(user("a")), false)]
    fn only_a_valid_token_has_an_owner(
        #[case] authenticated: Option<bool>,
        #[case] named: Option<UserInfo>,
        #[case] has_owner: bool,
    ) {
        let status = TokenReviewStatus {
            authenticated,
            user: named,
            ..TokenReviewStatus::default()
        };
        assert_eq!(owner(Some(status)).is_some(), has_owner);
        assert_eq!(owner(None), None);
    }

    #[test]
    fn the_whole_user_is_asked_about() {
        let user: UserInfo = serde_json::from_value(json!({
            "username": "system:serviceaccount:monitoring:prometheus",
            "uid": "u",
            "groups": ["system:authenticated"],
            "extra": {"pod": ["p"]},
        }))
        .unwrap();
        let review = serde_json::to_value(access_review(&user)).unwrap();
        assert_eq!(
            review["spec"],
            json!({
                "user": "system:serviceaccount:monitoring:prometheus",
                "uid": "u",
                "groups": ["system:authenticated"],
                "extra": {"pod": ["p"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            })
        );
    }

    #[rstest]
    #[case(true, None, Verdict::Admitted)]
    #[case(true, Some(false), Verdict::Admitted)]
    #[case(true, Some(true), Verdict::Forbidden("a".to_owned()))]
    #[case(false, None, Verdict::Forbidden("a".to_owned()))]
    fn a_user_is_admitted_when_it_is_allowed_and_not_denied(
        #[case] allowed: bool,
        #[case] denied: Option<bool>,
        #[case] expected: Verdict,
    ) {
        let status = SubjectAccessReviewStatus {
            allowed,
            denied,
            ..SubjectAccessReviewStatus::default()
        };
        assert_eq!(verdict(user("a"), Some(status)), expected);
    }

    #[test]
    fn without_an_answer_nobody_is_admitted() {
        let forbidden = Verdict::Forbidden("a".to_owned());
        assert_eq!(verdict(user("a"), None), forbidden);
    }

    #[rstest]
    #[case(Verdict::NoToken, 401)]
    #[case(Verdict::InvalidToken, 401)]
    #[case(Verdict::Forbidden("a".to_owned()), 403)]
    #[case(Verdict::Unknown, 500)]
    fn a_refusal_has_the_code_of_its_reason(#[case] verdict: Verdict, #[case] code: u16) {
        let refusal = refusal(&verdict).unwrap();
        assert_eq!(refusal.code.as_u16(), code);
        assert!(!refusal.message.contains('\n'));
    }

    #[test]
    fn who_is_admitted_is_not_refused() {
        assert_eq!(refusal(&Verdict::Admitted), None);
    }
}
