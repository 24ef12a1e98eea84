//! The choice of the objects that are compared by checksum with `verification: Sample`, and their
//! checksums.
//!
//! Every object is compared by uid and resourceVersion, from a list of metadata. The content of a
//! part of them is compared, too: 5 %, at least 100 of a resource, those with the smallest SHA-256
//! of their uid. A uid is random, so the part is not of one namespace or age, and it is the same
//! each time while the objects are the same.

use std::collections::BTreeMap;

use crds::control::checksum;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::diff::{Difference, Snapshot};
use super::mirror::Source;
use crate::migration::cluster::control::find;
use crate::migration::cluster::pages::{Key, identity};
use crate::migration::cluster::wire::{WireError, object};

/// Least number of objects of a resource whose content is compared.
const LEAST: usize = 100;
/// The share: one of so many objects is compared by content.
const ONE_OF: usize = 20;
/// The time for which one object is tried.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

/// Returns the number of objects, of `all`, that are compared by content.
#[must_use]
pub fn size(all: usize) -> usize {
    all.div_ceil(ONE_OF).max(LEAST).min(all)
}

/// Returns the keys in the order in which they are drawn.
fn order(etcd: &Snapshot) -> Vec<Key> {
    let mut drawn: Vec<_> = etcd
        .iter()
        .map(|(key, side)| (Sha256::digest(side.uid.as_bytes()), key))
        .collect();
    drawn.sort_unstable();
    drawn.into_iter().map(|(_, key)| key.clone()).collect()
}

/// Adds the checksums of the sample to a list of etcd, and those of the suspects of an earlier
/// round, whose content may still differ. An object that has changed since the list is left
/// without, and the next one is drawn for it.
///
/// # Errors
/// See [`WireError`].
pub async fn complete(
    source: &Source,
    etcd: &mut Snapshot,
    suspects: Option<&BTreeMap<Key, Difference>>,
) -> Result<(), WireError> {
    for key in suspects.into_iter().flat_map(BTreeMap::keys) {
        fetch(source, etcd, key).await?;
    }
    let mut wanted = size(etcd.len());
    for key in order(etcd) {
        if wanted == 0 {
            break;
        }
        if fetch(source, etcd, &key).await? {
            wanted -= 1;
        }
    }
    Ok(())
}

