//! The search for the version at which etcd deleted an object that a list does not show any more.
//!
//! A client that has seen a deletion and then resumes its watch here sees it again at any later
//! version than etcd's. Nothing tells that version; but a list of one name at an exact version
//! tells whether the object was there, so the version can be searched for.

use std::future::Future;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use serde_json::Value;

use super::control::retry;
use super::door::objects::VERSION;
use super::pages::{Identity, identity};
use super::wire::{Wire, WireError, collection_of, query};

/// Most deletions that are searched for, each in a dozen requests or two while clients wait. A
/// group with more of them has lost a database, and its clients begin anew.
const MOST: usize = 256;
/// Searches under way at the same time.
const CONCURRENCY: usize = 8;
/// The time for which one request is tried.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns the versions at which etcd deleted `gone`, in that order: objects of one resource in the
/// states that were last seen of them, none of which a list at version `listed` showed.
///
/// Where etcd does not remember, or they are more than can be searched for, that is a version above
/// `listed`, each its own: a client that has seen the deletion sees it twice, but none misses it.
///
/// # Errors
/// See [`WireError`].
pub async fn versions(
    wire: &Wire,
    group: &str,
    plural: &str,
    gone: &[Identity],
    listed: u64,
) -> Result<Vec<u64>, WireError> {
    let sought = if gone.len() > MOST { &[] } else { gone };
    let searches: Vec<_> = sought
        .iter()
        .map(|last| {
            let there = move |at| look(wire, group, plural, last, at);
            search(last.version, listed, there).boxed()
        })
        .collect();
    let mut found: Vec<_> = stream::iter(searches)
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    found.resize(gone.len(), None);
    let mut above = listed;
    let mut next = || {
        above += 1;
        above
    };
    Ok(found
        .into_iter()
        .map(|version| version.unwrap_or_else(&mut next))
        .collect())
}

/// The memory that etcd has of an object at one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The object was there.
    There,
    /// The object was not there.
    Gone,
    /// That version is compacted.
    Forgotten,
}

/// Returns the first version without an object that was there at `with` and was not at `without`;
/// `None` where etcd has forgotten.
async fn search<F>(
    mut with: u64,
    mut without: u64,
    look: impl Fn(u64) -> F,
) -> Result<Option<u64>, WireError>
where
    F: Future<Output = Result<Then, WireError>>,
{
    let mut sure = true;
    while without.saturating_sub(with) > 1 {
        let middle = with + (without - with) / 2;
        match look(middle).await? {
            Then::Gone => without = middle,
            there_or_forgotten => {
                with = middle;
                sure = there_or_forgotten == Then::There;
            }
        }
    }
    Ok(sure.then_some(without))
}

async fn look(
    wire: &Wire,
    group: &str,
    plural: &str,
    last: &Identity,
    at: u64,
) -> Result<Then, WireError> {
    #[derive(Deserialize)]
    struct List {
        items: Option<Vec<Value>>,
    }
    let uri = query(
        &collection_of(group, VERSION, plural, &last.key.namespace),
        &[
            ("fieldSelector", &format!("metadata.name={}", last.key.name)),
            ("resourceVersion", &at.to_string()),
            ("resourceVersionMatch", "Exact"),
        ],
    );
    let answer: List = match retry(PATIENCE, || wire.get_metadata(&uri)).await {
        Ok(reply) => reply.json()?,
        Err(error) if error.code() == Some(410) => return Ok(Then::Forgotten),
        Err(error) => return Err(error),
    };
    let found = answer.items.unwrap_or_default();
    let there = found
        .iter()
        .filter_map(identity)
        .any(|one| one.uid == last.uid);
    Ok(if there { Then::There } else { Then::Gone })
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_version_is_etcds_own_or_unknown(
            created in 1u64..1000, lived in 1u64..5000, since in 0u64..5000, compacted in 0u64..12_000
        ) {
            let deleted = created + lived;
            let look = |at| async move {
                Ok(match at {
                    _ if at < compacted => Then::Forgotten,
                    _ if at < deleted => Then::There,
                    _ => Then::Gone,
                })
            };
            let found = block_on(search(created, deleted + since, look)).unwrap();
            let remembered = compacted < deleted
                || lived == 1 && (since == 0 || compacted == deleted);
            prop_assert_eq!(found, remembered.then_some(deleted));
        }
    }
}
