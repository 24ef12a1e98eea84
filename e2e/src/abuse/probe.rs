//! Asks the API as a client does: lists, reads, writes and watches each kind.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crds::names;
use futures::future::join_all;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use testreports::ReportKind;

use super::AbuseError;
use super::outage::answers;
use super::seen::{Group, Seen};
use crate::request::RequestError;
use crate::takeover::{GROUPS, NAME, TARGET_NAMESPACE, Takeover, load};
use crate::witness::strict_client;

/// Path of the server's view of the objects that it stores.
const STORED: &str = "/apis/control.reports-server.io/v1alpha1/storedresources";
/// Beginning of the name of the namespace that is written to.
const PREFIX: &str = "abuse";
/// Label of the objects that are written.
const LABEL: &str = "abuse-probe";
/// Longest wait for an answer, and for an event.
const LIMIT: Duration = Duration::from_secs(5);
/// Seconds after which a watch ends by itself.
const WATCH: u32 = 20;
/// Most tries to remove a written report, and the pause between.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_secs(1);

/// A kind, and a report of it that nobody writes to.
struct Canary {
    kind: ReportKind,
    all: Api<DynamicObject>,
    /// The reports of the namespace in which probes are written.
    own: Api<DynamicObject>,
    report: Api<DynamicObject>,
    name: String,
    path: String,
}

/// A client that asks. See the module.
pub struct Prober {
    client: Client,
    canaries: Vec<Canary>,
    namespace: String,
    number: AtomicU64,
}

impl Prober {
    /// Makes a namespace to write to, and chooses a report of each kind to read.
    ///
    /// # Errors
    /// If the namespace cannot be created, or there is no report of a kind.
    pub async fn start(line: &Takeover) -> Result<Self, AbuseError> {
        let client = strict_client(line.cluster.config(0).await?)?;
        let made = load::namespaces(&client, PREFIX, 1).await?;
        let namespace = made.into_iter().map(|made| made.namespace).next();
        let namespace = namespace.unwrap_or_default();
        let mut canaries = Vec::new();
        for kind in testreports::kinds() {
            canaries.push(canary(&client, kind, &namespace).await?);
        }
        Ok(Self {
            client,
            canaries,
            namespace,
            number: AtomicU64::new(0),
        })
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the path of one report of each group.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let first = |group: &str| self.canaries.iter().find(|c| c.kind.group() == group);
        let found = GROUPS.iter().filter_map(|group| first(group));
        found.map(|canary| canary.path.clone()).collect()
    }

    /// Asks for everything once.
    pub async fn look(&self) -> Seen {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let name = format!("probe-{number}");
        let asked = self.canaries.iter().map(|canary| canary.ask(&name));
        let (asked, services, control_api, certificate) = tokio::join!(
            join_all(asked),
            self.services(),
            answers(&self.client, STORED),
            self.has_certificate()
        );
        let groups = GROUPS.iter().map(|group| {
            let of_group = self.canaries.iter().zip(&asked);
            let mut found = Group {
                name: (*group).to_owned(),
                at_server: at_server(&services, group),
                ..Group::default()
            };
            for (_, asked) in of_group.filter(|(canary, _)| canary.kind.group() == *group) {
                found.unread = found.unread.or_else(|| asked.unread.clone());
                found.unwritten = found.unwritten.or_else(|| asked.unwritten.clone());
            }
            found
        });
        Seen {
            groups: groups.collect(),
            control_api,
            certificate,
        }
    }

    async fn services(&self) -> Vec<APIService> {
        let services: Api<APIService> = Api::all(self.client.clone());
        let list = services.list(&ListParams::default()).await;
        list.map(|list| list.items).unwrap_or_default()
    }

    async fn has_certificate(&self) -> bool {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), TARGET_NAMESPACE);
        let secret = secrets.get(&names::serving_cert(NAME)).await;
        let data = secret.ok().and_then(|secret| secret.data);
        let data = data.unwrap_or_default();
        let has = |key: &str| data.get(key).is_some_and(|value| !value.0.is_empty());
        has("tls.crt") && has("tls.key")
    }

    /// Removes everything that was written.
    ///
    /// # Errors
    /// If something is left after a minute.
    pub async fn clear(&self) -> Result<(), AbuseError> {
        for _ in 0..TRIES {
            let cleared = join_all(self.canaries.iter().map(Canary::clear)).await;
            if cleared.into_iter().all(|cleared| cleared) {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(AbuseError::Left(self.namespace.clone()))
    }
}

/// Returns whether all APIServices of a group lead to the server; nothing where only some do, or
/// there are none.
fn at_server(services: &[APIService], group: &str) -> Option<bool> {
    let server = names::server(NAME);
    let specs = services.iter().filter_map(|service| service.spec.as_ref());
    let mut ours = 0;
    let mut local = 0;
    let mut all = 0;
    for spec in specs.filter(|spec| spec.group.as_deref() == Some(group)) {
        all += 1;
        match &spec.service {
            None => local += 1,
            Some(service) => {
                let leads = service.namespace.as_deref() == Some(TARGET_NAMESPACE)
                    && service.name.as_deref() == Some(server.as_str());
                ours += usize::from(leads);
            }
        }
    }
    if all == 0 {
        return None;
    }
    (ours == all || local == all).then_some(ours == all)
}

async fn canary(client: &Client, kind: ReportKind, namespace: &str) -> Result<Canary, AbuseError> {
    let resource = kind.api_resource();
    let all: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let list = all.list(&ListParams::default().limit(1)).await;
    let list = list.map_err(RequestError::of("list reports"))?;
    let first = list.items.into_iter().next();
    let first = first.ok_or(AbuseError::NoCanary(kind.kind()))?;
    let inside = |namespace: Option<&str>| -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    };
    let (found, name) = (first.namespace(), first.name_any());
    let path = format!("{}/{name}", kind.path(found.as_deref()));
    Ok(Canary {
        kind,
        all,
        own: inside(kind.namespaced().then_some(namespace)),
        report: inside(found.as_deref()),
        name,
        path,
    })
}

