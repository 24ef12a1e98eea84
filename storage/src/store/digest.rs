//! The stored objects, in pages, to compare with etcd.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crds::control::{API_VERSION, Digest, DigestItem, DigestSet, MAX_DIGEST_ITEMS, checksum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::{Deserialize, Serialize};

use super::committer::unavailable;
use super::{Store, StoreError};
use crate::cache::{Snapshot, SnapshotError};
use crate::model::{BodyError, GroupResource, ObjectKey, StoredObject};

/// The reason why a page of a digest cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    /// The continue token is not one of ours: 400.
    #[error("continue key is not valid")]
    Token,
    /// So much has changed since the first page that its state is gone: 410; begin again.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// An object cannot be read.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The store did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The place where a digest goes on.
#[derive(Debug, Serialize, Deserialize)]
struct Token {
    /// Version of the first page's snapshot.
    rv: u64,
    /// Namespace and name of the last entry.
    namespace: String,
    name: String,
}

impl Token {
    fn read(text: &str) -> Result<Self, DigestError> {
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|_| DigestError::Token)?;
        serde_json::from_slice(&bytes).map_err(|_| DigestError::Token)
    }

    fn write(rv: u64, last: &DigestItem) -> String {
        let token = serde_json::json!({"rv": rv, "namespace": last.namespace, "name": last.name});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }
}

impl Store {
    /// Returns one page of a digest. A `limit` of 0 means the largest page.
    ///
    /// # Errors
    /// See [`DigestError`].
    pub async fn digest(
        &self,
        resource: &GroupResource,
        set: DigestSet,
        limit: usize,
        continue_: Option<&str>,
    ) -> Result<Digest, DigestError> {
        let resource = self.known(resource)?;
        let token = continue_.map(Token::read).transpose()?;
        let limit = match limit {
            0 => MAX_DIGEST_ITEMS,
            n => n.min(MAX_DIGEST_ITEMS),
        };
        let (rv, items, more) = match set {
            DigestSet::Imported => {
                // Marks are read from the database, which may be another one by now.
                self.consistent().await?;
                let rv = token
                    .as_ref()
                    .map_or_else(|| resource.current_rv(), |t| t.rv);
                let after = token
                    .as_ref()
                    .map(|t| (t.namespace.as_str(), t.name.as_str()));
                let id = resource.record().id;
                let marks = self.engine().marks(id, after, limit + 1).await;
                let mut items = marks.map_err(unavailable)?;
                let more = items.len() > limit;
                items.truncate(limit);
                (rv, items, more)
            }
            DigestSet::Objects => {
                let snapshot = match &token {
                    Some(token) => resource.snapshot_at(token.rv).await?,
                    None => resource.snapshot(),
                };
                let rv = snapshot.rv;
                // Parsing thousands of objects for their checksums takes a while.
                let page =
                    tokio::task::spawn_blocking(move || page(&snapshot, token.as_ref(), limit));
                let (items, more) = page.await.map_err(unavailable)??;
                (rv, items, more)
            }
        };
        let continue_ = items
            .last()
            .filter(|_| more)
            .map(|last| Token::write(rv, last));
        Ok(Digest {
            api_version: API_VERSION.to_owned(),
            kind: "Digest".to_owned(),
            metadata: ListMeta {
                continue_,
                resource_version: Some(rv.to_string()),
                ..ListMeta::default()
            },
            items,
        })
    }
}

/// Returns at most `limit` objects behind `token`, by namespace, then name; and whether more
/// follow.
fn page(
    snapshot: &Snapshot,
    token: Option<&Token>,
    limit: usize,
) -> Result<(Vec<DigestItem>, bool), BodyError> {
    let from = token.map_or("", |t| &t.namespace);
    let after = token.map(|t| ObjectKey::new(&t.namespace, &t.name));
    let namespaces = snapshot.namespaces();
    let mut objects = namespaces.iter().filter(|ns| **ns >= from).flat_map(|ns| {
        let scope = (!ns.is_empty()).then_some(*ns);
        snapshot.range(scope, after.as_ref().filter(|_| *ns == from))
    });
    let items = objects
        .by_ref()
        .take(limit)
        .map(|o| entry(o))
        .collect::<Result<_, _>>()?;
    Ok((items, objects.next().is_some()))
}

fn entry(object: &StoredObject) -> Result<DigestItem, BodyError> {
    Ok(DigestItem {
        namespace: object.key.namespace().to_owned(),
        name: object.key.name().to_owned(),
        uid: object.uid.to_string(),
        resource_version: object.rv.to_string(),
        checksum: hex::encode(checksum(&object.value()?)),
        as_imported: object.as_imported,
        stored: true,
    })
}
