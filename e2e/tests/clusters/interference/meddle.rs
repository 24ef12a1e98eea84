//! Carries an interference out, and ends it.

use std::time::Duration;

use anyhow::Context as _;
use e2e::processes::Migration;
use e2e::witness::ObjectState;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinitionSpec, JSONSchemaProps,
};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::runtime::wait::await_condition;
use kube::runtime::wait::conditions::is_deleted;
use serde_json::json;
use testcluster::Signal;
use tokio_util::task::AbortOnDropHandle;

use crate::common::rights;
use crate::interference::case::{Case, Interference};
use crate::interference::ground::{Contents, Ground, KIND, SOON, reports};
use crate::interference::{API_SERVICE, PAUSE, applied};

/// Time for which a server or its database is away.
const AWAY: Duration = Duration::from_secs(6);
/// Time for which a database is slow. It stands still and runs by turns, each for one of the other
/// two.
const SLOW: Duration = Duration::from_secs(15);
const STOPPED: Duration = Duration::from_millis(400);
const RUNNING: Duration = Duration::from_millis(50);
/// The version that a CRD gains; the server has never heard of it.
const GAINED: &str = "v1beta9";
/// The property that a schema gains.
const PROPERTY: &str = "vendorNote";
/// The namespace that is deleted.
pub const DOOMED: &str = "doomed";
const TEAM: &str = "team-00";
const FILLER: &str = "database/filler";

/// An interference under way.
pub struct Meddling {
    case: Case,
    applying: Option<AbortOnDropHandle<()>>,
    /// uid of the namespace that was deleted.
    namespace: Option<String>,
}

impl Meddling {
    /// Does it; changes `expected` where it changes reports.
    pub async fn begin(
        ground: &mut Ground,
        case: Case,
        expected: &mut Contents,
    ) -> anyhow::Result<Self> {
        let mut this = Self {
            case,
            applying: None,
            namespace: None,
        };
        let (name, shipped) = ground.shipped_crd();
        match case.what {
            Interference::Reapplied => {
                for (name, spec) in ground.shipped() {
                    ground.apply(name, spec).await?;
                }
            }
            Interference::AppliedInALoop => {
                let shipped = ground.shipped();
                let shipped = shipped.map(|(name, spec)| (name.clone(), json!(spec.versions)));
                let applying = applied::apply_again_and_again(&ground.admin, shipped.collect());
                this.applying = Some(applying);
            }
            Interference::VersionGained => gain_version(ground, expected).await?,
            Interference::SchemaChanged => ground.apply(&name, &changed(shipped)).await?,
            Interference::CrdDeleted => ground.delete_crd(&name).await?,
            Interference::CrdReplaced => {
                ground.delete_crd(&name).await?;
                ground.install_crds().await?;
            }
            Interference::NamespaceDeleted => {
                this.namespace = Some(delete_namespace(ground).await?);
                expected.retain(|(_, (namespace, _)), _| namespace != DOOMED);
            }
            Interference::ServerKilled => ground.kill_server().await,
            Interference::ServerStopped | Interference::DatabaseSlow => {
                ground.signal_server(Signal::Stop);
            }
            Interference::DatabaseFull => fill(ground),
            Interference::ClockAhead | Interference::ClockBack => {
                ground.processes.set_clock(case.what.clock())?;
            }
            Interference::RightsAway => {
                rights::grant(&ground.admin, Some(&rights::NEEDED)).await?;
            }
            Interference::OwnerFlipped => {
                ground.reach(!case.back).await?;
            }
            Interference::ApiServiceDeleted => {
                let services: Api<APIService> = Api::all(ground.admin.clone());
                services
                    .delete(API_SERVICE, &DeleteParams::default())
                    .await?;
            }
        }
        if case.reports_go() {
            expected.retain(|(kind, _), _| *kind != KIND);
        }
        Ok(this)
    }

    /// Ends what lasts for some time only, once `migration` has met it.
    pub async fn end_soon(&self, ground: &mut Ground, migration: &Migration) {
        use Interference::{DatabaseFull, DatabaseSlow, ServerKilled, ServerStopped};
        // It may not meet it at all: then it ends.
        match self.case.what {
            ServerKilled | ServerStopped | DatabaseFull => {
                let _ = tokio::time::timeout(AWAY, migration.process.wait()).await;
            }
            DatabaseSlow => {
                tokio::select! {
                    () = slow(ground) => {}
                    _ = tokio::time::timeout(SLOW, migration.process.wait()) => {}
                }
            }
            _ => return,
        }
        self.undo(ground);
    }

    fn undo(&self, ground: &mut Ground) {
        match self.case.what {
            Interference::ServerKilled => ground.serve(),
            Interference::ServerStopped | Interference::DatabaseSlow => {
                ground.signal_server(Signal::Cont);
            }
            Interference::DatabaseFull => {
                let filler = ground.processes.file(FILLER);
                ground.shell(&["rm", &filler]);
            }
            _ => {}
        }
    }

    /// Ends what the migration has named.
    pub async fn end(&mut self, ground: &Ground) -> anyhow::Result<()> {
        self.applying = None;
        match self.case.what {
            Interference::CrdDeleted => ground.install_crds().await,
            Interference::RightsAway => rights::grant(&ground.admin, None).await,
            _ => Ok(()),
        }
    }

    /// Looks at what has to be so at the goal, beside the reports.
    pub async fn check(&self, ground: &Ground) -> anyhow::Result<()> {
        if let Some(uid) = &self.namespace {
            namespace_goes(ground, uid).await?;
        }
        if self.case.what == Interference::SchemaChanged {
            keeps_property(ground).await?;
        }
        Ok(())
    }
}

