//! Policies, webhooks and quotas for reports: the kube-apiserver applies them to its own resources
//! only, so they lose their effect when the server answers for a group. They are named, and hold the
//! switch where they are required.

use std::time::Duration;

use crate::common::{options, say};
use crds::names::ANNOTATION_ACCEPT_BYPASS;
use crds::v1alpha1::status::MigrationPhase;
use crds::v1alpha1::{ReportsServer, conditions, reasons};
use e2e::takeover::{GROUPS, NAME, Takeover, all_groups, is_ready};
use http::Request;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use testreports::{Input, ReportKind};

const LIMIT: Duration = Duration::from_mins(5);
const PAUSE: Duration = Duration::from_millis(200);
const REPORTS: usize = 50;
const NAMESPACE: &str = "team-00";
const KIND: ReportKind = ReportKind::PolicyReport;
/// Label of reports that the policy refuses.
const MARK: &str = "refused-by-policy";
const POLICY: &str = "no-marked-reports";
const QUOTA: &str = "few-reports";
/// Like that of a policy engine, it has a rule for everything.
const WEBHOOK: &str = "everything";

/// A policy of the group that is moved first, and its binding.
fn policy() -> Value {
    let rules = json!([{"apiGroups": [GROUPS[0]], "apiVersions": ["*"], "resources": ["*"],
        "operations": ["CREATE"]}]);
    let expression =
        format!("!has(object.metadata.labels) || !('{MARK}' in object.metadata.labels)");
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": expression}]}},
        {"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]}},
    ]})
}

fn others() -> Value {
    let count = format!("count/{}.{}", KIND.plural(), GROUPS[0]);
    let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"],
        "operations": ["CREATE", "UPDATE"]}]);
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": QUOTA, "namespace": NAMESPACE},
            "spec": {"hard": {count: "100000"}}},
        // It is never called: its condition is never met.
        {"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": WEBHOOK},
            "webhooks": [{"name": "everything.example.com", "rules": rules,
                "matchConditions": [{"name": "never", "expression": "false"}],
                "failurePolicy": "Ignore", "sideEffects": "None", "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"namespace": NAMESPACE, "name": "none"}}}]},
    ]})
}

struct Ground {
    line: Takeover,
}

impl Ground {
    async fn start() -> Self {
        let input = Input::Generated { seed: 17 };
        let line = Takeover::prepare(options(input, REPORTS), say)
            .await
            .unwrap();
        line.install_operator().await.unwrap();
        line.apply_as("CRD").await.unwrap();
        line.follow("a server", LIMIT, is_ready).await.unwrap();
        Self { line }
    }

    async fn kubectl(&self, args: &[&str]) {
        let result = self.line.cluster.kubectl(args).await;
        result.unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"));
    }

    async fn apply(&self, objects: &Value) {
        let applied = self
            .line
            .cluster
            .kubectl_with_input(["apply", "-f", "-"], &objects.to_string())
            .await;
        applied.unwrap();
    }

    async fn follow(&self, what: &str, wanted: impl Fn(&ReportsServer) -> bool) {
        self.line.follow(what, LIMIT, wanted).await.unwrap();
    }

    async fn server(&self) -> ReportsServer {
        let servers: Api<ReportsServer> = Api::all(self.line.client.clone());
        servers.get(NAME).await.unwrap()
    }

