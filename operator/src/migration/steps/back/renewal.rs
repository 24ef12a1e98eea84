//! The reports that have owners are written once more when the CRDs serve. The garbage collector of
//! Kubernetes knows objects by their uid: what was created in etcd anew has another one, of which no
//! event tells, and would stay when its owner goes. The write tells every watcher. It takes away the
//! entry of field management that the way back has left, and nothing else, so it is due for as long
//! as that entry is there, whoever wrote the report.

use crds::names::FIELD_MANAGER;
use futures::{FutureExt, StreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::pages::{Identity, Pages, identity};
use crate::migration::cluster::wire::{Wire, WireError, collection, object, query};
use crate::migration::context::Cx;
use crate::migration::observe::state::Observed;

/// A write that is due.
#[derive(Debug, PartialEq)]
struct Renewal {
    known: Identity,
    /// The entries of field management that stay.
    managed_fields: Vec<Value>,
}

/// Writes every report of a group that has owners and was written by a way back, through the door at
/// `door`. Returns how many there were.
///
/// # Errors
/// See [`WireError`]; one report that cannot be written stops nothing.
pub async fn run(cx: &Cx, o: &Observed, door: &Wire) -> Result<usize, WireError> {
    let mut renewed = 0;
    for (resource, _) in o.crds() {
        let path = collection(&cx.target.group, VERSION, resource.plural());
        let mut pages = Pages::new(door, path, cx.target.settings.page_size, true);
        while let Some(page) = pages.next().await? {
            cx.pacer.turn().await;
            let objects = page.items.iter().filter_map(|item| item.object().ok());
            let due: Vec<Renewal> = objects.filter_map(|object| renewal(&object)).collect();
            let plural = resource.plural();
            let mut writes = Vec::new();
            for due in &due {
                writes.push(renew(cx, door, plural, due).boxed());
            }
            let concurrency = cx.target.settings.concurrency.max(1) as usize;
            let done: Vec<bool> = stream::iter(writes)
                .buffer_unordered(concurrency)
                .collect()
                .await;
            renewed += done.into_iter().filter(|done| *done).count();
        }
    }
    Ok(renewed)
}

/// Returns the write that a report needs, if it needs one.
fn renewal(report: &Value) -> Option<Renewal> {
    let metadata = &report["metadata"];
    metadata["ownerReferences"]
        .as_array()
        .filter(|owners| !owners.is_empty())?;
    let entries = metadata["managedFields"].as_array()?;
    let suffix = format!("/{VERSION}");
    let is_ours = |entry: &&Value| {
        let version = entry["apiVersion"].as_str();
        entry["manager"] == FIELD_MANAGER && version.is_some_and(|v| v.ends_with(&suffix))
    };
    let (ours, others): (Vec<&Value>, Vec<&Value>) = entries.iter().partition(is_ours);
    let managed_fields = others.into_iter().cloned().collect();
    let known = identity(report)?;
    (!ours.is_empty()).then_some(Renewal {
        known,
        managed_fields,
    })
}

/// Returns the patch of one state of a report. No entries at all are written as an empty one.
fn patch(due: &Renewal) -> Value {
    let mut entries = due.managed_fields.clone();
    if entries.is_empty() {
        entries.push(json!({}));
    }
    json!({"metadata": {
        "uid": due.known.uid,
        "resourceVersion": due.known.version.to_string(),
        "managedFields": entries,
    }})
}

/// Writes a report. One that has changed or gone since was told of by that.
async fn renew(cx: &Cx, door: &Wire, plural: &str, due: &Renewal) -> bool {
    let key = &due.known.key;
    let path = object(&cx.target.group, VERSION, plural, &key.namespace, &key.name);
    let uri = query(&path, &[("fieldManager", FIELD_MANAGER)]);
    let body = patch(due).to_string().into_bytes();
    let merge = "application/merge-patch+json";
    match door.call(Method::PATCH, &uri, merge, Some(body)).await {
        Ok(_) => true,
        Err(error) if matches!(error.code(), Some(404 | 409)) => false,
        Err(error) => {
            tracing::warn!(%key, %error, "cannot tell watchers the uid of a report");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, version: &str) -> Value {
        json!({"manager": manager, "apiVersion": format!("g.io/{version}"), "operation": "Update"})
    }

    fn report(owners: &[&str], entries: Vec<Value>) -> Value {
        json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
            "ownerReferences": owners, "managedFields": entries}})
    }

    #[test]
    fn a_report_with_owners_is_due_while_the_entry_of_the_way_back_is_there() {
        let (ours, theirs) = (entry(FIELD_MANAGER, VERSION), entry("kyverno", "v1"));
        let due = renewal(&report(&["pod"], vec![theirs.clone(), ours.clone()])).unwrap();
        assert_eq!(due.managed_fields, [theirs.clone()]);
        let written = patch(&due);
        assert_eq!(written["metadata"]["managedFields"], json!([theirs]));
        assert_eq!(written["metadata"]["resourceVersion"], "7");
        assert_eq!(written["metadata"]["uid"], "u");
        for other in [
            report(&[], vec![ours.clone()]),
            report(&["pod"], vec![theirs.clone()]),
            report(&["pod"], vec![entry(FIELD_MANAGER, "v1")]),
            json!({"metadata": {"name": "a"}}),
        ] {
            assert_eq!(renewal(&other), None, "{other}");
        }
    }

    #[test]
    fn no_entries_are_written_as_an_empty_one() {
        let due = renewal(&report(&["pod"], vec![entry(FIELD_MANAGER, VERSION)])).unwrap();
        assert_eq!(patch(&due)["metadata"]["managedFields"], json!([{}]));
    }
}
