//! The user's settings of the server's pods, and the accounts of the pods.

use rstest::rstest;
use serde_json::{Value, json};

use super::{all, children, value};

/// Names of the `ServiceAccount`s that are given rights.
fn subjects(spec: Value) -> Vec<String> {
    let mut names: Vec<String> = all(children(spec))
        .into_iter()
        .filter(|(name, _)| *name != "operand_binding")
        .flat_map(|(_, object)| object["subjects"].as_array().cloned().unwrap_or_default())
        .map(|subject| subject["name"].as_str().unwrap().to_owned())
        .collect();
    names.dedup();
    names
}

#[test]
fn a_service_account_of_the_users_gets_the_rights() {
    let spec = json!({"server": {"serviceAccount": {"name": "own"}}});
    assert_eq!(subjects(spec.clone()), ["own"]);
    let children = children(spec);
    assert!(children.service_account.is_none());
    assert_eq!(children.kept().service_accounts, Vec::<String>::new());
    let pod = children.deployment.spec.unwrap().template.spec.unwrap();
    assert_eq!(pod.service_account_name.as_deref(), Some("own"));
}

#[test]
fn a_service_account_of_ours_has_the_users_annotations() {
    let spec = json!({"server": {"serviceAccount": {"annotations": {"role": "arn"}}}});
    assert_eq!(subjects(spec.clone()), ["simple-server"]);
    let account = value(&children(spec).service_account);
    assert_eq!(account["metadata"]["annotations"], json!({"role": "arn"}));
}

/// The flag is left out where it says nothing: a server of an earlier release may not have it.
#[rstest]
#[case("Json", None)]
#[case("Text", Some("--log-format=text"))]
fn a_log_is_written_in_the_form_that_is_wanted(
    #[case] format: &str,
    #[case] expected: Option<&str>,
) {
    let children = children(json!({"server": {"logging": {"format": format}}}));
    let pod = children.deployment.spec.unwrap().template.spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap();
    let flag = args.iter().find(|arg| arg.starts_with("--log-format"));
    assert_eq!(flag.map(String::as_str), expected);
}

/// Pods are replaced where their template differs.
#[test]
fn another_log_level_reaches_the_server_without_another_pod() {
    let logging = |level: &str| children(json!({"server": {"logging": {"level": level}}}));
    let (info, debug) = (logging("Info"), logging("Debug"));
    assert_eq!(value(&info.deployment), value(&debug.deployment));
    assert_eq!(info.config.data.unwrap()["logLevel"], "info");
    assert_eq!(debug.config.data.unwrap()["logLevel"], "debug");
}

#[test]
fn requests_of_direct_clients_are_logged_where_it_is_asked_for() {
    let logging =
        |audit: bool| children(json!({"server": {"logging": {"auditDirectClients": audit}}}));
    let (without, with) = (logging(false), logging(true));
    assert_eq!(value(&without.deployment), value(&with.deployment));
    assert_eq!(without.config.data.unwrap().get("auditDirectClients"), None);
    assert_eq!(with.config.data.unwrap()["auditDirectClients"], "true");
}

/// Returns what the server's pods have of a collector of traces: arguments, and volumes.
fn traced(tracing: &Value) -> (Vec<String>, Vec<Value>) {
    let children = children(json!({"monitoring": {"tracing": tracing}}));
    let pod = children.deployment.spec.unwrap().template.spec.unwrap();
    let args = pod.containers[0].args.clone().unwrap().into_iter();
    let volumes = pod.volumes.unwrap();
    let volumes = volumes.iter().filter(|volume| volume.name == "tracing-ca");
    let mounted = pod.containers[0].volume_mounts.iter().flatten();
    let mounted = mounted.filter(|mount| mount.name == "tracing-ca").count();
    let volumes: Vec<Value> = volumes.map(value).collect();
    assert_eq!(volumes.len(), mounted);
    let args = args.filter(|arg| arg.starts_with("--tracing"));
    (args.collect(), volumes)
}

#[test]
fn a_server_learns_of_the_collector_of_traces() {
    assert_eq!(traced(&Value::Null), (vec![], vec![]));
    let (args, volumes) = traced(&json!({"endpoint": "http://collector:4318/"}));
    let expected = [
        "--tracing-endpoint=http://collector:4318",
        "--tracing-sampling-rate-per-million=0",
    ];
    assert_eq!(
        (args, volumes),
        (expected.map(str::to_owned).to_vec(), vec![])
    );
    let (args, volumes) = traced(&json!({"endpoint": "https://collector",
        "samplingRatePerMillion": 1000, "caSecretRef": {"name": "cas"}}));
    let expected = [
        "--tracing-endpoint=https://collector",
        "--tracing-sampling-rate-per-million=1000",
        "--tracing-ca-file=/etc/reports-server/tracing/ca.crt",
    ];
    assert_eq!(args, expected);
    // Without it the server starts all the same, and nothing else of it is in the pod.
    let secret = json!({"secretName": "cas", "optional": true, "defaultMode": 0o440,
        "items": [{"key": "ca.crt", "path": "ca.crt"}]});
    assert_eq!(volumes[0]["secret"], secret);
}

#[test]
fn the_users_template_is_merged_over_ours() {
    let children = children(json!({"server": {"podTemplate": {
        "metadata": {"annotations": {"mesh": "off"}},
        "spec": {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "containers": [{"name": "server", "env": [{"name": "TZ", "value": "UTC"}]}]},
    }}}));
    let deployment = children.deployment.spec.unwrap();
    let template = value(&deployment.template);
    assert_eq!(template["metadata"]["annotations"], json!({"mesh": "off"}));
    assert_eq!(template["spec"]["dnsConfig"]["options"][0]["name"], "ndots");
    let containers = template["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    let variables = containers[0]["env"].as_array().unwrap();
    assert!(variables.contains(&json!({"name": "TZ", "value": "UTC"})));
    assert!(containers[0]["args"].as_array().unwrap().len() > 3);
    let labels = deployment.template.metadata.unwrap().labels.unwrap();
    for (key, value) in deployment.selector.match_labels.unwrap() {
        assert_eq!(labels.get(&key), Some(&value));
    }
}