/// Adds the checksum of one object where it is as it was listed; returns whether it is known then.
async fn fetch(source: &Source, etcd: &mut Snapshot, key: &Key) -> Result<bool, WireError> {
    let (Some(side), Some(endpoint)) = (etcd.get_mut(key), source.endpoints.all.first()) else {
        return Ok(false);
    };
    if side.checksum.is_some() {
        return Ok(true);
    }
    let Key { namespace, name } = key;
    let path = object(
        &source.group,
        &source.version,
        &source.plural,
        namespace,
        name,
    );
    source.pacer.turn().await;
    let Some(reply) = find(PATIENCE, &endpoint.wire, &path).await? else {
        return Ok(false);
    };
    let found: Value = reply.json()?;
    let same = identity(&found).is_some_and(|i| *i.uid == *side.uid && i.version == side.version);
    if same {
        side.checksum = Some(checksum(&found));
    }
    Ok(same)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crds::v1alpha1::spec::Verification;
    use serde_json::json;

    use super::*;
    use crate::migration::cluster::control::Control;
    use crate::migration::cluster::endpoints::{Endpoint, Endpoints};
    use crate::migration::cluster::pages::Pacer;
    use crate::migration::cluster::wire::Wire;
    use crate::migration::context::hold_lock::HoldLock;
    use crate::migration::report::metrics::Metrics;
    use crate::migration::steps::diff::{Side, compare};
    use crate::testing::{Server, pair};

    fn key(name: &str) -> Key {
        Key {
            namespace: "n".to_owned(),
            name: name.to_owned(),
        }
    }

    fn listed(count: usize) -> Snapshot {
        let side = |n: usize| Side {
            uid: format!("uid-{n}").into(),
            version: 7,
            checksum: None,
            as_imported: true,
        };
        (0..count).map(|n| (key(&n.to_string()), side(n))).collect()
    }

    fn source() -> (Source, Server) {
        let (client, server) = pair();
        let wire = Wire::new(client);
        let source = Source {
            group: "g.io".to_owned(),
            version: "v1".to_owned(),
            plural: "reports".to_owned(),
            stored: "reports.g.io".to_owned(),
            endpoints: Endpoints {
                all: vec![Endpoint {
                    address: "a".to_owned(),
                    wire: wire.clone(),
                }],
                direct: true,
                alive: 1,
            },
            control: Control::new(wire),
            page_size: 10,
            pacer: Arc::new(Pacer::new("g.io", HoldLock::default(), None)),
            metrics: Arc::new(Metrics::register(
                &mut prometheus_client::registry::Registry::default(),
            )),
        };
        (source, server)
    }

    /// Answers reads of objects as they were listed, but for `changed`; returns what was read.
    async fn answer(
        mut server: Server,
        etcd: Snapshot,
        changed: Option<Key>,
        reads: usize,
    ) -> Vec<Key> {
        let mut read = Vec::new();
        for _ in 0..reads {
            let request = server.next().await;
            let name = request.path.rsplit('/').next().unwrap();
            let one = key(name);
            let version = etcd[&one].version + u64::from(Some(&one) == changed.as_ref());
            let object = json!({"kind": "Report", "spec": name, "metadata": {"name": name,
                "namespace": "n", "uid": etcd[&one].uid, "resourceVersion": version.to_string()}});
            request.answer(200, &object);
            read.push(one);
        }
        read
    }

    #[test]
    fn the_part_is_5_percent_and_at_least_100() {
        let sizes = [0, 60, 100, 2_000, 2_001, 20_000].map(size);
        assert_eq!(sizes, [0, 60, 100, 100, 101, 1_000]);
    }

    #[test]
    fn the_same_objects_are_drawn_in_the_same_order_and_not_in_that_of_their_names() {
        let drawn = order(&listed(200));
        assert_eq!(drawn, order(&listed(200)));
        let mut by_name = drawn.clone();
        by_name.sort();
        assert_ne!(drawn, by_name);
        // One more object moves none of the others.
        let more: Vec<Key> = order(&listed(201))
            .into_iter()
            .filter(|k| *k != key("200"))
            .collect();
        assert_eq!(more, drawn);
    }

    #[tokio::test]
    async fn an_object_that_has_changed_is_replaced_in_the_sample() {
        let (source, server) = source();
        let mut etcd = listed(150);
        let changed = order(&etcd)[3].clone();
        let answers = tokio::spawn(answer(server, etcd.clone(), Some(changed.clone()), 101));
        complete(&source, &mut etcd, None).await.unwrap();
        let read = answers.await.unwrap();
        assert_eq!(read, order(&etcd)[..101]);
        let sampled = etcd.values().filter(|side| side.checksum.is_some());
        assert_eq!(sampled.count(), 100);
        assert_eq!(etcd[&changed].checksum, None);
    }

    #[tokio::test]
    async fn a_suspect_is_looked_at_again_although_it_would_not_be_drawn() {
        let (source, server) = source();
        let mut etcd = listed(150);
        let suspect = order(&etcd)[149].clone();
        let mut other = etcd.clone();
        for side in other.values_mut() {
            side.checksum = Some([1; 32]);
        }
        let mut seen = etcd.clone();
        seen.get_mut(&suspect).unwrap().checksum = Some([2; 32]);
        let (suspects, _) = compare(&seen, &other, 10, Verification::Sample);
        assert_eq!(suspects.keys().collect::<Vec<_>>(), [&suspect]);
        let answers = tokio::spawn(answer(server, etcd.clone(), None, 101));
        complete(&source, &mut etcd, Some(&suspects)).await.unwrap();
        assert_eq!(answers.await.unwrap()[0], suspect);
        let (found, _) = compare(&etcd, &other, 10, Verification::Sample);
        assert!(found.contains_key(&suspect));
    }
}
