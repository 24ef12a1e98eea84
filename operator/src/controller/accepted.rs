//! The specification that was carried out last, for the time when a later one is refused: in a
//! `ConfigMap` beside the server, and once more among the operator's notes in its own namespace. Whoever
//! deletes the one, or its owner, must not stop the renewal of certificates.

use std::sync::PoisonError;

use crds::v1alpha1::{ReportsServer, ReportsServerSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, ResourceExt};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Context;
use super::dereference::Error;
use super::validate::Validated;
use crate::migration::{NOTES, NoteBook};
use crate::names::{ACCEPTED_KEY, Names};

/// The second copy.
#[derive(Serialize, Deserialize)]
struct Note {
    /// uid of the `ReportsServer`; another one by its name was asked for something else.
    uid: String,
    /// The specification.
    spec: ReportsServerSpec,
}

/// Returns the specification that was carried out last, where there is one that can still be read.
/// One for another namespace is none of ours: the target namespace never changes, and somebody else
/// may have written it.
///
/// # Errors
/// If it cannot be read; that it is missing is an answer.
pub async fn read(
    object: &ReportsServer,
    ctx: &Context,
) -> Result<Option<ReportsServerSpec>, Error> {
    let beside = match beside(&ctx.client, object).await {
        // Nothing was ever carried out in that namespace, or the operator has lost its rights there.
        Err(error) if error.is_forbidden() => None,
        read => read?,
    };
    let spec = match beside {
        Some(spec) => Some(spec),
        None => noted(object, ctx).await?,
    };
    Ok(spec.filter(|spec| spec.target_namespace == object.spec.target_namespace))
}

/// Returns the copy beside the server.
async fn beside(
    client: &Client,
    object: &ReportsServer,
) -> Result<Option<ReportsServerSpec>, Error> {
    let namespace = &object.spec.target_namespace;
    let api = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let name = Names::new(object.name_any()).accepted();
    let found = api.get_opt(&name).await;
    let found = found.map_err(|source| Error::ConfigMap {
        namespace: namespace.clone(),
        name,
        source,
    })?;
    let own = |map: &ConfigMap| {
        let owners = map.owner_references();
        owners
            .iter()
            .any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
    };
    let text = found.filter(own).and_then(|map| map.data);
    let text = text.and_then(|mut data| data.remove(ACCEPTED_KEY));
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns the copy among the notes.
async fn noted(object: &ReportsServer, ctx: &Context) -> Result<Option<ReportsServerSpec>, Error> {
    let found = notes(ctx).get(&key(&object.name_any())).await;
    let found = found.map_err(|source| Error::ConfigMap {
        namespace: ctx.operator.namespace.clone(),
        name: NOTES.to_owned(),
        source,
    })?;
    let note = found.and_then(|text| serde_json::from_str::<Note>(&text).ok());
    let note = note.filter(|note| Some(&note.uid) == object.metadata.uid.as_ref());
    Ok(note.map(|note| note.spec))
}

/// Notes a specification that is carried out. It is a second copy: that it cannot be written stops
/// nothing, and it is tried again.
pub async fn note(spec: &Validated, ctx: &Context) {
    let name = spec.names.instance();
    let is_noted = {
        let noted = ctx.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.get(name) == Some(&spec.source)
    };
    if is_noted {
        return;
    }
    let note = Note {
        uid: spec.uid.clone(),
        spec: spec.source.clone(),
    };
    let text = serde_json::to_string(&note).unwrap_or_default();
    if let Err(error) = notes(ctx).set(&key(name), Some(&text)).await {
        warn!(name, %error, "cannot note the specification that is carried out");
        return;
    }
    let mut noted = ctx.noted.lock().unwrap_or_else(PoisonError::into_inner);
    noted.insert(name.to_owned(), note.spec);
}

/// Removes the note about an object that is gone. One that stays is nobody's, by its uid.
pub async fn forget(name: &str, ctx: &Context) {
    if let Err(error) = notes(ctx).set(&key(name), None).await {
        warn!(name, %error, "cannot remove the note of the specification");
    }
}

fn notes(ctx: &Context) -> NoteBook {
    NoteBook::new(ctx.client.clone(), &ctx.operator.namespace)
}

fn key(name: &str) -> String {
    format!("accepted.{name}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::fixtures::{self, context, validated};
    use crate::testing::pair;

    fn map(owner: &str, data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m",
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": owner}]},
            "data": data})
    }

    /// Returns a specification, as it is written into a `ConfigMap`.
    fn written(level: &str) -> String {
        json!({"targetNamespace": "target", "server": {"logging": {"level": level}}}).to_string()
    }

    fn noted(uid: &str) -> Value {
        let spec: Value = serde_json::from_str(&written("Debug")).unwrap();
        let note = json!({"uid": uid, "spec": spec}).to_string();
        map("nobody", &json!({"accepted.simple": note}))
    }

    #[rstest]
    #[case::beside(Some(map("uid-1", &json!({ACCEPTED_KEY: written("Info")}))), None,
        Some("Info"))]
    #[case::deleted(None, Some(noted("uid-1")), Some("Debug"))]
    #[case::without_its_owner(Some(map("uid-9", &json!({ACCEPTED_KEY: written("Info")}))),
        Some(noted("uid-1")), Some("Debug"))]
    #[case::of_an_earlier_object(None, Some(noted("uid-0")), None)]
    #[tokio::test]
    async fn what_was_carried_out_last_is_known_when_one_copy_is_lost(
        #[case] beside: Option<Value>,
        #[case] notes: Option<Value>,
        #[case] expected: Option<&str>,
    ) {
        let (client, mut server) = pair();
        let ctx = context(&client);
        let task = tokio::spawn(async move { read(&fixtures::object(json!({})), &ctx).await });
        let has_notes = notes.is_some();
        let answers = [("target", beside), ("operator-ns", notes)];
        for (namespace, answer) in answers.into_iter().take(1 + usize::from(has_notes)) {
            let look = server.next().await;
            let path = format!("/api/v1/namespaces/{namespace}/configmaps/");
            assert!(look.path.contains(&path), "{}", look.path);
            match answer {
                Some(map) => look.answer(200, &map),
                None => look.refuse(404, "NotFound"),
            }
        }
        let spec = task.await.unwrap().unwrap();
        let read = |level| serde_json::from_str::<ReportsServerSpec>(&written(level)).unwrap();
        let expected = expected.map(read);
        assert_eq!(spec, expected);
    }

    #[tokio::test]
    async fn a_specification_is_noted_once_unless_that_fails() {
        let (client, mut server) = pair();
        let ctx = context(&client);
        let spec = validated(json!({}));
        let task = tokio::spawn(async move {
            for _ in 0..3 {
                note(&spec, &ctx).await;
            }
        });
        let notes = "/api/v1/namespaces/operator-ns/configmaps/reports-server-operator-notes";
        for code in [403, 200] {
            let patch = server.next().await;
            assert_eq!(patch.method, "PATCH");
            assert!(patch.path.contains(notes), "{}", patch.path);
            let text = patch.body["data"]["accepted.simple"].as_str().unwrap();
            let told: Value = serde_json::from_str(text).unwrap();
            assert_eq!(told["uid"], "uid-1");
            assert_eq!(told["spec"]["targetNamespace"], "target");
            if code == 200 {
                patch.answer(200, &map("nobody", &json!({})));
            } else {
                patch.refuse(code, "Forbidden");
            }
        }
        // The mock answers nothing more: a third PATCH would not end.
        task.await.unwrap();
    }
}
