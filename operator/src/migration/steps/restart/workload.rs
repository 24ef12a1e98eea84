//! The restart of one workload, as `kubectl rollout restart` does it.

use std::time::Duration;

use crds::names::FIELD_MANAGER;
use crds::v1alpha1::spec::WorkloadKind;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::migration::cluster::control::retry;
use crate::migration::cluster::wire::{Wire, WireError, query};
use crate::migration::plan::target::Workload;

/// The annotation of the pod template that `kubectl rollout restart` sets.
pub const ANNOTATION: &str = "kubectl.kubernetes.io/restartedAt";
/// The time for which a request is tried.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of times that a workload which others change meanwhile is read again.
const CONFLICTS: u32 = 8;

/// The mark by which a restart is known.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The value of the annotation.
    pub at: Timestamp,
    /// A restart after this serves as well, whoever did it.
    pub lost_at: Timestamp,
}

/// The outcome of a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Restarted just now.
    Restarted,
    /// Restarted at this time already.
    Before(Timestamp),
    /// There is no such workload.
    NotFound,
    /// Not restarted, with the reason.
    Failed(String),
}

/// Restarts a workload, unless it was restarted since watches were lost.
pub async fn restart(wire: &Wire, workload: &Workload, mark: &Mark) -> Outcome {
    match try_restart(wire, workload, mark).await {
        Ok(outcome) => outcome,
        Err(e) if e.code() == Some(404) => Outcome::NotFound,
        Err(e) => Outcome::Failed(e.to_string()),
    }
}

async fn try_restart(wire: &Wire, workload: &Workload, mark: &Mark) -> Result<Outcome, WireError> {
    let path = path(workload);
    let uri = query(&path, &[("fieldManager", FIELD_MANAGER)]);
    let mut attempt = 1;
    loop {
        let current: Value = retry(PATIENCE, || wire.get(&path)).await?.json()?;
        if let Some(at) = restarted_since(&current, mark) {
            return Ok(Outcome::Before(at));
        }
        if is_paused(workload.kind, &current) {
            let why = "its rollout is paused, so a restart would wait: \
                       run `kubectl rollout resume`";
            return Ok(Outcome::Failed(why.to_owned()));
        }
        let body = Some(patch(&current, mark).to_string().into_bytes());
        let type_ = "application/merge-patch+json";
        match wire.call(Method::PATCH, &uri, type_, body).await {
            Ok(_) => return Ok(Outcome::Restarted),
            Err(e) if e.code() == Some(409) && attempt < CONFLICTS => attempt += 1,
            Err(e) => return Err(e),
        }
    }
}

fn path(workload: &Workload) -> String {
    let plural = workload.kind.plural();
    let Workload {
        namespace, name, ..
    } = workload;
    format!("/apis/apps/v1/namespaces/{namespace}/{plural}/{name}")
}

/// Returns the time at which a workload was restarted, if that was for this mark or since watches
/// were lost.
fn restarted_since(current: &Value, mark: &Mark) -> Option<Timestamp> {
    let annotations = current.pointer("/spec/template/metadata/annotations")?;
    // With an offset, as kubectl writes it.
    let at: Timestamp = annotations.get(ANNOTATION)?.as_str()?.parse().ok()?;
    (at == mark.at || at > mark.lost_at).then_some(at)
}

/// Returns whether a Deployment is paused; `kubectl rollout restart` refuses it then.
fn is_paused(kind: WorkloadKind, current: &Value) -> bool {
    kind == WorkloadKind::Deployment && current.pointer("/spec/paused") == Some(&json!(true))
}

