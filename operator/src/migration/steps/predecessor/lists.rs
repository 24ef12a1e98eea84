//! The lists of a predecessor. It may return a whole collection at once whatever page is asked for,
//! so namespaced objects are listed one namespace after the other.

use std::collections::BTreeSet;

use serde_json::Value;
use tokio::sync::mpsc;

use super::Source;
use crate::migration::cluster::endpoints::Endpoint;
use crate::migration::cluster::pages::{Item, Pages};
use crate::migration::cluster::wire::{WireError, collection_of};
use crate::migration::steps::mirror;

/// Sends every object to `found`, page by page.
///
/// # Errors
/// See [`WireError`].
pub async fn list(
    source: &Source,
    endpoint: &Endpoint,
    found: &mpsc::Sender<Vec<Value>>,
) -> Result<(), WireError> {
    let namespaces = if source.namespaced {
        namespaces(&source.common, endpoint).await?
    } else {
        BTreeSet::from([String::new()])
    };
    let mirror::Source {
        group,
        version,
        plural,
        page_size,
        pacer,
        ..
    } = &source.common;
    for namespace in namespaces {
        let path = collection_of(group, version, plural, &namespace);
        let mut pages = Pages::new(&endpoint.wire, path, *page_size, false);
        loop {
            pacer.turn().await;
            let Some(page) = pages.next().await? else {
                break;
            };
            let objects: Result<_, _> = page.items.iter().map(Item::object).collect();
            if found.send(objects?).await.is_err() {
                // Whoever asked has gone.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Returns the namespaces in which there are objects, those included that the cluster does not have
/// any more.
async fn namespaces(
    source: &mirror::Source,
    endpoint: &Endpoint,
) -> Result<BTreeSet<String>, WireError> {
    let mut all = BTreeSet::new();
    let mut pages = Pages::new(&endpoint.wire, source.path(), source.page_size, true);
    loop {
        source.pacer.turn().await;
        let Some(page) = pages.next().await? else {
            return Ok(all);
        };
        for item in page.items {
            let object = item.object()?;
            all.extend(object["metadata"]["namespace"].as_str().map(str::to_owned));
        }
    }
}
