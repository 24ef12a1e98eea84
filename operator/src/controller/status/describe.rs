//! The parts of the status beside the conditions.

use crds::v1alpha1::ReportsServerStatus;
use crds::v1alpha1::spec::TlsMode;
use crds::v1alpha1::status::{ServerStatus, TlsPhase, TlsStatus, VersionsStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::core::Selector;

use super::conditions::Conditions;
use super::database;
use crate::controller::apply::Applied;
use crate::controller::validate::Validated;
use crate::controller::workload;
use crate::database::known::Known;
use crate::{certs, images};

/// The parts of the status that explain the conditions.
pub(super) fn describe(
    status: &mut ReportsServerStatus,
    conditions: &Conditions,
    spec: &Validated,
    applied: &Applied,
    certs: &certs::Outcome,
    database: Option<&Known>,
) {
    let deployment = applied.deployment.status.clone().unwrap_or_default();
    let ready = workload::is_serving(&applied.deployment);
    let version = images::version(&spec.pod.image);
    status.versions = Some(VersionsStatus {
        operator: Some(env!("CARGO_PKG_VERSION").to_owned()),
        server: (ready && !version.is_empty()).then(|| version.to_owned()),
        schema: database.and_then(|known| known.schema_version.clone()),
        postgres: database
            .and_then(|known| known.version.clone())
            .or_else(|| postgres_version(spec)),
    });
    status.server = Some(ServerStatus {
        replicas: Some(deployment.replicas.unwrap_or(0)),
        ready_replicas: Some(deployment.ready_replicas.unwrap_or(0)),
        selector: Some(selector(spec)),
        image: Some(spec.pod.image.clone()),
    });
    let before = status.database.take();
    status.database = Some(database::status(
        before, conditions, spec, applied, database,
    ));
    status.tls = Some(tls(spec, certs));
}

pub(super) fn tls(spec: &Validated, certs: &certs::Outcome) -> TlsStatus {
    let phase = match certs.phase {
        certs::Phase::Stable => TlsPhase::Stable,
        certs::Phase::Overlap => TlsPhase::Overlap,
        certs::Phase::Retiring => TlsPhase::Retiring,
    };
    let issuer = match &certs.material.trusted {
        Some(_) => spec.origin.mode(),
        None => TlsMode::Operator,
    };
    let whole = |time: Timestamp| Timestamp::from_second(time.as_second()).map(Time).ok();
    TlsStatus {
        issuer: Some(issuer),
        ca_fingerprints: certs.material.ca_fingerprints(),
        not_after: certs.material.leaf_not_after().and_then(whole),
        next_rotation: whole(certs.next),
        phase: Some(phase),
    }
}

/// Returns the version that the image of a managed database names.
fn postgres_version(spec: &Validated) -> Option<String> {
    let image = spec.managed()?.image();
    let version = images::version(&image);
    (!version.is_empty()).then(|| version.chars().take(64).collect())
}

fn selector(spec: &Validated) -> String {
    let labels: Selector = spec.names.selector().into_iter().collect();
    labels.to_string()
}
