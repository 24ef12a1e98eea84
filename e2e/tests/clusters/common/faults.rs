//! Faults of the servers and their database, while the witness writes and watches.

use std::future::Future;
use std::time::Duration;

use e2e::takeover::{TARGET_NAMESPACE, Takeover};
use e2e::witness::{Account, Witness};
use jiff::{SignedDuration, Timestamp};
use testcluster::Component;

const LIMIT: Duration = Duration::from_mins(3);
const PAUSE: Duration = Duration::from_millis(50);
/// Requests before and after each blow, at 30 a second.
const REQUESTS: u64 = 90;
/// `kubeletRestartGracePeriod` of Kubernetes 1.36, and a second for its times of whole seconds.
const KUBELET_GRACE: SignedDuration = SignedDuration::from_secs(11);
/// Label that tells the servers' pods from the database's.
const COMPONENT: &str = "app.kubernetes.io/component";

/// Returns the witness' account of the time in which `blow` ran.
pub async fn under_load<F: Future<Output = ()>>(line: &Takeover, what: &str, blow: F) -> Account {
    under_load_within(LIMIT, line, what, blow).await
}

/// Returns the witness' account of the time in which `blow` ran, which may take as long as `limit`.
pub async fn under_load_within<F: Future<Output = ()>>(
    limit: Duration,
    line: &Takeover,
    what: &str,
    blow: F,
) -> Account {
    line.say(&format!("under load: {what}"));
    let witness = line.witness().await.unwrap();
    requests(&witness).await;
    tokio::time::timeout(limit, blow)
        .await
        .unwrap_or_else(|_| panic!("{what}: not over within {limit:?}"));
    requests(&witness).await;
    let account = witness.finish().await.unwrap();
    println!("{what}: {account:#?}");
    account
}

/// Lets the witness send some more requests.
async fn requests(witness: &Witness) {
    let wanted = witness.so_far().0 + REQUESTS;
    let sent = async {
        while witness.so_far().0 < wanted {
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LIMIT, sent)
        .await
        .expect("the witness goes on");
}

/// kubectl in the servers' namespace.
pub async fn kubectl(line: &Takeover, args: &[&str]) -> String {
    line.cluster
        .kubectl(["-n", TARGET_NAMESPACE].iter().chain(args))
        .await
        .unwrap_or_else(|error| panic!("kubectl {args:?}: {error}"))
}

/// Names of the pods of a component that are not being deleted.
pub async fn pods(line: &Takeover, component: &str) -> Vec<String> {
    let template =
        "{{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}";
    let selector = format!("{COMPONENT}={component}");
    let names = kubectl(
        line,
        &[
            "get",
            "pods",
            "-l",
            &selector,
            "-o",
            "go-template",
            "--template",
            template,
        ],
    )
    .await;
    names.split_whitespace().map(str::to_owned).collect()
}

/// Waits until all pods of the object are new and ready.
pub async fn rolled_out(line: &Takeover, object: &str) {
    kubectl(line, &["rollout", "status", object, "--timeout=170s"]).await;
}

/// Starts all pods of the object anew, as a change of its template does.
pub async fn roll(line: &Takeover, object: &str) {
    kubectl(line, &["rollout", "restart", object]).await;
    rolled_out(line, object).await;
}

/// The Deployment of the servers.
pub async fn servers(line: &Takeover) -> String {
    let selector = format!("{COMPONENT}=server");
    let name = kubectl(line, &["get", "deployments", "-l", &selector, "-o", "name"]).await;
    name.trim().to_owned()
}

/// Deletes one of the servers' pods in order, as an eviction does.
pub async fn delete_server(line: &Takeover) {
    let servers = servers(line).await;
    let pods = pods(line, "server").await;
    assert!(pods.len() > 1, "{pods:?}: no replica stays up");
    kubectl(line, &["delete", "pod", &pods[0]]).await;
    rolled_out(line, &servers).await;
}

/// Kills one of the servers (`SIGKILL`).
pub async fn kill_server(line: &Takeover) {
    let pods = pods(line, "server").await;
    assert!(pods.len() > 1, "{pods:?}: no replica stays up");
    kill(line, &pods[0], "server").await;
}

/// Kills a container (`SIGKILL`), and waits until its pod is ready again.
pub async fn kill(line: &Takeover, pod: &str, container: &str) {
    let before = restarts(line, pod).await;
    line.cluster
        .kill_container(TARGET_NAMESPACE, pod, container)
        .await
        .unwrap();
    while restarts(line, pod).await == before {
        tokio::time::sleep(PAUSE).await;
    }
    let pod = format!("pod/{pod}");
    kubectl(
        line,
        &["wait", "--for=condition=Ready", &pod, "--timeout=170s"],
    )
    .await;
}

async fn restarts(line: &Takeover, pod: &str) -> String {
    let path = "jsonpath={.status.containerStatuses[*].restartCount}";
    kubectl(line, &["get", "pod", pod, "-o", path]).await
}

/// Kills the node's kubelet (`SIGKILL`) and starts it again, once the servers are older than what
/// a new kubelet takes for containers of its own: those it reports as not ready until it has probed
/// them, all of them at once.
pub async fn restart_kubelet(line: &Takeover) {
    while age_of_the_youngest_server(line).await <= KUBELET_GRACE {
        tokio::time::sleep(PAUSE).await;
    }
    line.cluster.restart(Component::Kubelet).await.unwrap();
}

/// For how long the last started of the servers' containers has been running.
async fn age_of_the_youngest_server(line: &Takeover) -> SignedDuration {
    let selector = format!("{COMPONENT}=server");
    let path = "jsonpath={.items[*].status.containerStatuses[*].state.running.startedAt}";
    let started = kubectl(line, &["get", "pods", "-l", &selector, "-o", path]).await;
    let started = started.split_whitespace();
    let last = started.map(|at| at.parse::<Timestamp>().unwrap()).max();
    Timestamp::now().duration_since(last.expect("servers are running"))
}

/// While one replica stays up, and the database, no client notices anything.
pub async fn servers_come_and_go(line: &Takeover) {
    let pod = delete_server(line);
    let account = under_load(line, "a server's pod is deleted", pod).await;
    assert!(account.is_clean(), "{account:#?}");

    let servers = servers(line).await;
    let roll = roll(line, &servers);
    let account = under_load(line, "a rolling update of the servers", roll).await;
    assert!(account.is_clean(), "{account:#?}");

    let kubelet = restart_kubelet(line);
    let account = under_load(line, "the kubelet is killed", kubelet).await;
    assert!(account.is_clean(), "{account:#?}");
}
