//! The hold without its mirrors: the operator died between the patch and the gate, or the server
//! has lost its database while etcd still has everything.
//!
//! Nobody can write to etcd any more, so one list through the side door tells what the server has
//! to have: the differences are imported as the events that were lost. A client's watch resumes
//! over them as if the mirror had seen them.

use crds::control::{
    API_VERSION, DigestSet, GateState, ImportBatch, ImportItem, ImportMode, ImportType,
};
use serde_json::Value;

use super::diff::{self, Side, Snapshot};
use super::mirror::batch::Entry;
use super::sender::Sender;
use crate::migration::cluster::control::retry;
use crate::migration::cluster::door;
use crate::migration::cluster::door::objects::VERSION;
use crate::migration::cluster::endpoints::Endpoints;
use crate::migration::cluster::pages::{Identity, Pages, identity};
use crate::migration::cluster::revisions;
use crate::migration::cluster::wire::{Wire, WireError, collection};
use crate::migration::cluster::{deletion, operations};
use crate::migration::context::Cx;
use crate::migration::observe::origin::{self, OriginError};
use crate::migration::observe::state::{Crd, Observed, Resource};

/// The time for which a batch is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// The distance above etcd's revision at which the history of a lost database begins anew. Its
/// counter followed the revision, and was ahead of it by what clients had written in a burst.
pub const LOST_MARGIN: u64 = 1_000_000;

/// The reason why the server could not be brought up to etcd.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// A request failed for good.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// It is not known whether etcd tells of deletions.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// No kube-apiserver is known.
    #[error("no kube-apiserver is known")]
    NoEndpoint,
}

/// Brings the server up to etcd for every resource whose gate is not open.
///
/// # Errors
/// See [`RecoverError`]; the gates stay held.
pub async fn recover(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), RecoverError> {
    door::await_open(cx, o, &endpoints.all).await?;
    for (resource, crd) in o.crds().filter(|(r, _)| r.gate() != GateState::Open) {
        one(cx, resource, crd, endpoints).await?;
    }
    Ok(())
}

/// Has the histories of resources that were put back begin anew, where the APIServices are ours: call
/// it before their requests are held, which is what tells them from others.
///
/// # Errors
/// See [`RecoverError`]; carrying it out again is harmless.
pub async fn begin_anew(cx: &Cx, o: &Observed, endpoints: &Endpoints) -> Result<(), RecoverError> {
    let served = origin::was_served(cx).await?;
    let put_back = o
        .crds()
        .filter(|(resource, _)| is_put_back(resource, served));
    for (resource, _) in put_back {
        let horizon = above_clients(cx, o, resource, endpoints).await?.to_string();
        let one = ImportBatch {
            horizon: Some(horizon),
            ..batch(ImportMode::Mirror, Vec::new())
        };
        let import = || cx.control.import(resource.name(), &one);
        retry(PATIENCE, import).await?;
    }
    Ok(())
}

/// Returns whether the server does not know of a switch that has held the resource's requests: its
/// database is lost, or is that of a time before. Where it has `served` clients since, they may hold
/// versions of that time.
fn is_put_back(resource: &Resource, served: bool) -> bool {
    let unaware = resource.gate() == GateState::Closed && !resource.stored.status.opened;
    unaware && (served || resource.is_unknown_to_server())
}

/// Returns a version above all that clients may hold. Where the server serves another resource of the
/// group, its database is the one that it had, and the counter is such a version.
async fn above_clients(
    cx: &Cx,
    o: &Observed,
    resource: &Resource,
    endpoints: &Endpoints,
) -> Result<u64, WireError> {
    let counter = cx.control.raise_floor(resource.name(), 0, PATIENCE).await?;
    if o.resources.iter().any(|r| r.gate() == GateState::Open) {
        return Ok(counter);
    }
    Ok(revisions::newest(endpoints).await?.max(counter) + LOST_MARGIN)
}

async fn one(
    cx: &Cx,
    resource: &Resource,
    crd: &Crd,
    endpoints: &Endpoints,
) -> Result<(), RecoverError> {
    let endpoint = endpoints.all.first().ok_or(RecoverError::NoEndpoint)?;
    let items = cx
        .control
        .digest(resource.name(), DigestSet::Objects)
        .await?;
    let mut server: Snapshot = items.into_iter().map(diff::of_digest).collect();
    // No watch resumes on a server that was never given anything, so what it is given is no event.
    let afresh = server.is_empty() && resource.is_unknown_to_server();
    let path = collection(&cx.target.group, VERSION, resource.plural());
    let version = crd.read_version().unwrap_or_default();
    let api_version = format!("{}/{version}", cx.target.group);
    let mut pages = Pages::new(&endpoint.wire, path, cx.target.settings.page_size, false);
    let limit = cx.target.settings.page_size;
    let mut sender = Sender::new(cx, resource, ImportMode::Mirror, limit);
    let mut events = Vec::new();
    let mut listed = 0;
    while let Some(page) = pages.next().await? {
        listed = page.version;
        for item in page.items {
            let mut object = item.object()?;
            let Some(found) = identity(&object) else {
                continue;
            };
            let known = server.remove(&found.key);
            set(&mut object, "/apiVersion", &api_version);
            if afresh {
                sender.push(Entry::object(&object)).await?;
            } else if let Some(type_) = lost_event(&found, known.as_ref()) {
                events.push((found.version, Entry::event(type_, &object)));
            }
        }
    }
    if !server.is_empty() && !origin::tells_deletions(cx, resource.name()).await? {
        server.clear();
    }
    for gone in deletions(cx, resource, &endpoint.wire, server, listed).await? {
        let last = last_state(cx, resource, version, &gone).await?;
        events.push((gone.version, Entry::event(ImportType::Deleted, &last)));
    }
    // The log takes events in the order in which etcd had them.
    events.sort_by_key(|(version, _)| *version);
    for (_, event) in events {
        sender.push(event).await?;
    }
    sender.finish().await?;
    Ok(())
}

