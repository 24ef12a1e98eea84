//! The damage that others have done to an APIService that leads clients to our server.

use crds::names::{ANNOTATION_CLAIMED_BY, FIELD_MANAGER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt;

use super::{Holder, ServiceRef, TAKEN_FROM, holder, is_outdated};

/// A change by somebody else, by hand or by a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The server cannot be reached or verified as it should be.
    Route,
    /// It leads to another Service, named `namespace/name`.
    LedAway(String),
}

impl Damage {
    /// Returns what is wrong with an APIService that `owner` has taken over for `service`; nothing
    /// where it is as it should be, or only the operator has yet to write what is wanted by now. A
    /// server that the group was taken over from may have taken writes of its own: an APIService that
    /// leads there again is not ours to lead back.
    #[must_use]
    pub fn of(
        current: &APIService,
        service: &ServiceRef,
        ca_bundle: &[u8],
        owner: &str,
    ) -> Option<Self> {
        if ca_bundle.is_empty() {
            // Nothing is known yet of how the server is verified.
            return None;
        }
        let annotation = |key: &str| current.annotations().get(key).map(String::as_str);
        match holder(Some(current), service) {
            Holder::Ours if is_outdated(current, service, ca_bundle) => {
                let changed = meddler(current, service, ca_bundle).is_some();
                (changed || is_unverified(current)).then_some(Self::Route)
            }
            Holder::Foreign(other)
                if annotation(ANNOTATION_CLAIMED_BY) == Some(owner)
                    && annotation(TAKEN_FROM) != Some(other.as_str()) =>
            {
                Some(Self::LedAway(other))
            }
            _ => None,
        }
    }
}

/// Returns what is told of an APIService that was put back, which was `before`: who had changed what of
/// it; nothing where nobody else had.
#[must_use]
pub fn restored(
    before: &APIService,
    service: &ServiceRef,
    ca_bundle: &[u8],
    owner: &str,
) -> Option<String> {
    let what = match Damage::of(before, service, ca_bundle, owner)? {
        Damage::Route => "CA bundle, port or TLS setting".to_owned(),
        Damage::LedAway(other) => format!("Service, to {other}"),
    };
    let who = meddler(before, service, ca_bundle).map_or_else(
        || "somebody (managedFields name nobody)".to_owned(),
        |manager| format!("{manager:?}"),
    );
    let group = before.spec.as_ref().and_then(|spec| spec.group.as_deref());
    let (group, name) = (group.unwrap_or_default(), before.name_any());
    Some(format!(
        "{group}: {who} changed the {what} of APIService {name}; it leads to the server again"
    ))
}

/// Returns whether the kube-apiserver cannot verify the server, which the operator never asks for.
fn is_unverified(current: &APIService) -> bool {
    current.spec.as_ref().is_some_and(|spec| {
        spec.insecure_skip_tls_verify == Some(true)
            || spec.ca_bundle.as_ref().is_none_or(|b| b.0.is_empty())
    })
}

/// Returns the field manager that has written what is wrong with the route of an APIService, since the
/// operator wrote it. A field that was only taken away has no manager any more.
fn meddler<'a>(current: &'a APIService, service: &ServiceRef, ca_bundle: &[u8]) -> Option<&'a str> {
    let wrong = wrong(current, service, ca_bundle);
    let entries = current.managed_fields().iter();
    let (mut ours, mut newest) = (None::<Timestamp>, None::<&ManagedFieldsEntry>);
    for entry in entries.filter(|entry| owns_any(entry, &wrong)) {
        if entry.manager.as_deref() == Some(FIELD_MANAGER) {
            ours = ours.max(time(entry));
        } else if newest.is_none_or(|newest| time(newest) <= time(entry)) {
            newest = Some(entry);
        }
    }
    newest
        .filter(|newest| time(newest) >= ours)
        .and_then(|newest| newest.manager.as_deref())
}

/// Returns the parts of the specification that are not as they should be, as managed fields name them.
fn wrong(current: &APIService, service: &ServiceRef, ca_bundle: &[u8]) -> Vec<&'static str> {
    let Some(spec) = &current.spec else {
        return Vec::new();
    };
    let target = spec.service.as_ref();
    let leads = target.is_some_and(|target| {
        target.namespace.as_deref() == Some(service.namespace.as_str())
            && target.name.as_deref() == Some(service.name.as_str())
            && target.port == Some(i32::from(service.port))
    });
    let bundle = spec.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
    let parts = [
        (!leads, "f:service"),
        (bundle != Some(ca_bundle), "f:caBundle"),
        (
            spec.insecure_skip_tls_verify == Some(true),
            "f:insecureSkipTLSVerify",
        ),
    ];
    let wrong = parts.into_iter().filter(|(wrong, _)| *wrong);
    wrong.map(|(_, part)| part).collect()
}

fn time(entry: &ManagedFieldsEntry) -> Option<Timestamp> {
    entry.time.as_ref().map(|time| time.0)
}

