//! The errors as bytes: field order, omitted fields and texts are those of a kube-apiserver.

use rstest::rstest;

use super::*;
use crate::encoding::to_json;
use crate::status::MAX_TEXT;

const GROUP: &str = "wgpolicyk8s.io";
const POLR: &str = "policyreports";

fn cause(reason: &str, field: &str, message: &str) -> StatusCause {
    StatusCause::new(reason, field, message)
}

#[rstest]
#[case(
    ApiError::not_found(GROUP, POLR, "x"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"x\" not found","reason":"NotFound","details":{"name":"x","group":"wgpolicyk8s.io","kind":"policyreports"},"code":404}"#
)]
#[case(
    ApiError::not_found("", "namespaces", "n"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"n\" not found","reason":"NotFound","details":{"name":"n","kind":"namespaces"},"code":404}"#
)]
#[case(
    ApiError::already_exists(GROUP, POLR, "x"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"x\" already exists","reason":"AlreadyExists","details":{"name":"x","group":"wgpolicyk8s.io","kind":"policyreports"},"code":409}"#
)]
#[case(
    ApiError::generate_name_conflict(GROUP, POLR, "x-"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"x-\" already exists, the server was not able to generate a unique name for the object","reason":"AlreadyExists","details":{"name":"x-","group":"wgpolicyk8s.io","kind":"policyreports","retryAfterSeconds":1},"code":409}"#
)]
#[case(
    ApiError::modified(GROUP, POLR, "x"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on policyreports.wgpolicyk8s.io \"x\": the object has been modified; please apply your changes to the latest version and try again","reason":"Conflict","details":{"name":"x","group":"wgpolicyk8s.io","kind":"policyreports"},"code":409}"#
)]
#[case(
    ApiError::invalid(GROUP, "PolicyReport", "x", vec![cause("FieldValueRequired", "results[0].policy", "Required value")]),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"PolicyReport.wgpolicyk8s.io \"x\" is invalid: results[0].policy: Required value","reason":"Invalid","details":{"name":"x","group":"wgpolicyk8s.io","kind":"PolicyReport","causes":[{"reason":"FieldValueRequired","message":"Required value","field":"results[0].policy"}]},"code":422}"#
)]
#[case(
    ApiError::patch_not_applicable(),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the server rejected our request due to an error in our request","reason":"Invalid","details":{},"code":422}"#
)]
#[case(
    ApiError::namespace_terminating(GROUP, POLR, "x", "n"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"policyreports.wgpolicyk8s.io \"x\" is forbidden: unable to create new content in namespace n because it is being terminated","reason":"Forbidden","details":{"name":"x","group":"wgpolicyk8s.io","kind":"policyreports","causes":[{"reason":"NamespaceTerminating","message":"namespace n is being terminated","field":"metadata.namespace"}]},"code":403}"#
)]
#[case(
    ApiError::method_not_allowed(GROUP, POLR, "options"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"options is not supported on resources of kind \"policyreports.wgpolicyk8s.io\"","reason":"MethodNotAllowed","details":{"group":"wgpolicyk8s.io","kind":"policyreports"},"code":405}"#
)]
#[case(
    ApiError::too_large_resource_version(9, 5),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Timeout: Too large resource version: 9, current: 5","reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"Too large resource version"}],"retryAfterSeconds":1},"code":504}"#
)]
#[case(
    ApiError::too_old_resource_version(1, 7),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (7)","reason":"Expired","code":410}"#
)]
#[case(
    ApiError::expired_continue("gone", "token"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{"continue":"token"},"status":"Failure","message":"gone","reason":"Expired","code":410}"#
)]
#[case(
    ApiError::internal("a<b"),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: a\u003cb","reason":"InternalError","details":{"causes":[{"message":"a\u003cb"}]},"code":500}"#
)]
#[case(
    ApiError::unauthorized(),
    r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#
)]
fn errors_are_encoded_as_in_go(#[case] error: ApiError, #[case] expected: &str) {
    let status = error.to_status();
    assert_eq!(status.code, error.code());
    assert_eq!(to_json(&status.bounded()).unwrap(), expected.as_bytes());
}

#[test]
fn several_findings_are_listed_and_none_twice() {
    let causes = vec![
        cause("FieldValueInvalid", "a", "Invalid value: 1"),
        cause("FieldValueInvalid", "b", "Invalid value: 2"),
        cause("FieldValueInvalid", "a", "Invalid value: 1"),
    ];
    let error = ApiError::invalid(GROUP, "PolicyReport", "x", causes);
    assert_eq!(
        error.to_string(),
        "PolicyReport.wgpolicyk8s.io \"x\" is invalid: [a: Invalid value: 1, b: Invalid value: 2]"
    );
}

#[test]
fn a_deletion_is_a_success_without_code() {
    let status = Status::deleted(GROUP, POLR, "x", "u");
    assert_eq!(
        serde_json::to_string(&status).unwrap(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","group":"wgpolicyk8s.io","kind":"policyreports","uid":"u"}}"#
    );
}

#[test]
fn texts_are_cut_where_nobody_reads_on() {
    let long = "é".repeat(MAX_TEXT);
    let causes = vec![
        cause("FieldValueInvalid", "a", &long[..MAX_TEXT - 2]),
        cause("FieldValueInvalid", "b", &long),
        cause("FieldValueInvalid", "c", "short"),
    ];
    let status = ApiError::invalid(GROUP, "PolicyReport", "x", causes)
        .to_status()
        .bounded();
    assert!(status.message.len() <= MAX_TEXT + 4 && status.message.ends_with("é ..."));
    let causes = status.details.unwrap().causes;
    let ends: Vec<_> = causes.iter().map(|cause| cause.message.len()).collect();
    assert_eq!(ends, [MAX_TEXT - 2, 2 + 4, 4]);
}
