//! The client of the control API: the operator's hand on the server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crds::control::{
    self, Digest, DigestItem, DigestSet, Fence, FenceStatus, Floor, FloorSpec, Gate, GateSpec,
    ImportBatch, ImportResult, MAX_DIGEST_ITEMS, StoredResource, StoredResourceList,
};
use http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{Reply, Wire, WireError, query};

/// First pause before a transient failure is tried again; doubled up to [`MAX_BACKOFF`].
const BACKOFF: Duration = Duration::from_millis(50);
/// Longest pause between two tries.
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// The time for which a fencing token is asked for.
const FENCE_PATIENCE: Duration = Duration::from_secs(30);

/// Requests to the control API through the kube-apiserver.
#[derive(Clone)]
pub struct Control {
    wire: Wire,
    /// The fencing tokens that were taken, by name of the stored resource.
    fences: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Control {
    /// Returns a client that uses `wire` for every request.
    #[must_use]
    pub fn new(wire: Wire) -> Self {
        Self {
            wire,
            fences: Arc::default(),
        }
    }

    /// Takes a new fencing token of a resource. From then on this client's gates and imports carry
    /// it, and those of a client that took one before are refused.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn take_fence(&self, name: &str) -> Result<(), WireError> {
        let fence = Fence {
            api_version: control::API_VERSION.to_owned(),
            kind: "Fence".to_owned(),
            metadata: named(name),
            status: FenceStatus::default(),
        };
        let uri = path(name, "/fence");
        let taken: Fence = retry(FENCE_PATIENCE, || self.send(Method::POST, &uri, &fence)).await?;
        self.fences().insert(name.to_owned(), taken.status.token);
        Ok(())
    }

    /// Checks that nobody has taken a token since.
    ///
    /// # Errors
    /// 409 where somebody has; see [`WireError`].
    pub async fn check_fence(&self, name: &str) -> Result<(), WireError> {
        let uri = path(name, "/fence");
        let newest: Fence = retry(FENCE_PATIENCE, || self.wire.get(&uri))
            .await?
            .json()?;
        if self
            .fence(name)
            .is_none_or(|own| own == newest.status.token)
        {
            return Ok(());
        }
        Err(WireError::Status {
            method: Method::GET,
            path: uri,
            code: 409,
            reason: "Conflict".to_owned(),
            message: "another operator has taken over".to_owned(),
            retry_after: None,
        })
    }

    fn fence(&self, name: &str) -> Option<u64> {
        self.fences().get(name).copied()
    }

    fn fences(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns every resource of `group` that the server stores, sorted by name.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn list(&self, group: &str) -> Result<Vec<StoredResource>, WireError> {
        let list: StoredResourceList = self.wire.get(&path("", "")).await?.json()?;
        Ok(list
            .items
            .into_iter()
            .filter(|item| item.status.group == group)
            .collect())
    }

    /// Sends a batch; the answer comes once it is durable.
    ///
    /// # Errors
    /// See [`WireError`]; transient failures are not tried again here.
    pub async fn import<O: Serialize + Sync>(
        &self,
        name: &str,
        batch: &ImportBatch<O>,
    ) -> Result<ImportResult, WireError> {
        #[derive(Serialize)]
        struct Fenced<'a, O> {
            #[serde(flatten)]
            batch: &'a ImportBatch<O>,
            #[serde(skip_serializing_if = "Option::is_none")]
            fence: Option<u64>,
        }
        let fence = self.fence(name);
        self.send(
            Method::POST,
            &path(name, "/import"),
            &Fenced { batch, fence },
        )
        .await
    }

    /// Returns a digest to be read page by page; of many objects all of it takes much memory.
    #[must_use]
    pub fn digest_pages<'a>(&'a self, name: &'a str, set: DigestSet) -> DigestPages<'a> {
        DigestPages {
            control: self,
            name,
            set,
            token: Some(String::new()),
        }
    }

    /// Returns every entry of a set.
    ///
    /// # Errors
    /// See [`WireError`].
    pub async fn digest(&self, name: &str, set: DigestSet) -> Result<Vec<DigestItem>, WireError> {
        let mut pages = self.digest_pages(name, set);
        let mut items = Vec::new();
        while let Some(page) = pages.next().await? {
            items.extend(page);
        }
        Ok(items)
    }

    /// Sets the gate of a resource, and returns the one in force. A transient failure is tried
    /// again, for `patience`.
    ///
    /// # Errors
    /// The last failure once `patience` is over, at once for one that is not transient.
    pub async fn set_gate(
        &self,
        name: &str,
        mut spec: GateSpec,
        patience: Duration,
    ) -> Result<GateSpec, WireError> {
        spec.fence = self.fence(name);
        let gate = Gate {
            api_version: control::API_VERSION.to_owned(),
            kind: "Gate".to_owned(),
            metadata: named(name),
            spec,
        };
        let uri = path(name, "/gate");
        retry(patience, || self.send::<_, Gate>(Method::PUT, &uri, &gate))
            .await
            .map(|gate| gate.spec)
    }