/// Returns the event that the server lacks about an object which is in etcd, if it lacks one.
fn lost_event(etcd: &Identity, server: Option<&Side>) -> Option<ImportType> {
    match server {
        Some(side) if *side.uid == *etcd.uid && side.version >= etcd.version => None,
        Some(side) if *side.uid == *etcd.uid => Some(ImportType::Modified),
        _ => Some(ImportType::Added),
    }
}

/// Returns the objects that the server has and a list of etcd at version `listed` has not, with the
/// versions of the deletions.
async fn deletions(
    cx: &Cx,
    resource: &Resource,
    wire: &Wire,
    server: Snapshot,
    listed: u64,
) -> Result<Vec<Identity>, WireError> {
    let mut gone: Vec<_> = server
        .into_iter()
        .map(|(key, side)| Identity {
            key,
            uid: side.uid.into(),
            version: side.version,
        })
        .collect();
    let group = &cx.target.group;
    let versions = deletion::versions(wire, group, resource.plural(), &gone, listed).await?;
    for (one, version) in gone.iter_mut().zip(versions) {
        one.version = version;
    }
    Ok(gone)
}

/// Returns the last state that the server knows of an object, with the version of its deletion.
/// Reads of the gate's holder pass it.
async fn last_state(
    cx: &Cx,
    resource: &Resource,
    version: &str,
    gone: &Identity,
) -> Result<Value, WireError> {
    let path = operations::object_path(cx, resource, version, &gone.key);
    let mut last: Value = match cx.wire.get(&path).await {
        Ok(reply) => reply.json()?,
        Err(e) if e.code() == Some(404) => operations::metadata_only(cx, resource, version, gone),
        Err(e) => return Err(e),
    };
    set(
        &mut last,
        "/metadata/resourceVersion",
        &gone.version.to_string(),
    );
    Ok(last)
}

fn set(object: &mut Value, pointer: &str, value: &str) {
    if let Some(field) = object.pointer_mut(pointer) {
        *field = Value::String(value.to_owned());
    }
}

/// Returns one batch in a mode of its own.
#[must_use]
pub fn batch(mode: ImportMode, items: Vec<ImportItem>) -> ImportBatch {
    ImportBatch {
        api_version: API_VERSION.to_owned(),
        kind: "ImportBatch".to_owned(),
        mode,
        items,
        ..ImportBatch::default()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::migration::cluster::pages::Key;
    use crate::migration::plan::tests as states;

    /// An informer of an empty collection resumes across the switch, and has to be told of what was
    /// created just before.
    #[rstest]
    #[case::its_database_was_lost("1", "", 0, true)]
    #[case::a_mirror_found_nothing("700", "", 0, false)]
    #[case::a_mirror_was_told_that_nothing_happens("1", "700", 0, false)]
    #[case::it_has_objects("1", "", 5, false)]
    fn only_a_server_that_was_never_told_anything_is_filled_without_events(
        #[case] horizon: &str,
        #[case] mirrored: &str,
        #[case] objects: u64,
        #[case] expected: bool,
    ) {
        let mut resource = states::resource("rs", GateState::Held, false, None);
        let status = &mut resource.stored.status;
        status.horizon = horizon.to_owned();
        status.mirrored_resource_version = mirrored.to_owned();
        status.objects = objects;
        assert_eq!(resource.is_unknown_to_server(), expected);
    }

    /// A backup from before the switch has objects, but not what clients were told since.
    #[rstest]
    #[case::a_backup_from_before_the_switch(GateState::Closed, false, true, true)]
    #[case::before_anybody_was_served(GateState::Closed, false, false, false)]
    #[case::the_operator_died_in_the_hold(GateState::Held, false, true, false)]
    #[case::it_has_served_by_this_database(GateState::Closed, true, true, false)]
    fn a_server_that_knows_of_no_switch_was_put_back(
        #[case] gate: GateState,
        #[case] opened: bool,
        #[case] served: bool,
        #[case] expected: bool,
    ) {
        let mut resource = states::resource("rs", gate, false, None);
        resource.stored.status.opened = opened;
        assert_eq!(is_put_back(&resource, served), expected);
    }

    #[test]
    fn only_what_the_server_lacks_becomes_an_event() {
        let etcd = Identity {
            key: Key::default(),
            uid: "a".into(),
            version: 7,
        };
        let side = |uid: &str, version| Side {
            uid: uid.into(),
            version,
            checksum: None,
            as_imported: true,
        };
        assert_eq!(lost_event(&etcd, Some(&side("a", 7))), None);
        assert_eq!(
            lost_event(&etcd, Some(&side("a", 6))),
            Some(ImportType::Modified)
        );
        assert_eq!(
            lost_event(&etcd, Some(&side("b", 9))),
            Some(ImportType::Added)
        );
        assert_eq!(lost_event(&etcd, None), Some(ImportType::Added));
    }
}
