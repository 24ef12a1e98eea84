//! The view that a watch with selectors has of an event. Pure.
//!
//! An object that becomes selected appears (`ADDED`), one that is no longer selected disappears
//! (`DELETED`, with the content it had and the version of the event): `convertToWatchEvent` of the
//! kube-apiserver's cacher.

use std::borrow::Cow;

use apimachinery::mutation::{Mutation, broken};
use storage::cache::{Event, EventType};
use storage::model::StoredObject;

use crate::api::options::ListOptions;
use crate::api::select;

/// An event as one watch sees it.
#[derive(Debug)]
pub struct Seen<'a> {
    /// The kind of change.
    pub type_: EventType,
    /// The object, with the version of the event.
    pub object: Cow<'a, StoredObject>,
}

/// Returns the event that a watch of `namespace` (or of all) with `options` sees of `event`, if
/// any.
#[must_use]
pub fn seen<'a>(
    event: &'a Event,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Option<Seen<'a>> {
    let object = &event.object;
    if namespace.is_some_and(|namespace| object.key.namespace() != namespace) {
        return None;
    }
    let as_is = |type_| {
        Some(Seen {
            type_,
            object: Cow::Borrowed(object),
        })
    };
    if options.selects_all() {
        return as_is(event.type_);
    }
    let before = before(event, options);
    let after =
        event.type_ != EventType::Deleted && select::selected(options, &object.key, &object.labels);
    match (before, after) {
        (Some(false), true) => as_is(EventType::Added),
        (Some(true), true) => as_is(EventType::Modified),
        // Whether the client knows the object is not known: the event's own type is the best guess.
        (None, true) => as_is(event.type_),
        (Some(false), false) => None,
        (Some(true) | None, false) => (!broken(Mutation::LeaveUntold)).then(|| gone(event)),
    }
}

/// Returns whether the object was selected before the event; `None` where that is not known.
fn before(event: &Event, options: &ListOptions) -> Option<bool> {
    use storage::cache::Previous;
    match &event.previous {
        Previous::None => Some(false),
        Previous::Known(_) | Previous::Labels(_) => event
            .previous
            .labels()
            .map(|labels| select::selected(options, &event.object.key, labels)),
        Previous::Unknown => None,
    }
}

/// Returns a disappearance: the last content that the client could have, under the event's version.
fn gone(event: &Event) -> Seen<'_> {
    let object = match (event.type_, event.previous.object()) {
        // The object of a deletion is its last state already.
        (EventType::Deleted, _) | (_, None) => Cow::Borrowed(&*event.object),
        (_, Some(previous)) => Cow::Owned(StoredObject {
            rv: event.rv(),
            ..StoredObject::clone(previous)
        }),
    };
    Seen {
        type_: EventType::Deleted,
        object,
    }
}
