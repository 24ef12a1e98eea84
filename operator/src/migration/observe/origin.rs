//! The CRDs from which the server's copies come. A CRD that was deleted takes its copies in etcd
//! with it, and one that is installed again begins without any: neither says that a client has
//! deleted a report. Nor does etcd say so once the copies are pruned: a server that was restored from
//! an earlier backup still knows of all of them. Of a group that was taken over from another server
//! etcd has no copies, only what lay there before that server came, which is nobody's late write.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::state::{Notes, Observed};
use crate::migration::cluster::control::find;
use crate::migration::cluster::door::crd_path;
use crate::migration::cluster::wire::WireError;
use crate::migration::context::Cx;
use crate::said::said;

/// The time for which a question is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// The note about a group whose copies are pruned: it is copied from no CRD any more.
const PRUNED: &str = "{}";

/// The note about a group whose copies are being pruned: etcd may lack any of them. It names no CRD.
const PRUNING: &str = r#"{"":"pruning"}"#;

/// The reason why the origin of the copies is not known.
#[derive(Debug, thiserror::Error)]
pub enum OriginError {
    /// A CRD cannot be read.
    #[error(transparent)]
    Wire(Box<WireError>),
    /// The operator's notes cannot be read or written.
    #[error("the operator's notes cannot be read or written: {}", said(.0))]
    Notes(#[source] Box<kube::Error>),
}

impl OriginError {
    /// Returns the request that failed, where it was one.
    #[must_use]
    pub fn wire(&self) -> Option<&WireError> {
        match self {
            Self::Wire(error) => Some(error),
            Self::Notes(_) => None,
        }
    }
}

impl From<WireError> for OriginError {
    fn from(error: WireError) -> Self {
        Self::Wire(Box::new(error))
    }
}

/// Returns the key of the note with the CRDs from which a group was copied.
#[must_use]
pub fn key(group: &str) -> String {
    format!("copied-from.{group}")
}

/// Returns the key of the note with etcd's revision at which a group was taken over from another
/// server.
fn taken_over_key(group: &str) -> String {
    format!("taken-over-at.{group}")
}

/// Returns the key of the note that clients may have been served since the last switch.
fn served_key(group: &str) -> String {
    format!("served.{group}")
}

/// Notes that clients may be served from now on; written before the first gate is opened.
///
/// # Errors
/// See [`OriginError`].
pub async fn note_served(cx: &Cx) -> Result<(), OriginError> {
    set(cx, &served_key(&cx.target.group), Some("true")).await
}

/// Returns whether clients may have been served since the last switch.
///
/// # Errors
/// See [`OriginError`].
pub async fn was_served(cx: &Cx) -> Result<bool, OriginError> {
    let noted = get(cx, &served_key(&cx.target.group)).await?;
    Ok(noted.is_some())
}

/// Notes the CRDs from which the group is copied; written before the first request is held.
///
/// # Errors
/// See [`OriginError`].
pub async fn note(cx: &Cx, o: &Observed) -> Result<(), OriginError> {
    set(cx, &served_key(&cx.target.group), None).await?;
    set(cx, &taken_over_key(&cx.target.group), None).await?;
    set(cx, &key(&cx.target.group), Some(&uids(o))).await
}

/// Notes that the copies of the group are being pruned; written before the first one is deleted. From
/// then on what etcd lacks was not deleted by clients.
///
/// # Errors
/// See [`OriginError`].
pub async fn note_pruning(cx: &Cx) -> Result<(), OriginError> {
    set(cx, &key(&cx.target.group), Some(PRUNING)).await
}

/// Notes that the copies of the group are pruned; written when that is done.
///
/// # Errors
/// See [`OriginError`].
pub async fn note_pruned(cx: &Cx) -> Result<(), OriginError> {
    set(cx, &key(&cx.target.group), Some(PRUNED)).await
}

/// Notes the CRDs that get copies again of a group whose copies were pruned; written before the first
/// one is made.
///
/// # Errors
/// See [`OriginError`].
pub async fn note_written_back(cx: &Cx, o: &Observed) -> Result<(), OriginError> {
    let key = key(&cx.target.group);
    if get(cx, &key).await?.as_deref() == Some(PRUNED) {
        set(cx, &key, Some(&uids(o))).await?;
    }
    Ok(())
}

/// Returns the time at which the copies of a group that the server serves were pruned. The
/// annotations of its APIServices have it, unless somebody took these away since; `copied_from`, the
/// note about its CRDs, tells whether it is still so. A way back that is given up has made copies
/// again.
#[must_use]
pub fn pruned_at(copied_from: Option<&str>, notes: &Notes) -> Option<Timestamp> {
    match copied_from {
        Some(PRUNED) => notes.pruned_at.or(notes.switched_at),
        Some(_) => None,
        None => notes.pruned_at,
    }
}

/// Returns whether etcd may lack any of the copies, as the prune of them has begun.
#[must_use]
pub fn is_pruning(copied_from: Option<&str>) -> bool {
    copied_from == Some(PRUNING)
}

/// Returns the uids of the CRDs of a group, by name of the resource, as JSON.
fn uids(o: &Observed) -> String {
    let uids: BTreeMap<&str, &str> = o
        .crds()
        .map(|(resource, crd)| {
            let uid = crd.object.metadata.uid.as_deref();
            (resource.name(), uid.unwrap_or_default())
        })
        .collect();
    serde_json::to_string(&uids).unwrap_or_default()
}

/// Notes etcd's revision at which the group is taken over from another server; written before the
/// first APIService is led away from it.
///
/// # Errors
/// See [`OriginError`].
pub async fn note_taken_over(cx: &Cx, revision: u64) -> Result<(), OriginError> {
    let revision = revision.to_string();
    set(cx, &taken_over_key(&cx.target.group), Some(&revision)).await
}

/// Returns etcd's revision at which the group was taken over from another server: anything as old
/// in etcd belongs to the time before that server. `None` where the group was copied from CRDs.
///
/// # Errors
/// See [`OriginError`].
pub async fn taken_over_at(cx: &Cx) -> Result<Option<u64>, OriginError> {
    let noted = get(cx, &taken_over_key(&cx.target.group)).await?;
    Ok(noted.and_then(|revision| revision.parse().ok()))
}

async fn get(cx: &Cx, key: &str) -> Result<Option<String>, OriginError> {
    let noted = cx.notes.get(key).await;
    noted.map_err(|error| OriginError::Notes(Box::new(error)))
}

async fn set(cx: &Cx, key: &str, text: Option<&str>) -> Result<(), OriginError> {
    let set = cx.notes.set(key, text).await;
    set.map_err(|error| OriginError::Notes(Box::new(error)))
}

/// Returns whether clients deleted what etcd lacks of a resource: it was copied from a CRD, the CRD
/// is the one that it was copied from, and nobody is deleting it. Ask after etcd was listed.
///
/// # Errors
/// See [`OriginError`].
pub async fn tells_deletions(cx: &Cx, resource: &str) -> Result<bool, OriginError> {
    if taken_over_at(cx).await?.is_some() {
        return Ok(false);
    }
    let noted = get(cx, &key(&cx.target.group)).await?;
    let path = crd_path(resource);
    let found = find(PATIENCE, &cx.wire, &path).await?;
    let crd: Option<CustomResourceDefinition> = found.map(|reply| reply.json()).transpose()?;
    let tells = is_origin(noted.as_deref(), resource, crd.as_ref());
    if !tells {
        tracing::warn!(
            resource,
            "its CRD was deleted after the switch, or its copies were pruned: the server keeps what \
             etcd lacks"
        );
    }
    Ok(tells)
}

/// Decides by the note and the CRD as it is now. A group that was switched before such notes were
/// written has none: then a CRD that is there counts.
fn is_origin(noted: Option<&str>, resource: &str, crd: Option<&CustomResourceDefinition>) -> bool {
    let Some(crd) = crd.filter(|crd| crd.metadata.deletion_timestamp.is_none()) else {
        return false;
    };
    let Some(noted) = noted else {
        return true;
    };
    let uids: BTreeMap<String, String> = serde_json::from_str(noted).unwrap_or_default();
    uids.get(resource) == crd.metadata.uid.as_ref()
}

#[cfg(test)]
mod tests {
    use crds::control::GateState;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::migration::context::fixtures::context;
    use crate::migration::plan::tests as states;
    use crate::testing::pair;

