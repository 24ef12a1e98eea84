//! The groups of reports: those that can be served, by whom, and from where they come.

use crds::v1alpha1::reasons;
use rstest::rstest;
use serde_json::{Value, json};

use super::apis;
use crate::controller::fixtures::{object, read, try_validate};
use crate::controller::found::{Claim, Dereferenced};
use crate::controller::validate::specification;

fn claim(name: &str, created: &str, groups: &[&str]) -> Claim {
    Claim {
        name: name.into(),
        created: Some(created.parse().unwrap()),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
    }
}

#[rstest]
#[case("control.reports-server.io", "this project")]
#[case("reports-server.io", "this project")]
#[case("apiextensions.k8s.io", "Kubernetes")]
#[case("kube.kubernetes.io", "Kubernetes")]
#[case("apps", "Kubernetes")]
fn groups_of_the_cluster_and_our_own_are_refused(#[case] group: &str, #[case] whose: &str) {
    let refusal = try_validate(apis(group)).unwrap_err();
    assert_eq!(refusal.reason, reasons::INVALID_SPEC);
    assert!(
        refusal
            .message
            .starts_with(&format!("spec.apis[0].group: {group} belongs to {whose}"))
    );
}

#[rstest]
#[case("wgpolicyk8s.io")]
#[case("kyverno.io")]
#[case("aquasecurity.github.io")]
fn report_groups_are_accepted(#[case] group: &str) {
    assert_eq!(try_validate(apis(group)).map(|spec| spec.apis.len()), Ok(1));
}

#[rstest]
#[case("wgpolicyk8s.io", json!({"database": {"connectionSecretRef": {"name": "s"}}}), None)]
#[case("wgpolicyk8s.io", json!({"server": {"namespace": "n", "name": "s"}}), None)]
#[case("kyverno.io", json!({"database": {"connectionSecretRef": {"name": "s"}}}), Some("spec.apis[0].from.database: "))]
#[case("wgpolicyk8s.io", json!({}), Some("spec.apis[0].from: set exactly one"))]
#[case("wgpolicyk8s.io", json!({"server": {"namespace": "n", "name": "s"}, "database": {"connectionSecretRef": {"name": "s"}}}), Some("spec.apis[0].from: set exactly one"))]
#[case("wgpolicyk8s.io", json!({"server": {"namespace": "target", "name": "simple-server"}}), Some("spec.apis[0].from.server: "))]
fn a_source_is_another_server_or_the_database_of_one(
    #[case] group: &str,
    #[case] from: Value,
    #[case] refused: Option<&str>,
) {
    let mut spec = apis(group);
    spec["apis"][0]["from"] = from;
    let refusal = try_validate(spec).err();
    let message = refusal.map(|refusal| refusal.message);
    match refused {
        None => assert_eq!(message, None),
        Some(start) => assert!(message.is_some_and(|m| m.starts_with(start)), "{start}"),
    }
}

#[rstest]
#[case::older_and_same_group("2026-01-01T00:00:00Z", "other", &["a.b"], Some("a.b claimed by"))]
#[case::older_other_group("2026-01-01T00:00:00Z", "other", &["c.d"], Some("holds control."))]
#[case::younger("2026-01-03T00:00:00Z", "other", &["a.b"], None)]
#[case::same_age_earlier_name("2026-01-02T00:00:00Z", "a", &["a.b"], Some("a.b claimed by"))]
#[case::same_age_later_name("2026-01-02T00:00:00Z", "z", &["a.b"], None)]
#[case::itself("2026-01-01T00:00:00Z", "simple", &["a.b"], None)]
fn the_oldest_wins(
    #[case] created: &str,
    #[case] name: &str,
    #[case] groups: &[&str],
    #[case] refused: Option<&str>,
) {
    let claims = [claim(name, created, groups)];
    let result = specification(
        &object(apis("a.b")),
        &Dereferenced {
            claims: claims.to_vec(),
            ..read()
        },
    );
    match refused {
        None => assert!(result.is_ok()),
        Some(words) => {
            let refusal = result.unwrap_err();
            assert_eq!(refusal.reason, reasons::API_GROUP_CLAIMED);
            assert!(refusal.message.contains(words), "{}", refusal.message);
            assert!(refusal.message.contains(name), "{}", refusal.message);
        }
    }
}
