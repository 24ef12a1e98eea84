//! The whole of the second step: everything that is decided, with everything that was read.

use crds::v1alpha1::ReportsServer;
use kube::Resource;

use super::postgres::Route;
use super::refusal::Refusal;
use super::specification::specification;
use super::validated::Validated;
use super::{allowed, certificates, moving};
use crate::controller::found::Dereferenced;

/// A specification that is not carried out.
#[derive(Clone, Debug, PartialEq)]
pub struct Refused {
    /// The reason.
    pub refusal: Refusal,
    /// The specification, where it is valid and only the content of the namespace stands against it.
    pub spec: Option<Box<Validated>>,
}

/// Returns what is to be done of the specification of `object`: while reports move from one
/// PostgreSQL to another, of the one in its place. Of an object that is being deleted, the database
/// stays of the major version that it has.
///
/// # Errors
/// If the specification is not valid, or the namespace holds what does not fit.
pub fn validate(object: &ReportsServer, found: &Dereferenced) -> Result<Validated, Refused> {
    let refused = |refusal| Refused {
        refusal,
        spec: None,
    };
    let in_force = found.in_force(object);
    let (asked, object) = (object, &*in_force);
    let spec = specification(object, found).map_err(refused)?;
    let leaves = object.meta().deletion_timestamp.is_some();
    let spec = if leaves { spec.staying() } else { spec };
    let spec = certificates::certified(spec, found);
    let allowed = allowed::check(&spec, found, leaves);
    let decided = allowed.and_then(|()| decide(object, spec.clone(), found));
    let decided = decided.map_err(|refusal| explained(refusal, found));
    let decided = decided.and_then(|spec| moving::decide(asked, spec, found));
    decided.map_err(|refusal| {
        let spec = moving::kept(asked, reached(object, spec, found), found);
        let spec = Some(Box::new(spec));
        Refused { refusal, spec }
    })
}

/// Returns the refusal of a specification that is not the one that is asked for: the reports have
/// moved by it, and it is carried out first.
fn explained(refusal: Refusal, found: &Dereferenced) -> Refusal {
    if found.between.history().is_none() || found.between.in_force.is_none() {
        return refusal;
    }
    Refusal {
        message: format!(
            "the specification by which the reports have moved, and which spec.database no longer \
             names: {}",
            refusal.message
        ),
        ..refusal
    }
}

fn decide(
    object: &ReportsServer,
    spec: Validated,
    found: &Dereferenced,
) -> Result<Validated, Refusal> {
    certificates::beginning(&spec, found)?;
    let inside = &found.inside;
    let spec = match &inside.managed {
        Some(known) => spec.reconciled_with(known.clone())?,
        None => spec,
    };
    let spec = match &inside.embedded {
        Some(known) => spec.embedded_reconciled_with(known.clone())?,
        None => spec,
    };
    Ok(reached(object, spec, found))
}

/// Returns the specification with what is known about its PostgreSQL, where it has one and that could
/// be read.
fn reached(object: &ReportsServer, spec: Validated, found: &Dereferenced) -> Validated {
    let inside = &found.inside;
    if inside.is_way_unread {
        return spec;
    }
    match Route::of(object, &spec, inside.cloud_native_pg.as_ref()) {
        Some(route) => spec.reached_by(route, inside, found.between.is_ordered()),
        None => spec,
    }
}

#[cfg(test)]
mod tests {
    use crds::v1alpha1::reasons;
    use serde_json::json;

    use super::*;
    use crate::controller::fixtures::{object, read};
    use crate::controller::found::Inside;
    use crate::database::cloudnativepg;
    use crate::database::managed::Known;
    use crate::database::managed::upgrade::Volume;

    fn holding(version: u32) -> Dereferenced {
        let volume = Volume {
            name: "simple-postgres-data".into(),
            version: Some(version),
            ..Volume::default()
        };
        let managed = Known {
            volumes: vec![volume],
            ..Known::default()
        };
        Dereferenced {
            inside: Inside {
                managed: Some(managed),
                ..Inside::default()
            },
            ..read()
        }
    }

    fn managed(version: &str) -> ReportsServer {
        object(json!({"database": {"mode": "Managed", "managed": {"version": version}}}))
    }

    #[test]
    fn a_specification_that_only_the_namespace_stands_against_is_given_back() {
        let refused = validate(&managed("15"), &holding(17)).unwrap_err();
        assert_eq!(refused.refusal.reason, reasons::NOT_SUPPORTED);
        assert_eq!(refused.spec.unwrap().names.instance(), "simple");
        let refused = validate(&managed("9"), &holding(17)).unwrap_err();
        assert_eq!(refused.spec, None);
    }

    #[test]
    fn an_upgrade_is_not_begun_for_an_object_that_is_being_deleted() {
        let mut object = managed("17");
        let begun = |object: &ReportsServer| {
            let spec = validate(object, &holding(15)).unwrap();
            spec.managed().unwrap().upgrade.is_some()
        };
        assert!(begun(&object));
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::now());
        object.metadata.deletion_timestamp = Some(now);
        assert!(!begun(&object));
    }

    #[test]
    fn a_cluster_is_made_as_soon_as_there_is_the_crd_of_it() {
        let object = object(json!({"database": {"mode": "CloudNativePG",
            "cloudNativePG": {"create": {}}}}));
        for crd in [false, true] {
            let found = cloudnativepg::Found { crd, cluster: None };
            let inside = Inside {
                cloud_native_pg: Some(found),
                ..Inside::default()
            };
            let spec = validate(&object, &Dereferenced { inside, ..read() }).unwrap();
            let reached = spec.postgres.unwrap();
            assert_eq!(reached.cluster.is_some(), crd);
            let reason = if crd {
                reasons::CLUSTER_NOT_READY
            } else {
                reasons::CLOUD_NATIVE_PG_MISSING
            };
            assert_eq!(reached.known().reason(), reason);
            assert_eq!(reached.target, None);
        }
    }
}
