//! Real Kyverno under churn does not notice that its reports go to the server, back, and there again.
//! Only with `E2E_FULL`: Kyverno's build alone takes minutes, and each run a quarter of an hour.

use std::path::PathBuf;
use std::time::Duration;

use crate::common::{full, options, say};
use e2e::kyverno::{self, KyvernoOptions, Parts};
use e2e::takeover::Database;
use rstest::rstest;
use testreports::Input;

#[rstest]
#[case::embedded(Database::Embedded)]
#[case::managed(Database::Managed)]
#[tokio::test(flavor = "multi_thread")]
async fn only_in_full_runs_real_kyverno_notices_no_switch(#[case] database: Database) {
    if !full() {
        println!("left out: real Kyverno runs only with E2E_FULL (hack/test --full)");
        return;
    }
    let parts = std::env::var_os("KYVERNO_PARTS")
        .map(PathBuf::from)
        .expect("KYVERNO_PARTS names the folder that `hack/kyverno parts` prints; see hack/test");
    let logs = tempfile::tempdir().unwrap();
    let mut line = options(Input::detect(), 0);
    line.database = database;
    let run = KyvernoOptions {
        parts: Parts(parts),
        logs: logs.path().to_owned(),
        rounds: 1,
        baseline: Duration::from_secs(90),
    };
    let (_cluster, outcome) = Box::pin(kyverno::run(line, &run, say)).await.unwrap();
    println!("{outcome}");
    assert!(outcome.canaries > 0, "{outcome}");
    assert!(outcome.is_clean(), "{outcome}");
}
