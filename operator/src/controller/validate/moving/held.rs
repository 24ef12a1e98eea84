//! The pod that has the reports: it stays as it is until they have moved.
//!
//! Nobody is served between the end of that pod and the start of the next one, as two servers
//! cannot share one SQLite file, and a new pod begins the move anew. On PostgreSQL pods are
//! replaced without a gap. So whatever changes the pod waits for that.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::controller::build::CONTAINER;
use crate::controller::validate::{PodSettings, Validated};
use crate::controller::workload;

/// Time for which the server may be away before its pod is changed all the same: a change may be
/// what it needs to start. Opening a large database takes two minutes at most.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// Returns the template of the server's pod, where it is to stay as it is. A pod that cannot hear
/// of a move has to be replaced, and one that does not serve has nothing to lose.
pub fn template(present: &Deployment, now: Timestamp) -> Option<&PodTemplateSpec> {
    let template = &present.spec.as_ref()?.template;
    (workload::hears_of_moves(template) && !is_lost(present, now)).then_some(template)
}

/// Returns the settings of the pod with what `template` says of it, as far as more than the pod
/// follows from that: the rights of its account, and the image that the status names.
pub fn pod(spec: &Validated, template: &PodTemplateSpec) -> PodSettings {
    let mut settings = spec.pod.clone();
    let Some(pod) = &template.spec else {
        return settings;
    };
    let own = spec.names.server();
    let account = pod.service_account_name.clone();
    settings.service_account = account.filter(|account| *account != own);
    let server = pod.containers.iter().find(|found| found.name == CONTAINER);
    if let Some(image) = server.and_then(|server| server.image.clone()) {
        settings.image = image;
    }
    settings
}

/// Returns whether the server has been away for longer than a restart takes.
fn is_lost(present: &Deployment, now: Timestamp) -> bool {
    let status = present.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let available = conditions.find(|condition| condition.type_ == "Available");
    available.is_some_and(|available| {
        let since = available.last_transition_time.as_ref();
        available.status == "False"
            && since.is_some_and(|since| now.duration_since(since.0) > PATIENCE)
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures::validated;

    const FLAGS: [&str; 2] = ["--database=/db", "--move-database-dir=/move"];

    fn deployment(args: &[&str], available: &Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "d"},
            "spec": {"selector": {}, "template": {"spec": {"serviceAccountName": "a",
                "containers": [{"name": "beside", "image": "other"},
                    {"name": "server", "image": "deployed", "args": args}]}}},
            "status": {"conditions": [available]},
        }))
        .unwrap()
    }

    fn available(status: &str) -> Value {
        json!({"type": "Available", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[rstest]
    #[case::serves(&FLAGS, "True", "01:00:00", true)]
    #[case::restarts(&FLAGS, "False", "00:04:59", true)]
    #[case::does_not_start(&FLAGS, "False", "00:05:01", false)]
    #[case::cannot_hear(&FLAGS[..1], "True", "01:00:00", false)]
    fn a_pod_that_serves_and_hears_stays(
        #[case] args: &[&str],
        #[case] status: &str,
        #[case] time: &str,
        #[case] stays: bool,
    ) {
        let present = deployment(args, &available(status));
        let now = format!("2026-01-01T{time}Z").parse().unwrap();
        let held = template(&present, now);
        assert_eq!(held.is_some(), stays);
        assert!(held.is_none_or(|held| *held == present.spec.as_ref().unwrap().template));
    }

    #[test]
    fn a_pod_that_nothing_is_known_of_stays() {
        let other = json!({"type": "Progressing", "status": "False"});
        let present = deployment(&FLAGS, &other);
        assert!(template(&present, Timestamp::MAX).is_some());
    }

    #[rstest]
    #[case::of_the_users("a", Some("a"))]
    #[case::ours("simple-server", None)]
    fn account_and_image_are_the_pods(#[case] account: &str, #[case] kept: Option<&str>) {
        let mut spec = validated(json!({"server": {"serviceAccount": {"name": "wanted"}}}));
        let mut template = deployment(&FLAGS, &available("True"))
            .spec
            .unwrap()
            .template;
        template.spec.as_mut().unwrap().service_account_name = Some(account.to_owned());
        spec.pod = pod(&spec, &template);
        assert_eq!(spec.pod.service_account.as_deref(), kept);
        assert_eq!(spec.service_account(), account);
        assert_eq!(spec.pod.image, "deployed");
    }
}
