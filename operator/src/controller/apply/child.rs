//! The application of one child.

use std::fmt::Debug;

use crds::names::FIELD_MANAGER;
use futures::future::BoxFuture;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use super::untyped::{check_own, full_name};

/// An object that can be applied.
pub(super) trait Child:
    Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync
{
}

impl<K> Child for K where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + Debug + Send + Sync
{
}

/// The same of one in a namespace.
pub(super) trait NamespacedChild: Child + Resource<Scope = NamespaceResourceScope> {}

impl<K> NamespacedChild for K where K: Child + Resource<Scope = NamespaceResourceScope> {}

/// The work on one child. Who applies all of them would have the work of each on its stack.
pub(super) type Applying<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// Server-side apply of an object in a namespace, where there is to be one.
pub(super) fn maybe<'a, K: NamespacedChild>(
    client: &'a Client,
    object: Option<&'a K>,
) -> Applying<'a, Option<K>> {
    Box::pin(async move {
        match object {
            Some(object) => one(&inside(client, object), object).await.map(Some),
            None => Ok(None),
        }
    })
}

/// Server-side apply of one object, unless it is somebody else's. Force: the fields that we build are
/// ours, whoever wrote last.
pub(super) fn one<'a, K: Child>(api: &'a Api<K>, object: &'a K) -> Applying<'a, K> {
    Box::pin(async move {
        refuse_foreign(api, object).await?;
        named(api, object).await
    })
}

/// Returns the same without a look, where the operator has no right to it; such names begin with
/// `reports-server:` and are nobody else's.
pub(super) fn named<'a, K: Child>(api: &'a Api<K>, object: &'a K) -> Applying<'a, K> {
    Box::pin(async move { patch(api, object, &forced()).await })
}

/// Returns how children are applied. Force: the fields that we build are ours, whoever wrote last.
pub(super) fn forced() -> PatchParams {
    PatchParams::apply(FIELD_MANAGER).force()
}

/// Returns the metadata of the object of this name, if there is one.
pub(super) async fn present<K: Child>(
    api: &Api<K>,
    object: &K,
) -> Result<Option<PartialObjectMeta<K>>, Error> {
    let found = api.get_metadata_opt(&object.name_any()).await;
    found.map_err(|source| refused_to(object, source))
}

/// Makes sure that there is none of this name, or ours.
pub(super) async fn refuse_foreign<K: Child>(api: &Api<K>, object: &K) -> Result<(), Error> {
    let found = present(api, object).await?;
    check_own(&K::kind(&()), object, found.as_ref())
}

/// Returns the error of a request for an object.
pub(super) fn refused_to<K>(object: &K, source: kube::Error) -> Error
where
    K: Resource<DynamicType = ()>,
{
    Error::Apply {
        kind: K::kind(&()).into_owned(),
        name: full_name(object),
        source,
    }
}

pub(super) async fn patch<K: Child>(
    api: &Api<K>,
    object: &K,
    params: &PatchParams,
) -> Result<K, Error> {
    let name = object.name_any();
    let patched = api.patch(&name, params, &Patch::Apply(object)).await;
    patched.map_err(|source| refused_to(object, source))
}

/// Returns the pods that a selector finds, newest first.
pub(super) async fn pods(
    client: &Client,
    namespace: &str,
    selector: Option<&LabelSelector>,
) -> Result<Vec<Pod>, Error> {
    let labels = selector.and_then(|selector| selector.match_labels.clone());
    let labels = labels.unwrap_or_default().into_iter().collect();
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default().labels_from(&labels)).await;
    let mut pods = found.map_err(|source| Error::Pods { source })?.items;
    pods.sort_by_key(|pod| std::cmp::Reverse(pod.creation_timestamp().map(|time| time.0)));
    Ok(pods)
}

/// Returns the API of an object's namespace.
pub(super) fn inside<K>(client: &Client, object: &K) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}
