//! Loading of CRDs, namespaces and reports into etcd, through the kube-apiserver.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::conditions::is_crd_established;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::Value;

use super::TakeoverError;
use crate::request::RequestError;
use testreports::{Corpus, Owner, ReportKind};

const MANAGER: &str = "demo";
/// The label of the namespaces that are made here, and its value.
pub const MADE: (&str, &str) = ("app.kubernetes.io/managed-by", "reports-server-demo");
const ESTABLISH_LIMIT: Duration = Duration::from_mins(1);
/// Pause between two looks at whether a new API answers.
const SERVED_PAUSE: Duration = Duration::from_millis(100);
/// Requests under way at once; the kube-apiserver of the tests has two cores at most.
const PARALLEL: usize = 16;
/// Shares of the kinds in the loaded reports, in percent.
const MIX: [(ReportKind, usize); 4] = [
    (ReportKind::PolicyReport, 70),
    (ReportKind::EphemeralReport, 15),
    (ReportKind::ClusterPolicyReport, 10),
    (ReportKind::ClusterEphemeralReport, 5),
];

/// Applies the CRDs and waits until they are served.
///
/// # Errors
/// If one is refused or not served within a minute.
pub async fn install_crds(
    client: &Client,
    definitions: Vec<CustomResourceDefinition>,
) -> Result<(), TakeoverError> {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in definitions {
        let name = crd.metadata.name.clone().unwrap_or_default();
        crds.patch(
            &name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&crd),
        )
        .await
        .map_err(RequestError::of("install a report CRD"))?;
        let served = async {
            await_condition(crds.clone(), &name, is_crd_established())
                .await
                .map(drop)?;
            answers(client, &crd).await;
            Ok::<_, kube::runtime::wait::Error>(())
        };
        match tokio::time::timeout(ESTABLISH_LIMIT, served).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(TakeoverError::Answer(format!("{name}: {error}"))),
            Err(_) => {
                return Err(TakeoverError::NotReached {
                    what: format!("the API of CRD {name}"),
                    waited: ESTABLISH_LIMIT,
                    last: String::new(),
                });
            }
        }
    }
    Ok(())
}

/// Waits until an established CRD is served: its handler follows the condition by a moment.
async fn answers(client: &Client, crd: &CustomResourceDefinition) {
    let spec = &crd.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let path = format!(
            "/apis/{}/{}/{}?limit=1",
            spec.group, version.name, spec.names.plural
        );
        let list = || async {
            let request = http::Request::get(&path).body(Vec::new()).ok()?;
            client.request::<Value>(request).await.ok()
        };
        while list().await.is_none() {
            tokio::time::sleep(SERVED_PAUSE).await;
        }
    }
}

/// Makes `count` namespaces; they own the reports that are made in them.
///
/// # Errors
/// If one of them cannot be created.
pub async fn namespaces(
    client: &Client,
    prefix: &str,
    count: usize,
) -> Result<Vec<Owner>, TakeoverError> {
    let api: Api<Namespace> = Api::all(client.clone());
    let mut owners = Vec::with_capacity(count);
    for index in 0..count {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(format!("{prefix}-{index:02}"));
        let (label, value) = MADE;
        namespace.metadata.labels = Some([(label.to_owned(), value.to_owned())].into());
        let made = api
            .create(&PostParams::default(), &namespace)
            .await
            .map_err(RequestError::of("create a namespace"))?;
        owners.push(Owner {
            namespace: made.metadata.name.unwrap_or_default(),
            uid: made.metadata.uid.unwrap_or_default(),
        });
    }
    Ok(owners)
}

/// Creates `count` reports of all kinds, mostly permanent ones.
///
/// # Errors
/// If one of them is refused.
pub async fn load(
    client: &Client,
    corpus: &Corpus,
    owners: &[Owner],
    count: usize,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), TakeoverError> {
    let done = AtomicUsize::new(0);
    let step = (count / 5).max(1);
    stream::iter(0..count)
        .map(|index| {
            let owner = &owners[index % owners.len()];
            let kind = kind_of(index);
            let report = corpus.report(kind, index, owner);
            let (client, done) = (client.clone(), &done);
            async move {
                create(client, kind, owner, report).await?;
                let so_far = done.fetch_add(1, Ordering::Relaxed) + 1;
                if so_far.is_multiple_of(step) {
                    say(&format!("  {so_far} of {count} reports"));
                }
                Ok(())
            }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<()>()
        .await
}

fn kind_of(index: usize) -> ReportKind {
    let mut place = index * 37 % 100;
    for (kind, part) in MIX {
        if place < part {
            return kind;
        }
        place -= part;
    }
    ReportKind::PolicyReport
}

async fn create(
    client: Client,
    kind: ReportKind,
    owner: &Owner,
    report: Value,
) -> Result<(), TakeoverError> {
    let resource = kind.api_resource();
    let api: Api<DynamicObject> = if kind.namespaced() {
        Api::namespaced_with(client, &owner.namespace, &resource)
    } else {
        Api::all_with(client, &resource)
    };
    let object: DynamicObject = serde_json::from_value(report)
        .map_err(|error| TakeoverError::Answer(format!("a report that is no object: {error}")))?;
    api.create(&PostParams::default(), &object)
        .await
        .map_err(RequestError::of("load a report"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_what_it_says() {
        for (kind, part) in MIX {
            assert_eq!(
                (0..1000).filter(|index| kind_of(*index) == kind).count(),
                part * 10
            );
        }
    }
}
