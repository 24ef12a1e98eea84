//! The state that a `Cluster` shows, and the connection that follows from it.

use crds::v1alpha1::reasons;
use database::parameters::key;
use kube::Resource;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{CRD, DATABASE, Plan, Reached};
use crate::database::files::Problem;
use crate::database::place::{Connection, Source};

/// `CloudNativePG`'s own name for a database without a given name.
const UNNAMED: &str = "app";

/// The target primary of a failover for which none is chosen yet.
const NOT_CHOSEN: &str = "pending";

/// The relevant part of a `Cluster`. Its phase is an English sentence, which is shown and never
/// compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Secret with user and password that the owner of the cluster has given.
    pub own_secret: Option<String>,
    /// Name of the database that was made at the beginning.
    pub dbname: Option<String>,
    /// Secret with the CA of the servers' certificates.
    pub ca_secret: Option<String>,
    /// The instance that takes writes.
    pub current_primary: Option<String>,
    /// The instance that is going to take writes.
    pub target_primary: Option<String>,
    /// Instances that are ready.
    pub ready_instances: i64,
    /// The phase, in words.
    pub phase: Option<String>,
    /// The reason for the phase, in words.
    pub phase_reason: Option<String>,
    /// True when it is being deleted.
    pub deleting: bool,
}

impl Observed {
    /// Reads an object.
    #[must_use]
    pub fn of(object: &DynamicObject) -> Self {
        let text = |path: &str| {
            let found = object.data.pointer(path).and_then(Value::as_str);
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let bootstrap = |field: &str| {
            let methods = ["initdb", "recovery", "pg_basebackup"];
            methods
                .iter()
                .find_map(|method| text(&format!("/spec/bootstrap/{method}/{field}")))
        };
        let ready = object.data.pointer("/status/readyInstances");
        Self {
            own_secret: bootstrap("secret/name"),
            dbname: bootstrap("database"),
            ca_secret: text("/status/certificates/serverCASecret")
                .or_else(|| text("/spec/certificates/serverCASecret")),
            current_primary: text("/status/currentPrimary"),
            target_primary: text("/status/targetPrimary"),
            ready_instances: ready.and_then(Value::as_i64).unwrap_or_default(),
            phase: text("/status/phase"),
            phase_reason: text("/status/phaseReason"),
            deleting: object.meta().deletion_timestamp.is_some(),
        }
    }

    fn words(&self) -> String {
        match (&self.phase, &self.phase_reason) {
            (Some(phase), Some(reason)) => format!("{phase}: {reason}"),
            (Some(words), None) | (None, Some(words)) => words.clone(),
            (None, None) => "nothing is reported yet".to_owned(),
        }
    }
}

/// Returns the way to the database without `CloudNativePG` in the cluster.
pub(super) fn without_crd(namespace: &str, plan: &Plan) -> Reached {
    Reached {
        connection: connection(namespace, plan, &Observed::default()),
        primary: None,
        problem: Some(Problem::new(
            reasons::CLOUD_NATIVE_PG_MISSING,
            format!(
                "there is no CRD {CRD}: install CloudNativePG, or set spec.database.mode to \
                 Managed or External"
            ),
        )),
    }
}

/// Returns the way to the database of a `Cluster`, or of a missing one.
pub(super) fn reached(namespace: &str, plan: &Plan, observed: Option<&Observed>) -> Reached {
    let problem = problem(namespace, plan, observed);
    let observed = observed.cloned().unwrap_or_default();
    Reached {
        connection: connection(namespace, plan, &observed),
        primary: observed.current_primary,
        problem,
    }
}

fn problem(namespace: &str, plan: &Plan, observed: Option<&Observed>) -> Option<Problem> {
    let place = format!("Cluster {namespace}/{}", plan.name);
    let Some(observed) = observed else {
        if plan.create.is_some() {
            let message = format!("{place} is being created");
            return Some(Problem::new(reasons::CLUSTER_NOT_READY, message));
        }
        let message =
            format!("{place} is missing: create it, or set spec.database.cloudNativePG.create");
        return Some(Problem::new(reasons::CLUSTER_MISSING, message));
    };
    let words = observed.words();
    if observed.deleting {
        let message = format!("{place} is being deleted ({words})");
        return Some(Problem::new(reasons::CLUSTER_NOT_READY, message));
    }
    let Some(current) = &observed.current_primary else {
        let message = format!("{place} has no primary yet ({words})");
        return Some(Problem::new(reasons::CLUSTER_NOT_READY, message));
    };
    if let Some(target) = observed.target_primary.as_ref().filter(|t| *t != current) {
        let message = match target.as_str() {
            NOT_CHOSEN => format!("{place} is failing over from {current} ({words})"),
            target => format!("{place} is failing over from {current} to {target} ({words})"),
        };
        return Some(Problem::new(reasons::FAILING_OVER, message));
    }
    if observed.ready_instances == 0 {
        let message = format!("{place} has no instance that is ready ({words})");
        return Some(Problem::new(reasons::CLUSTER_NOT_READY, message));
    }
    None
}

/// Returns the connection through the Service that leads to the primary, by the name in the
/// servers' certificate.
fn connection(namespace: &str, plan: &Plan, observed: &Observed) -> Connection {
    let name = &plan.name;
    let mut parameters = vec![
        (key::HOST, format!("{name}-rw.{namespace}.svc")),
        (key::PORT, "5432".to_owned()),
        (key::SSLMODE, "verify-full".to_owned()),
    ];
    let mut items = vec![key::USERNAME, key::PASSWORD];
    // A Secret that was given holds no more than these two.
    match (&observed.own_secret, &plan.create) {
        (Some(_), None) => {
            let dbname = observed.dbname.as_deref().unwrap_or(UNNAMED);
            parameters.push((key::DBNAME, dbname.to_owned()));
        }
        (None, None) => items.push(key::DBNAME),
        (_, Some(_)) => parameters.push((key::DBNAME, DATABASE.to_owned())),
    }
    let secret = |name: String, items: Vec<&'static str>| Source::Secret {
        name,
        items: items.into_iter().map(|key| (key.to_owned(), key)).collect(),
        optional: false,
    };
    let given = |given: &Option<String>, suffix: &str| {
        given.clone().unwrap_or_else(|| format!("{name}-{suffix}"))
    };
    Connection {
        parameters: parameters.into_iter().collect(),
        sources: vec![
            secret(given(&observed.own_secret, "app"), items),
            secret(given(&observed.ca_secret, "ca"), vec![key::CA]),
        ],
    }
}
