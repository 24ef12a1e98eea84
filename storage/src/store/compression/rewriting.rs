//! Compressing the objects of a resource anew, beside the requests.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinError;

use crate::cache::{Recompressed, Resource};
use crate::model::{BodyError, Dictionary, StoredObject};

/// Most objects that are looked at in one step.
const LOOK: usize = 2000;
/// Most objects that are compressed in one step, which takes some milliseconds, and put in place
/// behind the lock of all writers of the resource, which takes a tenth of one.
const STEP: usize = 64;
/// The pause after a step, in times of the step: a quarter of a core is used.
const REST: u32 = 3;

/// The reason why objects are not compressed anew.
#[derive(Debug, thiserror::Error)]
pub(super) enum RewriteError {
    /// A body cannot be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The compression ended without a result.
    #[error(transparent)]
    Ended(#[from] JoinError),
}

/// Compresses all objects that were compressed with an older dictionary, step by step.
///
/// # Errors
/// If a body cannot be read, which only corrupt memory can cause. The other objects stay as they
/// are.
pub(super) async fn rewrite(resource: &Resource) -> Result<(), RewriteError> {
    let mut after = None;
    loop {
        let outdated = resource.outdated(after.as_ref(), LOOK, STEP);
        if outdated.reached.is_none() {
            return Ok(());
        }
        after = outdated.reached;
        if outdated.objects.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let began = Instant::now();
        rewrite_step(resource, outdated.objects).await?;
        tokio::time::sleep(began.elapsed() * REST).await;
    }
}

async fn rewrite_step(
    resource: &Resource,
    objects: Vec<Arc<StoredObject>>,
) -> Result<(), RewriteError> {
    let dictionary = resource.dictionary();
    let compressed = tokio::task::spawn_blocking(move || compress(objects, &dictionary)).await??;
    resource.replace(&compressed);
    Ok(())
}

fn compress(
    objects: Vec<Arc<StoredObject>>,
    dictionary: &Dictionary,
) -> Result<Vec<Recompressed>, BodyError> {
    let anew = |object| Recompressed::new(object, dictionary);
    objects.into_iter().map(anew).collect()
}
