//! Others at work on what a migration needs: a GitOps tool that applies the CRDs again and again, and
//! somebody who deletes the APIService. On a control plane with two kube-apiservers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod applied;
mod taken_back;

use std::time::Duration;

use e2e::{processes::Processes, takeover::GROUPS};

const REPORTS: usize = 100;
/// Field manager of whoever applies the CRDs.
const GITOPS: &str = "gitops";
const API_SERVICE: &str = "v1alpha2.wgpolicyk8s.io";
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

async fn start() -> (Processes, impl Sized) {
    let processes = Processes::start(&GROUPS[..1], REPORTS, false)
        .await
        .unwrap();
    let server = processes.serve().unwrap();
    processes.register().await.unwrap();
    (processes, server)
}
