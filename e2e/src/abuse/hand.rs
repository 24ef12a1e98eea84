//! The hands that carry actions out, and take them back.

use std::time::Duration;

use crds::names::{LABEL_APP_COMPONENT, LABEL_OWNER, LABEL_TARGET};
use crds::v1alpha1::{ReportsServer, ReportsServerSpec, reasons};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::AbuseError;
use super::action::{Action, Component, Manner, Pick};
use super::child::{Child, Harm};
use super::did::Did;
use super::edit;
use super::told::Told;
use crate::request::RequestError;
use crate::takeover::{NAME, OPERATOR_NAMESPACE, TARGET_NAMESPACE, Takeover};

/// Field manager of the hands.
const MANAGER: &str = "abuse";
/// Longest time for a server to become ready, or to be gone.
const LIMIT: Duration = Duration::from_mins(5);
/// Longest time for a suspension to be told.
const SUSPENDED: Duration = Duration::from_secs(15);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// Most tries of a change that others get ahead of.
const TRIES: usize = 10;

/// A child as it was before something was done to it.
pub(super) struct Original {
    pub(super) child: Child,
    pub(super) object: DynamicObject,
    /// Absent when it was deleted. What is there instead is the operator's.
    pub(super) harm: Option<Harm>,
}

/// The hands. See the module.
pub struct Hand<'a> {
    line: &'a Takeover,
    spec: Option<ReportsServerSpec>,
    pub(super) originals: Vec<Original>,
    closed: bool,
}

/// Brings a `ReportsServer` that was applied to where abuse begins: everything optional is there, and
/// etcd has no copies.
///
/// # Errors
/// If it does not get there.
pub async fn prepare(line: &Takeover) -> Result<(), AbuseError> {
    line.follow_to_ready(LIMIT).await?;
    line.patch_spec(edit::optional()).await?;
    Ok(line.prune(LIMIT).await?)
}

impl<'a> Hand<'a> {
    /// Returns hands that have done nothing.
    #[must_use]
    pub fn new(line: &'a Takeover) -> Self {
        Self {
            line,
            spec: None,
            originals: Vec::new(),
            closed: false,
        }
    }

    /// Carries an action out.
    ///
    /// # Errors
    /// If the kube-apiserver does not answer.
    pub async fn act(&mut self, action: &Action) -> Result<Did, AbuseError> {
        match action {
            Action::Valid(edit) => self.edit(&edit.patch()).await,
            Action::Invalid(edit) => self.edit(&edit.patch()).await,
            Action::Harm(pick, harm) => self.harm(*pick, *harm).await,
            Action::Delete(picks) => self.delete(picks).await,
            Action::Restart(component, manner) => self.restart(*component, *manner).await,
            Action::ScaledAway(child) => Box::pin(self.scale_away(*child)).await,
            Action::NamespaceClosed => {
                self.closed = true;
                self.label(None).await
            }
            Action::NamespaceDeleted => {
                let params = DeleteParams::default();
                let deleted = self.namespaces().delete(TARGET_NAMESPACE, &params).await;
                Did::of(deleted, "delete the target namespace")
            }
            Action::MadeAgain => Box::pin(self.make_again()).await,
        }
    }

    /// Forgets what was done: it needs not be taken back.
    pub fn forget(&mut self) {
        self.spec = None;
        self.originals.clear();
        self.closed = false;
    }

    /// Puts everything back as it was before the last action, as a person does who was told to.
    ///
    /// # Errors
    /// If the kube-apiserver does not answer.
    pub async fn take_back(&mut self) -> Result<(), AbuseError> {
        if std::mem::take(&mut self.closed) {
            self.label(Some("true")).await?;
        }
        for original in std::mem::take(&mut self.originals) {
            let child = original.child;
            if let Did::Refused(why) = self.restore(original).await? {
                self.line
                    .say(&format!("  not put back, {}: {why}", child.kind()));
            }
        }
        match self.spec.take() {
            Some(spec) => self.reset(spec).await,
            None => Ok(()),
        }
    }

