//! The witness on plain CRDs: it must find nothing where nothing happens, and must find what does.

use std::sync::Arc;
use std::time::Duration;

use e2e::takeover::{GROUPS, load};
use e2e::witness::{Account, Origin, Witness, WitnessOptions, strict_client};
use kube::api::{DeleteParams, DynamicObject, ListParams};
use kube::{Api, Client};
use rstest::rstest;
use testcluster::{Cluster, ClusterOptions};
use testreports::{Corpus, Input, ReportKind};

/// Runs the witness with `input` on a cluster of its own, with `meanwhile` going on.
async fn account<F: Future<Output = ()>>(
    input: &Input,
    meanwhile: impl FnOnce(Client) -> F,
) -> Account {
    let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
    let client = cluster.client().await.unwrap();
    let corpus: Arc<Corpus> = Arc::new(input.corpus().unwrap());
    load::install_crds(&client, input.crds(&GROUPS).unwrap())
        .await
        .unwrap();
    let namespaces = load::namespaces(&client, "witness", 2).await.unwrap();
    load::load(&client, &corpus, &namespaces, 20, &|_| {})
        .await
        .unwrap();
    let options = WitnessOptions {
        origin: Origin::Kubernetes,
        namespaces,
        rate: 40.0,
        reports_per_writer: 5,
    };
    let strict = strict_client(cluster.config(0).await.unwrap()).unwrap();
    let witness = Witness::start(strict, corpus, options).await.unwrap();
    meanwhile(client).await;
    let written = async {
        while witness.so_far().0 < 400 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), written)
        .await
        .expect("400 requests in a minute");
    witness.finish().await.unwrap()
}

#[rstest]
#[case::found(Input::detect())]
#[case::generated(Input::Generated { seed: 3 })]
#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_happens_the_witness_finds_nothing(#[case] input: Input) {
    let quiet = account(&input, |_| async {}).await;
    assert!(quiet.is_clean(), "{quiet:?}");
    assert!(quiet.writes > 50 && quiet.events > 100, "{quiet:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_goes_missing_is_found_missing() {
    let trouble = account(&Input::detect(), |client| async move {
        let kind = ReportKind::ClusterPolicyReport;
        let api: Api<DynamicObject> = Api::all_with(client, &kind.api_resource());
        let some = api
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .remove(0);
        api.delete(&some.metadata.name.unwrap(), &DeleteParams::default())
            .await
            .unwrap();
    })
    .await;
    assert_eq!(trouble.objects_lost, 1, "{trouble:?}");
}