/// Returns the patch, which is refused when the workload has changed since it was read.
fn patch(current: &Value, mark: &Mark) -> Value {
    json!({
        "metadata": {"resourceVersion": current.pointer("/metadata/resourceVersion")},
        "spec": {"template": {"metadata": {"annotations": {ANNOTATION: mark.at.to_string()}}}},
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing::{Server, pair};

    const LOST: &str = "2026-11-21T12:00:00.5Z";
    const AT: &str = "2026-11-21T12:00:07Z";
    const PATH: &str = "/apis/apps/v1/namespaces/kyverno/deployments/reports";

    fn mark() -> Mark {
        Mark {
            at: AT.parse().unwrap(),
            lost_at: LOST.parse().unwrap(),
        }
    }

    fn workload() -> Workload {
        Workload {
            kind: WorkloadKind::Deployment,
            namespace: "kyverno".to_owned(),
            name: "reports".to_owned(),
        }
    }

    fn deployment(restarted_at: Option<&str>) -> Value {
        let annotations = restarted_at.map(|at| json!({ANNOTATION: at}));
        json!({"metadata": {"resourceVersion": "7"},
            "spec": {"template": {"metadata": {"annotations": annotations}}}})
    }

    fn start() -> (tokio::task::JoinHandle<Outcome>, Server) {
        let (client, server) = pair();
        let wire = Wire::new(client);
        let restart = async move { restart(&wire, &workload(), &mark()).await };
        (tokio::spawn(restart), server)
    }

    #[tokio::test]
    async fn the_template_gets_the_annotation_of_kubectl() {
        let (restart, mut server) = start();
        let read = server.next().await;
        assert_eq!((read.method.as_str(), read.path.as_str()), ("GET", PATH));
        read.answer(200, &deployment(Some("2026-11-20T12:00:00Z")));
        let patch = server.next().await;
        assert_eq!(patch.method, "PATCH");
        assert_eq!(patch.path, format!("{PATH}?fieldManager={FIELD_MANAGER}"));
        let wanted = json!({"metadata": {"resourceVersion": "7"}, "spec": {"template":
            {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": AT}}}}});
        assert_eq!(patch.body, wanted);
        patch.answer(200, &json!({}));
        assert_eq!(restart.await.unwrap(), Outcome::Restarted);
    }

    #[rstest]
    #[case::by_a_process_that_died(AT)]
    #[case::by_a_person("2026-11-21T13:00:01+01:00")]
    #[tokio::test]
    async fn what_was_restarted_already_is_left_alone(#[case] at: &str) {
        let (restart, mut server) = start();
        server.next().await.answer(200, &deployment(Some(at)));
        let at = at.parse().unwrap();
        assert_eq!(restart.await.unwrap(), Outcome::Before(at));
    }

    #[tokio::test]
    async fn what_others_change_meanwhile_is_read_again() {
        let (restart, mut server) = start();
        server.next().await.answer(200, &deployment(None));
        server.next().await.refuse(409, "Conflict");
        // Somebody has restarted it.
        server
            .next()
            .await
            .answer(200, &deployment(Some("2026-11-21T12:00:09Z")));
        assert!(matches!(restart.await.unwrap(), Outcome::Before(_)));
    }

    #[rstest]
    #[case(404, "NotFound", Outcome::NotFound)]
    #[tokio::test]
    async fn a_workload_that_is_missing_is_told(
        #[case] code: u16,
        #[case] reason: &str,
        #[case] outcome: Outcome,
    ) {
        let (restart, mut server) = start();
        server.next().await.refuse(code, reason);
        assert_eq!(restart.await.unwrap(), outcome);
    }

    #[tokio::test]
    async fn a_refusal_and_a_paused_rollout_are_failures() {
        let (restart, mut server) = start();
        server.next().await.answer(200, &deployment(None));
        server.next().await.refuse(403, "Forbidden");
        let Outcome::Failed(why) = restart.await.unwrap() else {
            panic!("not refused")
        };
        assert!(why.contains("403"), "{why}");
        let (restart, mut server) = start();
        let mut paused = deployment(None);
        paused["spec"]["paused"] = json!(true);
        server.next().await.answer(200, &paused);
        assert!(matches!(restart.await.unwrap(), Outcome::Failed(_)));
    }
}