    fn servers(&self) -> Api<ReportsServer> {
        Api::all(self.line.client.clone())
    }

    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.line.client.clone())
    }

    pub(super) fn children(&self, child: Child, namespace: Option<&str>) -> Api<DynamicObject> {
        let (client, resource) = (self.line.client.clone(), child.resource());
        match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        }
    }

    async fn edit(&mut self, members: &Value) -> Result<Did, AbuseError> {
        let servers = self.servers();
        let before = servers.get(NAME).await;
        let before = before.map_err(RequestError::of("read the ReportsServer"))?;
        let patch = Patch::Merge(json!({"spec": members}));
        let patched = servers.patch(NAME, &params(), &patch).await;
        let did = Did::of(patched, "change the ReportsServer")?;
        if did == Did::Done {
            self.spec = Some(before.spec);
        }
        Ok(did)
    }

    /// Sets the whole specification.
    async fn reset(&self, spec: ReportsServerSpec) -> Result<(), AbuseError> {
        let servers = self.servers();
        for _ in 0..TRIES {
            let server = servers.get(NAME).await;
            let mut server = server.map_err(RequestError::of("read the ReportsServer"))?;
            server.spec = spec.clone();
            let replaced = servers.replace(NAME, &put(), &server).await;
            match Did::of(replaced, "change the ReportsServer")? {
                Did::Refused(why) => self.line.say(&format!("  tried again: {why}")),
                _ => return Ok(()),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Returns a child, if there is one of its kind.
    async fn pick(&self, (child, number): Pick) -> Result<Option<DynamicObject>, AbuseError> {
        let labelled = ListParams::default().labels(&format!("{LABEL_OWNER}={NAME}"));
        let all = ListParams::default();
        // Those of the report APIs have no label.
        let by_service = child == Child::ApiService;
        let found = self.children(child, None);
        let found = found.list(if by_service { &all } else { &labelled }).await;
        let mut found = found.map_err(RequestError::of("list children"))?.items;
        if by_service {
            found.retain(|object| object.data["spec"]["service"]["namespace"] == TARGET_NAMESPACE);
        }
        found.sort_by_key(|object| (object.namespace(), object.name_any()));
        if found.is_empty() {
            return Ok(None);
        }
        let place = number % found.len();
        Ok(Some(found.swap_remove(place)))
    }

    async fn harm(&mut self, pick: Pick, harm: Harm) -> Result<Did, AbuseError> {
        let Some(object) = self.pick(pick).await? else {
            return Ok(Did::Nothing);
        };
        let child = pick.0;
        let name = object.name_any();
        self.line.say(&format!("  {} {name}", child.kind()));
        let patch = Patch::Merge(child.harmed(harm, &json!(object)));
        let children = self.children(child, object.namespace().as_deref());
        let patched = children.patch(&name, &params(), &patch).await;
        let did = Did::of(patched, "change a child")?;
        if did == Did::Done {
            self.originals.push(Original {
                child,
                object,
                harm: Some(harm),
            });
        }
        Ok(did)
    }

    async fn delete(&mut self, picks: &[Pick]) -> Result<Did, AbuseError> {
        let mut found = Vec::new();
        for pick in picks {
            let object = self.pick(*pick).await?;
            found.extend(object.map(|object| (pick.0, object)));
        }
        let mut did = Did::Nothing;
        for (child, object) in found {
            let name = object.name_any();
            self.line.say(&format!("  {} {name}", child.kind()));
            let children = self.children(child, object.namespace().as_deref());
            let deleted = children.delete(&name, &DeleteParams::default()).await;
            if Did::of(deleted, "delete a child")? == Did::Done {
                self.originals.push(Original {
                    child,
                    object,
                    harm: None,
                });
                did = Did::Done;
            }
        }
        Ok(did)
    }

    async fn restart(&self, component: Component, manner: Manner) -> Result<Did, AbuseError> {
        let namespace = if component == Component::Operator {
            OPERATOR_NAMESPACE
        } else {
            TARGET_NAMESPACE
        };
        let name = component.name();
        let pods: Api<Pod> = Api::namespaced(self.line.client.clone(), namespace);
        let labelled = ListParams::default().labels(&format!("{LABEL_APP_COMPONENT}={name}"));
        let found = pods.list(&labelled).await;
        let mut found = found.map_err(RequestError::of("list pods"))?.items;
        found.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        if manner != Manner::AllDeleted {
            // Of the operators, the one that leads; where that cannot be read now, any.
            let leader = self.line.leader().await.unwrap_or_default();
            found.sort_by_key(|pod| leader.is_none() || pod.metadata.name != leader);
            found.truncate(1);
        }
        let mut did = Did::Nothing;
        for pod in found.iter().map(ResourceExt::name_any) {
            if manner == Manner::Killed {
                let cluster = &self.line.cluster;
                let killed = cluster.kill_container(namespace, &pod, name).await;
                // One that is being started again has no process to kill.
                did = killed.map_or(Did::Nothing, |()| Did::Done);
            } else {
                let deleted = pods.delete(&pod, &DeleteParams::default()).await;
                did = Did::of(deleted, "delete a pod")?;
            }
        }
        Ok(did)
    }

    async fn scale_away(&mut self, child: Child) -> Result<Did, AbuseError> {
        let did = self.edit(&json!({"suspend": true})).await?;
        if did != Did::Done {
            return Ok(did);
        }
        let suspended = async {
            while !self.is_suspended().await? {
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, AbuseError>(())
        };
        match tokio::time::timeout(SUSPENDED, suspended).await {
            Ok(told) => told?,
            Err(_) => return Ok(Did::Stuck("the suspension is not told".to_owned())),
        }
        self.harm((child, 0), Harm::Emptied).await
    }

    async fn is_suspended(&self) -> Result<bool, AbuseError> {
        let server = self.servers().get(NAME).await;
        let told = Told::of(&server.map_err(RequestError::of("read the ReportsServer"))?);
        let ready = told.get(crds::v1alpha1::conditions::READY);
        Ok(told.current && ready.is_some_and(|said| said.reason == reasons::SUSPENDED))
    }

    /// Sets the label that opens the target namespace, or takes it away.
    async fn label(&self, value: Option<&str>) -> Result<Did, AbuseError> {
        let patch = Patch::Merge(json!({"metadata": {"labels": {LABEL_TARGET: value}}}));
        let namespaces = self.namespaces();
        let patched = namespaces.patch(TARGET_NAMESPACE, &params(), &patch).await;
        Did::of(patched, "label the target namespace")
    }

    async fn make_again(&self) -> Result<Did, AbuseError> {
        let servers = self.servers();
        let server = servers.get(NAME).await;
        let server = server.map_err(RequestError::of("read the ReportsServer"))?;
        let deleted = servers.delete(NAME, &DeleteParams::default()).await;
        let did = Did::of(deleted, "delete the ReportsServer")?;
        if did != Did::Done {
            return Ok(did);
        }
        let uid = server.uid().unwrap_or_default();
        let gone = await_condition(servers, NAME, conditions::is_deleted(&uid));
        if tokio::time::timeout(LIMIT, gone).await.is_err() {
            return Ok(Did::Stuck(format!("not gone within {LIMIT:?}")));
        }
        self.line.apply().await?;
        let prepared = Box::pin(prepare(self.line)).await;
        Ok(prepared.map_or_else(|error| Did::Stuck(error.to_string()), |()| Did::Done))
    }

    /// Makes a child as it was.
    async fn restore(&self, original: Original) -> Result<Did, AbuseError> {
        let Original {
            child,
            object,
            harm,
        } = original;
        let name = object.name_any();
        let children = self.children(child, object.namespace().as_deref());
        let mut object = child.bare(object);
        let mut did = Did::Nothing;
        for _ in 0..TRIES {
            let found = children.get_opt(&name).await;
            let found = found.map_err(RequestError::of("read a child"))?;
            if harm.is_none() && found.is_some() {
                return Ok(Did::Nothing);
            }
            did = if let Some(found) = found {
                object.metadata.resource_version = found.resource_version();
                let replaced = children.replace(&name, &put(), &object).await;
                Did::of(replaced, "put a child back")?
            } else {
                object.metadata.resource_version = None;
                let created = children.create(&put(), &object).await;
                Did::of(created, "make a child again")?
            };
            if did == Did::Done {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(did)
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn put() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}
