//! The objects that a list, watch or deletecollection selects.

use std::sync::Arc;

use storage::cache::Snapshot;
use storage::model::{Labels, ObjectKey, StoredObject};

use super::options::ListOptions;
use super::token::Continue;
use crate::registry::strategy::names;

/// A page of a list.
#[derive(Debug, Default)]
pub struct Page {
    /// The objects, in the order of their keys.
    pub objects: Vec<Arc<StoredObject>>,
    /// Key of the last object, below the namespace of the list, when more may follow.
    pub last: Option<String>,
    /// Number of objects that follow, where nothing is selected.
    pub remaining: Option<usize>,
}

/// Returns whether an object is selected; its namespace is that of the request already.
#[must_use]
pub fn selected(options: &ListOptions, key: &ObjectKey, labels: &Labels) -> bool {
    let field = &options.field_selector;
    (field.is_empty() || field.matches(key.namespace(), key.name()))
        && options.label_selector.matches(labels)
}

/// Returns whether no more than one object can be selected: a name that an object may have is asked
/// for, and a namespace where there are namespaces.
#[must_use]
pub fn is_of_one(namespace: Option<&str>, namespaced: bool, options: &ListOptions) -> bool {
    let fields = &options.field_selector;
    let name = fields.name().unwrap_or_default();
    !name.is_empty()
        && names::path_segment_errors(name).is_empty()
        && (!namespaced || namespace.or(fields.namespace()).is_some())
}

/// Returns the objects of `snapshot` in `namespace`, or in all, that `options` select: at most
/// `limit` (0 for all), from `from` on.
#[must_use]
pub fn page(
    snapshot: &Snapshot,
    namespace: Option<&str>,
    options: &ListOptions,
    limit: usize,
    from: Option<&Continue>,
) -> Page {
    let mut candidates = candidates(snapshot, namespace, options, from);
    let mut page = Page::default();
    let limit = if limit == 0 { usize::MAX } else { limit };
    for object in candidates.by_ref() {
        if selected(options, &object.key, &object.labels) {
            page.objects.push(Arc::clone(object));
            if page.objects.len() == limit {
                break;
            }
        }
    }
    let remaining = candidates.count();
    if remaining > 0 {
        page.last = page
            .objects
            .last()
            .map(|object| below(namespace, &object.key).to_owned());
        page.remaining = options.selects_all().then_some(remaining);
    }
    page
}

/// Returns a key as it stands in a token: without the namespace of a namespaced list.
fn below<'a>(namespace: Option<&str>, key: &'a ObjectKey) -> &'a str {
    match namespace {
        Some(_) => key.name(),
        None => key.as_str(),
    }
}

/// Returns the objects to look at, in order: all candidates, by the shortest way to find them.
fn candidates<'a>(
    snapshot: &'a Snapshot,
    namespace: Option<&'a str>,
    options: &'a ListOptions,
    from: Option<&Continue>,
) -> Box<dyn Iterator<Item = &'a Arc<StoredObject>> + 'a> {
    let fields = &options.field_selector;
    let namespace = namespace.or(fields.namespace());
    let start = from.map(|from| start(namespace, from));
    if let (Some(name), true) = (fields.name(), start.is_none()) {
        if let Some(namespace) = namespace {
            return Box::new(snapshot.get(&ObjectKey::new(namespace, name)).into_iter());
        }
        if let Some(object) = snapshot.get(&ObjectKey::new("", name)) {
            return Box::new(std::iter::once(object));
        }
    }
    if let Some(objects) = indexed(snapshot, namespace, options) {
        let behind = move |object: &&Arc<StoredObject>| match &start {
            Some((key, at)) => object.key > *key || (*at && object.key == *key),
            None => true,
        };
        return Box::new(objects.into_iter().filter(behind));
    }
    match start {
        Some((key, at)) => {
            let first = at.then(|| snapshot.get(&key)).flatten();
            Box::new(
                first
                    .into_iter()
                    .chain(snapshot.range(namespace, Some(&key))),
            )
        }
        None => Box::new(snapshot.range(namespace, None)),
    }
}

/// Returns the objects with a label value that is asked for, where there is an index of it.
fn indexed<'a>(
    snapshot: &'a Snapshot,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Option<Vec<&'a Arc<StoredObject>>> {
    options
        .label_selector
        .requirements()
        .iter()
        .find_map(|requirement| {
            let value = options.label_selector.equals(&requirement.key)?;
            snapshot.by_label(&requirement.key, value, namespace)
        })
}

/// Returns the place to which a token points, and whether an object right there belongs to the
/// page.
fn start(namespace: Option<&str>, from: &Continue) -> (ObjectKey, bool) {
    let (position, at) = from.position();
    let key = match (namespace, position.split_once('/')) {
        (Some(namespace), _) => ObjectKey::new(namespace, position),
        (None, Some((namespace, name))) => ObjectKey::new(namespace, name),
        (None, None) => ObjectKey::new("", position),
    };
    (key, at)
}