    /// Returns whether a report is accepted that the policy refuses.
    async fn accepts(&self, name: &str) -> bool {
        let report = json!({"apiVersion": format!("{}/v1alpha2", GROUPS[0]), "kind": "PolicyReport",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": {MARK: "a"}}});
        let request = Request::post(KIND.path(Some(NAMESPACE)));
        let request = request.header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&report).unwrap()).unwrap();
        match self.line.client.request::<Value>(request).await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.message.contains(POLICY) => false,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    /// Waits until the kube-apiserver applies the policy.
    async fn refuses(&self) {
        let refused = async {
            let mut number = 0;
            while self.accepts(&format!("before-{number}")).await {
                number += 1;
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, refused).await.unwrap();
    }

    /// Notes of the events with the reason.
    async fn warnings(&self) -> Vec<String> {
        let events: Api<Event> = Api::all(self.line.client.clone());
        let all = events.list(&ListParams::default()).await.unwrap();
        let ours = all.items.into_iter().filter(|event| {
            event.reason.as_deref() == Some(reasons::ADMISSION_BYPASSED)
                && event.type_.as_deref() == Some("Warning")
        });
        ours.filter_map(|event| event.note).collect()
    }

    /// Waits until the events are as wanted: they are written after the status.
    async fn hear(&self, is_wanted: impl Fn(&[String]) -> bool) {
        let heard = async {
            while !is_wanted(&self.warnings().await) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::time::timeout(LIMIT, heard).await.unwrap();
    }
}

fn condition<'a>(server: &'a ReportsServer, type_: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let conditions = &server.status.as_ref()?.conditions;
    let found = conditions.iter().find(|c| c.type_ == type_)?;
    Some((&found.status, &found.reason, &found.message))
}

/// The message of the condition, where it is true.
fn told(server: &ReportsServer) -> Option<&str> {
    let (is, _, message) = condition(server, conditions::ADMISSION_BYPASSED)?;
    (is == "True").then_some(message)
}

fn group<'a>(server: &'a ReportsServer, name: &str) -> Option<(MigrationPhase, &'a str)> {
    let migration = server.status.as_ref()?.migration.as_ref()?;
    let group = migration.groups.iter().find(|group| group.group == name)?;
    Some((group.phase, group.message.as_deref().unwrap_or_default()))
}

/// Returns whether a group waits before its switch, and names `object`.
fn waits_for(server: &ReportsServer, name: &str, object: &str) -> bool {
    group(server, name).is_some_and(|(phase, message)| {
        phase == MigrationPhase::Preflight
            && message.contains(object)
            && message.contains("requireAdmission")
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_loses_its_effect_is_named_and_holds_the_switch_where_it_is_required() {
    let ground = Box::pin(Ground::start()).await;
    ground.apply(&policy()).await;
    ground.refuses().await;
    ground.apply(&others()).await;
    let server = ground.server().await;
    assert_eq!(told(&server), None, "the CRDs serve everything");
    Box::pin(both_groups_wait(&ground)).await;
    Box::pin(each_group_goes_on_when_nothing_is_left(&ground)).await;
    Box::pin(what_comes_later_is_named(&ground)).await;
}

async fn both_groups_wait(ground: &Ground) {
    let required = json!({"migration": {"requireAdmission": true}});
    ground.line.patch_spec(required).await.unwrap();
    ground.line.set_owner("Server").await.unwrap();
    let [first, second] = GROUPS;
    ground
        .follow("the wait of both groups", |server| {
            waits_for(server, first, POLICY) && waits_for(server, second, WEBHOOK)
        })
        .await;
    ground
        .follow("the condition", |server| {
            told(server).is_some_and(|message| {
                let quota = format!("ResourceQuota {NAMESPACE}/{QUOTA}");
                let policy = format!("ValidatingAdmissionPolicy {POLICY}");
                [policy.as_str(), &quota, WEBHOOK]
                    .iter()
                    .all(|object| message.contains(*object))
            })
        })
        .await;
    let server = ground.server().await;
    let stalled = condition(&server, conditions::STALLED).unwrap();
    assert_eq!(
        (stalled.0, stalled.1),
        ("True", reasons::ADMISSION_BYPASSED)
    );
    let services: Api<APIService> = Api::all(ground.line.client.clone());
    let service = services.get("v1alpha2.wgpolicyk8s.io").await.unwrap();
    assert!(service.spec.unwrap().service.is_none(), "it was switched");
    assert!(!ground.accepts("while-it-waits").await);
    ground
        .hear(|warnings| warnings.iter().any(|note| note.contains(POLICY)))
        .await;
}

async fn each_group_goes_on_when_nothing_is_left(ground: &Ground) {
    let [first, second] = GROUPS;
    let accept = format!("{ANNOTATION_ACCEPT_BYPASS}=true");
    let webhook = [
        "annotate",
        "validatingwebhookconfiguration",
        WEBHOOK,
        &accept,
    ];
    ground.kubectl(&webhook).await;
    ground
        .follow("the switch of the group without policies", |server| {
            group(server, second).is_some_and(|(phase, _)| phase.is_serving())
                && waits_for(server, first, POLICY)
        })
        .await;
    // A policy that nothing binds decides about nothing.
    let binding = ["delete", "validatingadmissionpolicybinding", POLICY];
    ground.kubectl(&binding).await;
    ground
        .follow("the wait for the quota alone", |server| {
            waits_for(server, first, QUOTA) && !waits_for(server, first, POLICY)
        })
        .await;
    ground
        .kubectl(&["-n", NAMESPACE, "delete", "resourcequota", QUOTA])
        .await;
    ground.line.follow_to_ready(LIMIT).await.unwrap();
    ground
        .follow("an end of the condition", |server| {
            condition(server, conditions::ADMISSION_BYPASSED).is_none()
        })
        .await;
}

async fn what_comes_later_is_named(ground: &Ground) {
    let before = ground.warnings().await.len();
    ground.apply(&policy()).await;
    let named = |server: &ReportsServer| told(server).is_some_and(|m| m.contains(POLICY));
    ground.follow("the policy of a served group", named).await;
    let server = ground.server().await;
    assert!(is_ready(&server), "it is served as before");
    assert!(all_groups(&server, MigrationPhase::is_serving));
    assert!(ground.accepts("after-the-switch").await, "it has an effect");
    ground.hear(|warnings| warnings.len() > before).await;
    ground
        .kubectl(&["delete", "validatingadmissionpolicybinding", POLICY])
        .await;
    ground
        .follow("an end of the condition", |server| told(server).is_none())
        .await;
}
