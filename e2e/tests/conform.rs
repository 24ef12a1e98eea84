//! The same requests to the CRDs and to our server: every case, and generated operations.
//! `hack/conform` does the same by hand.

use e2e::conform::{
    self, case, deviations,
    ground::{Ground, GroundOptions},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_cannot_tell_the_server_from_the_crd() {
    let files = case::load(&case::folder()).unwrap();
    let deviations = deviations::load(&deviations::file()).unwrap();
    let options = GroundOptions {
        all_groups: std::env::var_os("E2E_FULL").is_some(),
        ..GroundOptions::default()
    };
    let ground = Ground::start(&options).await.unwrap();
    let report = conform::run(&ground, &files, &[], &deviations).await.unwrap();
    println!("{report}");
    assert!(report.good(), "what differs is shown above");
}
