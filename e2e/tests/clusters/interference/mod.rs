//! Others at work on what a migration needs, in each of its steps: CRDs that are applied, changed or
//! deleted, namespaces and APIServices that are deleted, a database that is away or full, rights that
//! are taken away, and an owner that is changed. On a control plane with two kube-apiservers.

mod alive;
mod applied;
mod case;
mod ground;
mod matrix;
mod meddle;
mod taken_back;
mod writer;

use std::time::Duration;

use e2e::processes::Processes;
use e2e::takeover::GROUPS;

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