/// The findings of one kind.
struct Asked {
    unread: Option<String>,
    unwritten: Option<String>,
}

impl Canary {
    /// Lists, reads, writes and watches.
    async fn ask(&self, name: &str) -> Asked {
        let watch = self.watch().await;
        let written = self.write(name).await;
        let unread = match watch {
            Err(why) => Some(why),
            Ok(watch) if written.is_ok() => self.shows(watch, name).await.err(),
            Ok(_) => None,
        };
        // What is left is removed later.
        let params = DeleteParams::default();
        let deleted = within("delete", self.own.delete(name, &params)).await;
        let unwritten = written.and(deleted.map(drop)).err();
        let named = |why: String| format!("{}: {why}", self.kind.plural());
        Asked {
            unread: unread.map(named),
            unwritten: unwritten.map(named),
        }
    }

    /// Lists and reads, and opens a watch from the list on.
    async fn watch(
        &self,
    ) -> Result<impl Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + use<>, String> {
        let params = ListParams::default().limit(1);
        let list = within("list", self.all.list(&params)).await?;
        within("get", self.report.get(&self.name)).await?;
        let from = list.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().timeout(WATCH);
        within("watch", self.own.watch(&params, &from)).await
    }

    async fn write(&self, name: &str) -> Result<(), String> {
        let resource = self.kind.api_resource();
        let mut report = DynamicObject::new(name, &resource).data(body(self.kind));
        report.labels_mut().insert(LABEL.to_owned(), String::new());
        let params = PostParams::default();
        let created = within("create", self.own.create(&params, &report)).await;
        created.map(drop)
    }

    /// Waits for the event of a report.
    async fn shows(
        &self,
        watch: impl Stream<Item = kube::Result<WatchEvent<DynamicObject>>>,
        name: &str,
    ) -> Result<(), String> {
        let mut watch = Box::pin(watch);
        let shown = async {
            while let Some(event) = watch.next().await {
                match event {
                    Ok(WatchEvent::Added(report)) if report.name_any() == name => return Ok(()),
                    Ok(WatchEvent::Error(status)) => {
                        return Err(format!("watch: {}", status.message));
                    }
                    Ok(_) => {}
                    Err(error) => return Err(format!("watch: {error}")),
                }
            }
            Err("the watch has ended".to_owned())
        };
        let shown = tokio::time::timeout(LIMIT, shown).await;
        shown.unwrap_or_else(|_| Err(format!("the watch shows no write within {LIMIT:?}")))
    }

    /// Removes what was written; returns whether nothing is left.
    async fn clear(&self) -> bool {
        let labelled = ListParams::default().labels(LABEL);
        let Ok(left) = within("list", self.own.list(&labelled)).await else {
            return false;
        };
        for report in &left.items {
            let (name, params) = (report.name_any(), DeleteParams::default());
            let deleted = within("delete", self.own.delete(&name, &params)).await;
            if let Err(why) = deleted {
                tracing::info!(name, why, "a probe is left");
            }
        }
        left.items.is_empty()
    }
}

/// Returns the members of a report besides its metadata.
fn body(kind: ReportKind) -> Value {
    let summary = json!({"pass": 1});
    let results = json!([{"policy": "abuse", "result": "pass"}]);
    if kind.ephemeral() {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        return json!({"spec": {"owner": owner, "summary": summary, "results": results}});
    }
    json!({"summary": summary, "results": results})
}

/// Waits for an answer, for some time.
async fn within<T>(
    what: &str,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, String> {
    match tokio::time::timeout(LIMIT, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(format!("{what}: {error}")),
        Err(_) => Err(format!("{what}: no answer within {LIMIT:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(group: &str, to: Option<&str>) -> APIService {
        let service = to.map(|name| json!({"namespace": TARGET_NAMESPACE, "name": name}));
        serde_json::from_value(json!({
            "metadata": {"name": format!("v1.{group}")},
            "spec": {"group": group, "version": "v1", "service": service,
                "groupPriorityMinimum": 1, "versionPriority": 1},
        }))
        .unwrap()
    }

    #[test]
    fn a_group_is_at_the_server_when_all_its_versions_are() {
        let ours = names::server(NAME);
        let (ours, group) = (Some(ours.as_str()), GROUPS[0]);
        let of = |services: &[APIService]| at_server(services, group);
        let other = service("other.example", None);
        assert_eq!(of(&[service(group, ours), other.clone()]), Some(true));
        assert_eq!(of(&[service(group, None), other.clone()]), Some(false));
        assert_eq!(of(&[service(group, None), service(group, ours)]), None);
        assert_eq!(of(&[service(group, Some("theirs"))]), None);
        assert_eq!(of(&[other]), None);
    }
}
