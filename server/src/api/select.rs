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

/// The part of a list that a page shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part<'a> {
    /// Most objects; 0 for all.
    pub limit: usize,
    /// The place where it begins, if not at the first object.
    pub from: Option<&'a Continue>,
    /// Number of objects from there on where nothing is selected, as far as the token knows it.
    pub left: Option<usize>,
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

/// Returns the objects of `snapshot` in `namespace`, or in all, that `options` select, in one part.
#[must_use]
pub fn page(
    snapshot: &Snapshot,
    namespace: Option<&str>,
    options: &ListOptions,
    part: Part<'_>,
) -> Page {
    let number = if options.selects_all() {
        number(snapshot.len(), namespace, part)
    } else {
        Number::NotAsked
    };
    let cut = cut(
        candidates(snapshot, namespace, options, part.from),
        part.limit,
        |object| {
            let chosen = selected(options, &object.key, &object.labels);
            chosen.then(|| Arc::clone(object))
        },
        number,
    );
    let last = cut.taken.last().filter(|_| cut.more);
    Page {
        last: last.map(|object| below(namespace, &object.key).to_owned()),
        remaining: cut.behind,
        objects: cut.taken,
    }
}

/// The number of objects of a page and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Known(usize),
    /// To be counted.
    Unknown,
    NotAsked,
}

/// Returns the number of objects of a part and behind it, where nothing is selected. `all` is that
/// of the objects in all namespaces.
fn number(all: usize, namespace: Option<&str>, part: Part<'_>) -> Number {
    let known = match (part.from, namespace) {
        (Some(_), _) => part.left,
        (None, Some(_)) => None,
        (None, None) => Some(all),
    };
    known.map_or(Number::Unknown, Number::Known)
}

/// The beginning of a list.
struct Cut<T> {
    taken: Vec<T>,
    /// True when there is something behind it.
    more: bool,
    /// The number of what is behind it, where it is asked for; `None` at the end.
    behind: Option<usize>,
}

/// Takes the first of a list that are chosen: at most `limit`, 0 for all. It looks at one more, and
/// at the others only to count them. A number that cannot be true is counted anew; one that can is
/// not looked into, so that a forged token does not tell more than a list does.
fn cut<T, U>(
    mut list: impl Iterator<Item = T>,
    limit: usize,
    choose: impl Fn(T) -> Option<U>,
    number: Number,
) -> Cut<U> {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let mut taken = Vec::new();
    for object in list.by_ref() {
        if let Some(chosen) = choose(object) {
            taken.push(chosen);
            if taken.len() == limit {
                break;
            }
        }
    }
    let more = list.next().is_some();
    let known = match number {
        Number::Known(number) => number.checked_sub(taken.len()).filter(|left| *left > 0),
        Number::Unknown | Number::NotAsked => None,
    };
    let asked = more && number != Number::NotAsked;
    let behind = asked.then(|| known.unwrap_or_else(|| 1 + list.count()));
    Cut {
        taken,
        more,
        behind,
    }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rstest::rstest;

    use super::*;

    /// Cuts a list of numbers; returns what is behind, and how many were looked at.
    fn behind(length: u32, limit: usize, number: Number) -> (Option<usize>, u32) {
        let visited = Cell::new(0);
        let list = (0..length).inspect(|_| visited.set(visited.get() + 1));
        let cut = cut(list, limit, Some, number);
        assert_eq!(cut.more, cut.taken.len() < length as usize);
        (cut.behind, visited.get())
    }

    #[rstest]
    fn the_work_for_a_page_does_not_grow_with_what_is_left(
        #[values(101, 1_000, 100_000)] length: u32,
    ) {
        let known = Number::Known(length as usize);
        let left = length as usize - 100;
        assert_eq!(behind(length, 100, known), (Some(left), 101));
        assert_eq!(behind(length, 100, Number::NotAsked), (None, 101));
        // Once for a whole collection: the token of the next page knows it.
        assert_eq!(behind(length, 100, Number::Unknown), (Some(left), length));
    }

    #[rstest]
    #[case::the_last(Number::Known(5), 5, None)]
    #[case::everything(Number::Known(5), 0, None)]
    #[case::forged_for_the_last(Number::Known(99), 5, None)]
    #[case::forged_too_high(Number::Known(99), 2, Some(97))]
    #[case::forged_too_low(Number::Known(1), 2, Some(3))]
    #[case::forged_nothing_left(Number::Known(2), 2, Some(3))]
    #[case::forged_nothing(Number::Known(0), 2, Some(3))]
    fn numbers(#[case] number: Number, #[case] limit: usize, #[case] left: Option<usize>) {
        assert_eq!(behind(5, limit, number).0, left);
    }

    #[test]
    fn a_selection_takes_until_the_page_is_full() {
        let odd = |n: u32| (n % 2 == 1).then_some(n);
        let cut = cut(0..9, 3, odd, Number::NotAsked);
        assert_eq!((cut.taken, cut.more), (vec![1, 3, 5], true));
        assert_eq!(cut.behind, None);
    }

    #[test]
    fn the_number_is_that_of_the_collection_or_of_the_token() {
        let token = Continue::after(Some(7), "a");
        let first = Part::default();
        let next = |left| Part {
            from: Some(&token),
            left,
            ..first
        };
        assert_eq!(number(9, None, first), Number::Known(9));
        assert_eq!(number(9, Some("ns"), first), Number::Unknown);
        for namespace in [None, Some("ns")] {
            assert_eq!(number(9, namespace, next(Some(4))), Number::Known(4));
            assert_eq!(number(9, namespace, next(None)), Number::Unknown);
        }
    }
}