    /// Raises the version counter, and returns the one in force; tried again as in
    /// [`Self::set_gate`].
    ///
    /// # Errors
    /// As [`Self::set_gate`].
    pub async fn raise_floor(
        &self,
        name: &str,
        version: u64,
        patience: Duration,
    ) -> Result<u64, WireError> {
        let floor = Floor {
            api_version: control::API_VERSION.to_owned(),
            kind: "Floor".to_owned(),
            metadata: named(name),
            spec: FloorSpec {
                resource_version: version.to_string(),
            },
        };
        let uri = path(name, "/floor");
        let raised = retry(patience, || {
            self.send::<_, Floor>(Method::PUT, &uri, &floor)
        })
        .await?;
        let text = raised.spec.resource_version;
        text.parse().map_err(|e| WireError::Build {
            path: uri,
            message: format!("resourceVersion {text:?} is not a number: {e}"),
        })
    }

    async fn send<B: Serialize + Sync, T: DeserializeOwned>(
        &self,
        method: Method,
        uri: &str,
        body: &B,
    ) -> Result<T, WireError> {
        let bytes = serde_json::to_vec(body).map_err(|e| WireError::Build {
            path: uri.to_owned(),
            message: e.to_string(),
        })?;
        self.wire
            .call(method, uri, "application/json", Some(bytes))
            .await?
            .json()
    }
}

/// Repeats `call` while it fails transiently, with growing pauses, until `patience` is over.
///
/// # Errors
/// The last failure.
pub async fn retry<T, F, Fut>(patience: Duration, mut call: F) -> Result<T, WireError>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, WireError>>,
{
    let deadline = tokio::time::Instant::now() + patience;
    let mut pause = BACKOFF;
    loop {
        let error = match call().await {
            Err(e) if e.is_transient() => e,
            done => return done,
        };
        let wait = error.retry_after().unwrap_or(pause).min(MAX_BACKOFF);
        if tokio::time::Instant::now() + wait >= deadline {
            return Err(error);
        }
        tokio::time::sleep(wait).await;
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

/// Returns the answer to a GET, which is tried until `patience` is over; nothing where there is no such
/// object.
///
/// # Errors
/// See [`WireError`].
pub async fn find(patience: Duration, wire: &Wire, path: &str) -> Result<Option<Reply>, WireError> {
    match retry(patience, || wire.get(path)).await {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if error.code() == Some(404) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The entries of a digest, page by page, all of the first page's version.
pub struct DigestPages<'a> {
    control: &'a Control,
    name: &'a str,
    set: DigestSet,
    token: Option<String>,
}

impl DigestPages<'_> {
    /// Returns the next page, sorted by namespace, then name, or `None` after the last.
    ///
    /// # Errors
    /// See [`WireError`]. 410 when so much has changed meanwhile that the version is gone.
    pub async fn next(&mut self) -> Result<Option<Vec<DigestItem>>, WireError> {
        let Some(token) = self.token.take() else {
            return Ok(None);
        };
        let limit = MAX_DIGEST_ITEMS.to_string();
        let set = format!("{:?}", self.set);
        let mut pairs = vec![("set", set.as_str()), ("limit", limit.as_str())];
        if !token.is_empty() {
            pairs.push(("continue", token.as_str()));
        }
        let uri = query(&path(self.name, "/digest"), &pairs);
        let page: Digest = self.control.wire.get(&uri).await?.json()?;
        self.token = page.metadata.continue_.filter(|token| !token.is_empty());
        Ok(Some(page.items))
    }
}

fn path(name: &str, subresource: &str) -> String {
    let base = format!("/apis/{}/{}", control::API_VERSION, control::PLURAL);
    if name.is_empty() {
        base
    } else {
        format!("{base}/{name}{subresource}")
    }
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn busy() -> WireError {
        WireError::Timeout {
            path: "/x".to_owned(),
            after: Duration::from_secs(1),
        }
    }

    #[tokio::test]
    async fn retry_ends_with_the_first_success() {
        let calls = AtomicU32::new(0);
        let result = retry(Duration::from_secs(10), || async {
            if calls.fetch_add(1, Ordering::Relaxed) < 3 {
                Err(busy())
            } else {
                Ok(7)
            }
        })
        .await;
        assert_eq!(result.unwrap(), 7);
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn retry_gives_up_when_patience_is_over_and_at_once_for_a_refusal() {
        let start = tokio::time::Instant::now();
        let patience = Duration::from_millis(400);
        let result = retry(patience, || async { Err::<(), _>(busy()) }).await;
        assert!(matches!(result, Err(WireError::Timeout { .. })));
        assert!(start.elapsed() <= patience);
        let calls = AtomicU32::new(0);
        let refusal = retry(Duration::from_secs(3), || async {
            calls.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>(WireError::Build {
                path: String::new(),
                message: String::new(),
            })
        })
        .await;
        assert!(refusal.is_err());
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
