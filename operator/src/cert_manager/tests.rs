//! The object as cert-manager gets it, and its words.

use rstest::rstest;

use super::*;

fn plan(issuer: IssuerReference) -> Plan {
    Plan {
        name: "simple-server".into(),
        secret: "simple-issued-cert".into(),
        dns_names: vec!["simple-server.target.svc".into()],
        issuer,
        validity: None,
        renew_before: None,
    }
}

fn object(plan: &Plan) -> Value {
    let metadata = ObjectMeta {
        name: Some(plan.name.clone()),
        ..ObjectMeta::default()
    };
    serde_json::to_value(certificate(metadata, plan)).unwrap()
}

#[test]
fn what_is_not_said_is_left_to_cert_manager() {
    let issuer = IssuerReference {
        name: "ca".into(),
        ..IssuerReference::default()
    };
    let expected = json!({
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": {"name": "simple-server"},
        "spec": {
            "secretName": "simple-issued-cert",
            "dnsNames": ["simple-server.target.svc"],
            "issuerRef": {"name": "ca", "kind": "Issuer", "group": "cert-manager.io"},
            "usages": ["digital signature", "server auth"],
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        },
    });
    assert_eq!(object(&plan(issuer)), expected);
}

#[test]
fn what_is_said_is_asked_for() {
    let issuer = IssuerReference {
        name: "corporate".into(),
        kind: Some("VaultIssuer".into()),
        group: Some("issuers.example".into()),
    };
    let plan = Plan {
        validity: Some(Duration::from_hours(720)),
        renew_before: Some(Duration::from_hours(240)),
        ..plan(issuer)
    };
    let spec = &object(&plan)["spec"];
    let reference = json!({"name": "corporate", "kind": "VaultIssuer", "group": "issuers.example"});
    assert_eq!(spec["issuerRef"], reference);
    assert_eq!(spec["duration"], "2592000s");
    assert_eq!(spec["renewBefore"], "864000s");
}

#[rstest]
#[case::ready(json!([{"type": "Ready", "status": "True", "message": "up to date"}]), true, "told nothing")]
#[case::issuing(json!([{"type": "Ready", "status": "False", "message": "Secret does not exist"},
    {"type": "Issuing", "status": "True", "message": "issuing"}]), false, "Secret does not exist")]
#[case::failed(json!([{"type": "Ready", "status": "False", "message": "expired"},
    {"type": "Issuing", "status": "False", "message": "the issuer is gone"}]), false, "expired; the issuer is gone")]
#[case::silent(json!(null), false, "does it run?")]
fn its_conditions_are_told_in_its_own_words(
    #[case] conditions: Value,
    #[case] ready: bool,
    #[case] words: &str,
) {
    let mut object = DynamicObject::new("simple-server", &resource());
    object.data = json!({"status": {"conditions": conditions}});
    let observed = Observed::of(&object);
    assert_eq!(observed.ready, ready);
    assert!(observed.words.contains(words), "{}", observed.words);
}