fn owns_any(entry: &ManagedFieldsEntry, parts: &[&str]) -> bool {
    let fields = entry.fields_v1.as_ref();
    let spec = fields.and_then(|fields| fields.0.get("f:spec"));
    spec.is_some_and(|spec| parts.iter().any(|part| spec.get(*part).is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::apiservice::refresh_patch;

    fn ours() -> ServiceRef {
        ServiceRef {
            namespace: "target".into(),
            name: "simple-server".into(),
            port: 443,
        }
    }

    fn entry(manager: &str, second: u32, parts: &[&str]) -> Value {
        let fields: serde_json::Map<String, Value> = parts
            .iter()
            .map(|part| (format!("f:{part}"), json!({})))
            .collect();
        json!({"manager": manager, "operation": "Update", "fieldsType": "FieldsV1",
            "apiVersion": "apiregistration.k8s.io/v1", "time": format!("2026-01-01T00:00:{second:02}Z"),
            "fieldsV1": {"f:spec": fields}})
    }

    /// One that was taken over; then `spec` is changed by those of `entries`.
    fn changed(spec: &Value, entries: &[Value]) -> APIService {
        let mut object = json!({
            "metadata": {"name": "v1.a.example", "resourceVersion": "7",
                "annotations": {ANNOTATION_CLAIMED_BY: "simple"},
                "managedFields": [entry("kube-apiserver", 0, &["group"]),
                    entry(FIELD_MANAGER, 10, &["caBundle", "service"])]},
            "spec": {"group": "a.example", "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1, "caBundle": "UEVN",
                "service": {"namespace": "target", "name": "simple-server", "port": 443}}});
        if let (Some(all), Some(changes)) = (object["spec"].as_object_mut(), spec.as_object()) {
            all.extend(changes.clone());
        }
        if let Some(fields) = object["metadata"]["managedFields"].as_array_mut() {
            fields.extend(entries.iter().cloned());
        }
        serde_json::from_value(object).unwrap()
    }

    fn damage(object: &APIService) -> Option<Damage> {
        Damage::of(object, &ours(), b"PEM", "simple")
    }

    fn by(object: &APIService) -> Option<&str> {
        meddler(object, &ours(), b"PEM")
    }

    #[test]
    fn what_others_have_changed_is_told_from_what_the_operator_has_yet_to_write() {
        let intact = changed(&json!({}), &[]);
        assert_eq!(damage(&intact), None);
        assert_eq!(Damage::of(&intact, &ours(), b"", "simple"), None);
        // Certificates were rotated.
        let rotated = changed(&json!({"caBundle": "b3RoZXI="}), &[]);
        assert_eq!(damage(&rotated), None);
        let edit = [entry("kubectl-edit", 20, &["caBundle"])];
        let edited = changed(&json!({"caBundle": "b3RoZXI="}), &edit);
        assert_eq!(damage(&edited), Some(Damage::Route));
        assert_eq!(by(&edited), Some("kubectl-edit"));
        let port =
            json!({"service": {"namespace": "target", "name": "simple-server", "port": 8443}});
        let moved = changed(&port, &[entry("helm", 20, &["service"])]);
        assert_eq!(damage(&moved), Some(Damage::Route));
        // Who has only written the port is no reason for another CA bundle.
        let port = [entry("helm", 20, &["service"])];
        assert_eq!(
            damage(&changed(&json!({"caBundle": "b3RoZXI="}), &port)),
            None
        );
        // Whoever made it before the operator took it over has done nothing to it since.
        let before = [entry("helm", 5, &["caBundle"])];
        let rotated = changed(&json!({"caBundle": "b3RoZXI="}), &before);
        assert_eq!((damage(&rotated), by(&rotated)), (None, None));
    }

    #[test]
    fn what_was_taken_away_has_no_manager_and_is_damage_all_the_same() {
        for spec in [
            json!({"caBundle": null}),
            json!({"caBundle": null, "insecureSkipTLSVerify": true}),
        ] {
            let object = changed(&spec, &[]);
            assert_eq!((damage(&object), by(&object)), (Some(Damage::Route), None));
            let mut value = serde_json::to_value(&object).unwrap();
            let patch = refresh_patch(&object, &ours(), b"PEM");
            json_patch::patch(&mut value, &patch).unwrap();
            let mended: APIService = serde_json::from_value(value).unwrap();
            assert!(!is_outdated(&mended, &ours(), b"PEM"), "{spec}");
        }
    }

    #[test]
    fn the_manager_is_named_where_it_is_known() {
        let note = |object: &APIService| restored(object, &ours(), b"PEM", "simple");
        let by_hand = [entry("kubectl-edit", 20, &["caBundle"])];
        let bundle = json!({"caBundle": "b3RoZXI="});
        let told = "a.example: \"kubectl-edit\" changed the CA bundle, port or TLS setting of APIService \
                    v1.a.example; it leads to the server again";
        assert_eq!(note(&changed(&bundle, &by_hand)).as_deref(), Some(told));
        let other = json!({"service": {"namespace": "x", "name": "y", "port": 443}});
        let away = note(&changed(&other, &[])).unwrap();
        let told = "a.example: somebody (managedFields name nobody) changed the Service, to x/y of APIService";
        assert!(away.starts_with(told), "{away}");
        // What the operator had yet to write itself.
        assert_eq!(note(&changed(&bundle, &[])), None);
    }

    #[test]
    fn only_what_the_operator_has_taken_over_is_led_back() {
        let other = json!({"service": {"namespace": "x", "name": "y", "port": 443}});
        let away = changed(&other, &[entry("helm", 20, &["service"])]);
        assert_eq!(damage(&away), Some(Damage::LedAway("x/y".to_owned())));
        assert_eq!(by(&away), Some("helm"));
        assert_eq!(Damage::of(&away, &ours(), b"PEM", "another"), None);
        let mut predecessor = away.clone();
        predecessor
            .annotations_mut()
            .insert(TAKEN_FROM.to_owned(), "x/y".to_owned());
        assert_eq!(damage(&predecessor), None);
        let mut foreign = away;
        foreign.annotations_mut().clear();
        assert_eq!(damage(&foreign), None);
    }
}
