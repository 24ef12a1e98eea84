//! Step 3: every object's uid, resourceVersion and checksum on both sides; with
//! [`Verification::Sample`] the checksum of a part of them ([`super::sample`]).
//!
//! A round lists etcd at one version, then asks the server. What the server has from later than
//! the list is explained by the stream. Any other difference may be an event still on its way,
//! so it is looked at again in further rounds; once the stream has passed the version of the
//! round that first saw it, and it is still the same, nothing explains it any more.

use std::collections::BTreeMap;
use std::time::Duration;

use crds::control::{DigestSet, checksum};
use crds::v1alpha1::spec::Verification;
use tokio::time::Instant;

use super::diff::{self, Comparison, Difference, Side, Snapshot, Suspects, Verdict};
use super::mirror::{Mirror, Source};
use super::sample;
use crate::migration::cluster::pages::{Key, Pages, identity};
use crate::migration::cluster::wire::WireError;

use crate::migration::plan::verified::Verified;

/// The longest time that the mirror may be behind before the sides are compared all the same.
const LAG: Duration = Duration::from_secs(5);
/// Pause between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
/// The time after which a difference counts as unexplained. Bookmarks come every minute; a stream
/// that has not passed a version for longer than this is not following.
const PATIENCE: Duration = Duration::from_secs(90);
/// The number of times that a list is begun anew because etcd has dropped its version meanwhile.
const LIST_ATTEMPTS: u32 = 5;

/// The reason why a resource is not verified.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// A side cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// There are differences that the stream does not explain.
    #[error(
        "{count} objects of {resource} differ between etcd and the server: {}; compare them with \
         `kubectl get`, and report what you find. To copy again, set owner: CRD and then owner: \
         Server",
        .named.join(", ")
    )]
    Differs {
        /// Plural name.
        resource: String,
        /// The number of these objects.
        count: usize,
        /// The first ten of them.
        named: Vec<String>,
    },
    /// The mirror has ended, so nothing can be verified.
    #[error("the mirror of {resource} has ended")]
    MirrorEnded {
        /// Plural name.
        resource: String,
    },
}

/// Verifies one resource.
///
/// # Errors
/// See [`VerifyError`].
pub async fn verify(
    source: &Source,
    mirror: &Mirror,
    how: Verification,
) -> Result<Verified, VerifyError> {
    let resource = source.plural.clone();
    let mut suspects = None::<Suspects>;
    let begun = Instant::now();
    loop {
        let progress = mirror.progress();
        if progress.finished {
            return Err(VerifyError::MirrorEnded { resource });
        }
        let turn = source.pacer.comparison().await;
        let (mut etcd, listed) = list(source, how).await?;
        if how == Verification::Sample {
            let suspects = suspects.as_ref().map(|suspects| &suspects.all);
            sample::complete(source, &mut etcd, suspects).await?;
        }
        await_newest(mirror, &etcd).await;
        let (found, verified) = compare(source, etcd, listed, how).await?;
        drop(turn);
        let overdue = begun.elapsed() > PATIENCE;
        match diff::judge(suspects.take(), found, listed, progress.position, overdue) {
            Verdict::Verified => return Ok(verified),
            Verdict::Again(rest) => suspects = Some(rest),
            Verdict::Unexplained(all) => {
                let named = diff::name_first(all.iter(), Difference::describe);
                return Err(VerifyError::Differs {
                    resource,
                    count: all.len(),
                    named,
                });
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Compares a list at version `listed` with what the server has now; returns what differs and what is
/// equal.
///
/// # Errors
/// See [`WireError`].
pub async fn compare(
    source: &Source,
    etcd: Snapshot,
    listed: u64,
    how: Verification,
) -> Result<(BTreeMap<Key, Difference>, Verified), WireError> {
    let mut comparison = Comparison::new(etcd, listed);
    let mut pages = source
        .control
        .digest_pages(&source.stored, DigestSet::Objects);
    while let Some(page) = pages.next().await? {
        for (key, side) in page.into_iter().map(diff::of_digest) {
            comparison.take(key, &side);
        }
    }
    Ok(comparison.end(how))
}

/// Waits until the server has the newest listed object, so that objects which are only on their way
/// need no second look.
async fn await_newest(mirror: &Mirror, etcd: &Snapshot) {
    let newest = etcd
        .values()
        .map(|side| side.version)
        .max()
        .unwrap_or_default();
    let mut progress = mirror.subscribe();
    let there = progress.wait_for(|p| p.position >= newest || p.finished);
    // Without it the comparison shows what is missing; that is what it is for.
    let _ = tokio::time::timeout(LAG, there).await;
}

/// Returns etcd's side, read page by page, at one version.
async fn list(source: &Source, how: Verification) -> Result<(Snapshot, u64), WireError> {
    let mut attempt = 1;
    loop {
        match list_once(source, how).await {
            Err(e) if e.code() == Some(410) && attempt < LIST_ATTEMPTS => attempt += 1,
            done => return done,
        }
    }
}

async fn list_once(source: &Source, how: Verification) -> Result<(Snapshot, u64), WireError> {
    let whole = how == Verification::Full;
    let mut snapshot = Snapshot::new();
    let mut listed = 0;
    let Some(endpoint) = source.endpoints.all.first() else {
        return Ok((snapshot, listed));
    };
    let mut pages = Pages::new(&endpoint.wire, source.path(), source.page_size, !whole);
    loop {
        source.pacer.turn().await;
        let Some(page) = pages.next().await? else {
            return Ok((snapshot, listed));
        };
        listed = page.version;
        for item in page.items {
            let object = item.object()?;
            let Some(found) = identity(&object) else {
                continue;
            };
            let side = Side {
                uid: found.uid.into(),
                version: found.version,
                checksum: whole.then(|| checksum(&object)),
                as_imported: true,
            };
            snapshot.insert(found.key, side);
        }
    }
}
