//! A tool that applies everything again in the middle of each step.

use crds::names::SIDE_DOOR;
use crds::v1alpha1::ReportsServer;
use futures::stream::BoxStream;
use futures::{StreamExt as _, future, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Tool;
use super::orders::{Orders, REPEATED, State};
use crate::matrix::error::MatrixError;
use crate::takeover::{GROUPS, TakeoverError};

/// Something that has changed in the cluster.
enum News {
    State(State),
    /// An object of the tool, which says what it has obeyed.
    Told(Box<DynamicObject>),
}

/// Orders a tool to apply everything again, at each change of a group's step or of a CRD's door.
pub struct Again {
    stop: CancellationToken,
    task: AbortOnDropHandle<Result<Vec<String>, MatrixError>>,
}

impl Again {
    /// Begins with it; the CRD of `ReportsServer` has to be there.
    #[must_use]
    pub fn begin(tool: &Tool, client: &Client) -> Self {
        let stop = CancellationToken::new();
        let ordering = run(tool.clone(), client.clone(), stop.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(ordering));
        Self { stop, task }
    }

    /// Ends it; returns the phases in which the tool was told to apply everything again, and did.
    ///
    /// # Errors
    /// If the tool could not be asked.
    pub async fn end(self) -> Result<Vec<String>, MatrixError> {
        self.stop.cancel();
        let ended = self.task.await;
        ended.map_err(|error| MatrixError::Takeover(TakeoverError::Answer(error.to_string())))?
    }
}

async fn run(
    tool: Tool,
    client: Client,
    stop: CancellationToken,
) -> Result<Vec<String>, MatrixError> {
    let told = told(&tool, &client);
    let mut news = stream::select(steps(&client).map(News::State), told);
    let mut orders = Orders::default();
    loop {
        let next = tokio::time::timeout(REPEATED, news.next());
        match stop.run_until_cancelled(next).await {
            Some(Ok(Some(News::State(state)))) => orders.reaches(state),
            Some(Ok(Some(News::Told(object)))) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                orders.hears(name, |token| tool.object_has_obeyed(&object, token));
            }
            // Nothing new, but an order may have been lost.
            Some(Err(_)) => {}
            Some(Ok(None)) | None => return Ok(orders.obeyed()),
        }
        if orders.is_due(Instant::now()) {
            let mut order = tool.order(&client).await?;
            // While the groups move, it is busy waiting for the ReportsServer.
            order.objects.retain(|name| !tool.waits_in(name));
            orders.given(order, Instant::now());
        }
    }
}

/// Returns each state of the tool's objects as it comes.
fn told(tool: &Tool, client: &Client) -> BoxStream<'static, News> {
    watcher(tool.objects(client), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(|object| future::ready(object.ok()))
        .map(|object| News::Told(Box::new(object)))
        .boxed()
}

/// Returns every state as it comes.
fn steps(client: &Client) -> BoxStream<'static, State> {
    let servers: Api<ReportsServer> = Api::all(client.clone());
    let servers = watcher(servers, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        // The watcher begins anew by itself.
        .filter_map(|server| future::ready(server.ok()))
        .flat_map(|server| stream::iter(groups(&server)));
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let crds = watcher(crds, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .filter_map(|crd| future::ready(crd.ok().as_ref().and_then(door)));
    stream::select(servers, crds).boxed()
}

/// Returns the steps of all groups.
fn groups(server: &ReportsServer) -> Vec<State> {
    let status = server.status.as_ref();
    let migration = status.and_then(|status| status.migration.as_ref());
    let groups = migration.map_or(&[][..], |migration| migration.groups.as_slice());
    let steps = groups.iter().map(|group| State {
        name: group.group.clone(),
        phase: group.phase.as_str().to_owned(),
        step: group.step.clone().unwrap_or_default(),
    });
    steps.collect()
}

/// Returns the state of the door of a CRD of reports.
fn door(crd: &CustomResourceDefinition) -> Option<State> {
    let name = crd.metadata.name.clone()?;
    let mut versions = crd.spec.versions.iter();
    let phase = if versions.any(|version| version.name == SIDE_DOOR) {
        SIDE_DOOR
    } else {
        "as shipped"
    };
    let is_of_reports = GROUPS.contains(&crd.spec.group.as_str());
    is_of_reports.then(|| State {
        name,
        phase: phase.to_owned(),
        step: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_crd_of_reports_has_a_door_and_another_one_has_none() {
        let crd = |group: &str, versions: &[&str]| -> CustomResourceDefinition {
            let version = |name: &&str| json!({"name": name, "served": true, "storage": true});
            let versions: Vec<_> = versions.iter().map(version).collect();
            serde_json::from_value(json!({
                "metadata": {"name": "reports"},
                "spec": {"group": group, "scope": "Namespaced", "versions": versions,
                    "names": {"plural": "reports", "kind": "Report"}},
            }))
            .unwrap()
        };
        let state = |crd: CustomResourceDefinition| door(&crd).map(|step| step.phase);
        assert_eq!(state(crd(GROUPS[0], &["v1"])).unwrap(), "as shipped");
        assert_eq!(
            state(crd(GROUPS[0], &["v1", SIDE_DOOR])).unwrap(),
            SIDE_DOOR
        );
        assert_eq!(state(crd("example.com", &["v1", SIDE_DOOR])), None);
    }

    #[test]
    fn each_group_has_a_step() {
        let server: ReportsServer = serde_json::from_value(json!({
            "apiVersion": "reports-server.io/v1alpha1",
            "kind": "ReportsServer",
            "metadata": {"name": "policy-reports"},
            "spec": {"targetNamespace": "policy-reports", "apis": []},
            "status": {"migration": {"groups": [
                {"group": GROUPS[0], "phase": "Switching", "step": "Hold"},
                {"group": GROUPS[1], "phase": "Soaking"},
            ]}},
        }))
        .unwrap();
        let steps = groups(&server);
        let wanted = [[GROUPS[0], "Switching", "Hold"], [GROUPS[1], "Soaking", ""]];
        let wanted = wanted.map(|wanted| {
            let [name, phase, step] = wanted.map(str::to_owned);
            State { name, phase, step }
        });
        assert_eq!(steps, wanted);
    }
}
