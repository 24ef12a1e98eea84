//! The installation of Kyverno as its chart does it.

use std::path::PathBuf;
use std::time::Duration;

use super::{CONTROLLERS, KyvernoError, NAMESPACE};
use testcluster::Cluster;

/// The images of Kyverno, as `hack/lib/kyverno.sh` names the files.
const IMAGES: [&str; 4] = [
    "kyverno",
    "kyvernopre",
    "reports-controller",
    "background-controller",
];
/// Policies of the churn.
const POLICIES: &str = include_str!("../../kyverno/policies.yaml");
/// Number of times that the policies are applied until its webhooks answer.
const ATTEMPTS: u32 = 6;
const PAUSE: Duration = Duration::from_secs(10);

/// Folder that `hack/lib/kyverno.sh` prints: images, CRDs, chart and policies.
#[derive(Clone, Debug)]
pub struct Parts(pub PathBuf);

impl Parts {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Installs Kyverno and waits until its controllers are ready and its policies are accepted.
pub async fn install(
    cluster: &Cluster,
    parts: &Parts,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), KyvernoError> {
    say("loading Kyverno's images");
    for image in IMAGES {
        cluster
            .load_image(&parts.file(&format!("images/{image}.tar")))
            .await?;
    }
    say("installing Kyverno's CRDs and chart");
    apply(cluster, parts, "crds.yaml").await?;
    cluster.kubectl(["create", "namespace", NAMESPACE]).await?;
    apply(cluster, parts, "kyverno.yaml").await?;
    for controller in CONTROLLERS {
        let deployment = format!("deployment/{controller}");
        let args = [
            "-n",
            NAMESPACE,
            "rollout",
            "status",
            &deployment,
            "--timeout=300s",
        ];
        cluster.kubectl(args).await?;
    }
    say("applying the policies");
    policies(cluster, parts).await
}

/// Applies the policies. The webhooks answer some time after the pods are ready.
async fn policies(cluster: &Cluster, parts: &Parts) -> Result<(), KyvernoError> {
    let mut attempt = 1;
    loop {
        let applied = match apply(cluster, parts, "policies.yaml").await {
            Ok(()) => own_policies(cluster).await,
            Err(error) => Err(error),
        };
        match applied {
            Err(error) if attempt < ATTEMPTS => {
                tracing::info!(%error, "the policies are not accepted yet");
            }
            applied => return applied,
        }
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
    }
}

async fn own_policies(cluster: &Cluster) -> Result<(), KyvernoError> {
    cluster
        .kubectl_with_input(["apply", "-f", "-"], POLICIES)
        .await?;
    Ok(())
}

async fn apply(cluster: &Cluster, parts: &Parts, file: &str) -> Result<(), KyvernoError> {
    let path = parts.file(file);
    let mut args = ["apply", "--server-side", "--force-conflicts", "-f"]
        .map(std::ffi::OsString::from)
        .to_vec();
    args.push(path.into());
    cluster.kubectl(args).await?;
    Ok(())
}