/// The server stands still most of the time.
async fn slow(ground: &Ground) {
    loop {
        tokio::time::sleep(RUNNING).await;
        ground.signal_server(Signal::Stop);
        tokio::time::sleep(STOPPED).await;
        ground.signal_server(Signal::Cont);
    }
}

/// The group's resource in the version that was gained.
fn gained_resource() -> ApiResource {
    let gvk = GroupVersionKind::gvk(KIND.group(), GAINED, KIND.kind());
    ApiResource::from_gvk_with_plural(&gvk, &KIND.plural())
}

/// The CRD gains a version, and somebody writes through it as soon as that is possible.
async fn gain_version(ground: &Ground, expected: &mut Contents) -> anyhow::Result<()> {
    let (name, shipped) = ground.shipped_crd();
    let mut spec = shipped;
    let storage = spec.versions.iter().find(|version| version.storage);
    let mut gained = storage.context("a storage version")?.clone();
    GAINED.clone_into(&mut gained.name);
    gained.storage = false;
    spec.versions.push(gained);
    ground.apply(&name, &spec).await?;
    let resource = gained_resource();
    let reports: Api<DynamicObject> = Api::namespaced_with(ground.other.clone(), TEAM, &resource);
    let mut report = ground.report(TEAM, "gained");
    report.types = Some(TypeMeta {
        api_version: resource.api_version,
        kind: resource.kind,
    });
    let written = created(&reports, &report).await?;
    note(&written, expected)?;
    // One that the server has as well.
    let stored = expected
        .keys()
        .find(|(kind, (ns, _))| *kind == KIND && ns == TEAM);
    let (_, (_, stored)) = stored.context("a report")?;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"through": GAINED}}}));
    let params = PatchParams::default();
    let written = reports.patch(stored, &params, &patch).await?;
    note(&written, expected)
}

/// From now on a report is expected to be as it was written through the version that was gained.
fn note(written: &DynamicObject, expected: &mut Contents) -> anyhow::Result<()> {
    let name = written.metadata.name.clone().context("a name")?;
    let mut written = serde_json::to_value(written)?;
    written["apiVersion"] = json!(format!("{}/{}", KIND.group(), KIND.version()));
    let key = (KIND, (TEAM.to_owned(), name));
    expected.insert(key, ObjectState::of(&written).content);
    Ok(())
}

/// Creates a report as soon as that is possible: a version that is new answers 404 and 429 first.
pub async fn created(
    reports: &Api<DynamicObject>,
    report: &DynamicObject,
) -> anyhow::Result<DynamicObject> {
    let mut last = String::new();
    let created = async {
        loop {
            match reports.create(&PostParams::default(), report).await {
                Ok(created) => return created,
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let created = tokio::time::timeout(SOON, created).await;
    created.with_context(|| format!("nothing can be created within {SOON:?}: {last}"))
}

/// As a vendor's upgrade does.
fn changed(mut spec: CustomResourceDefinitionSpec) -> CustomResourceDefinitionSpec {
    for version in &mut spec.versions {
        let schema = version.schema.as_mut();
        let schema = schema.and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(schema) = schema {
            let text = JSONSchemaProps {
                type_: Some("string".to_owned()),
                ..JSONSchemaProps::default()
            };
            let properties = schema.properties.get_or_insert_default();
            properties.insert(PROPERTY.to_owned(), text);
        }
        let columns = version.additional_printer_columns.get_or_insert_default();
        columns.push(CustomResourceColumnDefinition {
            name: "Note".to_owned(),
            type_: "string".to_owned(),
            json_path: format!(".{PROPERTY}"),
            ..CustomResourceColumnDefinition::default()
        });
    }
    spec
}

/// Whoever serves keeps the property that the schema has gained.
async fn keeps_property(ground: &Ground) -> anyhow::Result<()> {
    let reports = reports(&ground.other, "writer-00");
    let mut report = ground.report("writer-00", "noted");
    report.data[PROPERTY] = json!("kept");
    let kept = async {
        loop {
            let written = reports.create(&PostParams::default(), &report).await;
            if written.is_ok_and(|written| written.data[PROPERTY] == "kept") {
                return;
            }
            let _ = reports.delete("noted", &DeleteParams::default()).await;
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(SOON, kept)
        .await
        .with_context(|| format!("{PROPERTY} is not kept"))
}

/// Waits until the namespace is gone.
pub async fn namespace_goes(ground: &Ground, uid: &str) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(ground.admin.clone());
    let gone = await_condition(namespaces, DOOMED, is_deleted(uid));
    tokio::time::timeout(SOON, gone)
        .await
        .with_context(|| format!("the namespace is not gone within {SOON:?}"))??;
    Ok(())
}

/// Asks for the deletion of the namespace; gives its uid.
pub async fn delete_namespace(ground: &Ground) -> anyhow::Result<String> {
    let namespaces: Api<Namespace> = Api::all(ground.admin.clone());
    let uid = namespaces.get(DOOMED).await?.metadata.uid;
    namespaces.delete(DOOMED, &DeleteParams::default()).await?;
    uid.context("a namespace has a uid")
}

/// Leaves no room for the server's database.
fn fill(ground: &Ground) {
    let filler = ground.processes.file(FILLER);
    let fill = format!("! cat /dev/zero > {filler}");
    ground.shell(&["sh", "-c", &fill]);
}