    fn crd(metadata: &Value) -> CustomResourceDefinition {
        serde_json::from_value(json!({"metadata": metadata, "spec": {"group": "g",
            "scope": "Cluster", "names": {"kind": "R", "plural": "rs"}, "versions": []}}))
        .unwrap()
    }

    #[test]
    fn only_the_crd_that_was_copied_tells_of_deletions() {
        let noted = Some(r#"{"rs.g": "a"}"#);
        let same = crd(&json!({"uid": "a"}));
        assert!(is_origin(noted, "rs.g", Some(&same)));
        assert!(!is_origin(noted, "rs.g", Some(&crd(&json!({"uid": "b"})))));
        assert!(!is_origin(noted, "others.g", Some(&same)));
        assert!(!is_origin(noted, "rs.g", None));
    }

    /// The server may have been restored from a backup of the time before.
    #[test]
    fn a_crd_whose_copies_were_pruned_tells_nothing() {
        let same = crd(&json!({"uid": "a"}));
        assert!(!is_origin(Some(PRUNED), "rs.g", Some(&same)));
        assert!(!is_origin(Some(PRUNING), "rs.g", Some(&same)));
    }

    #[rstest]
    #[case::in_both(Some(PRUNED), Some(1), Some(1))]
    #[case::the_annotation_was_taken_away(Some(PRUNED), None, Some(2))]
    #[case::a_way_back_that_was_given_up_has_made_copies(Some(r#"{"rs.g": "a"}"#), Some(1), None)]
    #[case::it_is_under_way(Some(PRUNING), None, None)]
    #[case::never(Some(r#"{"rs.g": "a"}"#), None, None)]
    #[case::noted_by_an_earlier_release(None, Some(1), Some(1))]
    fn the_note_tells_whether_etcd_has_copies(
        #[case] copied_from: Option<&str>,
        #[case] annotated: Option<i64>,
        #[case] expected: Option<i64>,
    ) {
        let at = |second| Timestamp::from_second(second).unwrap();
        let notes = Notes {
            pruned_at: annotated.map(at),
            switched_at: Some(at(2)),
            ..Notes::default()
        };
        assert_eq!(pruned_at(copied_from, &notes), expected.map(at));
    }

    #[tokio::test]
    async fn the_end_of_a_prune_notes_that_etcd_has_no_copies() {
        let (client, mut server) = pair();
        let cx = context(&client);
        let noting = tokio::spawn(async move { note_pruned(&cx).await });
        let write = server.next().await;
        assert_eq!(write.method, "PATCH");
        let noted = json!({"data": {key(&states::target().group): PRUNED}});
        assert_eq!(write.body, noted);
        write.answer(200, &json!({}));
        noting.await.unwrap().unwrap();
    }

    /// The note before the way back writes, and whether the CRDs are noted.
    #[rstest]
    #[case::pruned(json!(PRUNED), true)]
    #[case::kept(json!(r#"{"rs.g": "before"}"#), false)]
    #[tokio::test]
    async fn the_way_back_notes_the_crds_where_their_copies_were_pruned(
        #[case] before: Value,
        #[case] is_noted: bool,
    ) {
        let (client, mut server) = pair();
        let cx = context(&client);
        let key = key(&cx.target.group);
        let answering = tokio::spawn(async move {
            let read = server.next().await;
            assert_eq!(read.method, "GET");
            read.answer(200, &json!({"data": {key.clone(): before}}));
            let write = server.next_if_any().await?;
            assert_eq!(write.method, "PATCH");
            let noted = write.body["data"][&key].clone();
            write.answer(200, &json!({}));
            Some(noted)
        });
        let crd = Some(states::crd("rs"));
        let resource = states::resource("rs", GateState::Open, true, crd);
        let name = resource.name().to_owned();
        let o = Observed {
            resources: vec![resource],
            ..Observed::default()
        };
        note_written_back(&cx, &o).await.unwrap();
        // Without its clients, the cluster waits for no further request.
        drop((cx, client));
        let expected = is_noted.then(|| json!(json!({name: "rs"}).to_string()));
        assert_eq!(answering.await.unwrap(), expected);
    }

    #[test]
    fn a_crd_that_is_being_deleted_tells_nothing() {
        let going = json!({"uid": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(!is_origin(
            Some(r#"{"rs.g": "a"}"#),
            "rs.g",
            Some(&crd(&going))
        ));
        assert!(!is_origin(None, "rs.g", Some(&crd(&going))));
    }

    #[test]
    fn without_a_note_a_crd_that_is_there_counts() {
        assert!(is_origin(None, "rs.g", Some(&crd(&json!({"uid": "a"})))));
    }
}
