//! OLM v0: its two operators as processes beside the cluster, and opm, which serves the catalog of
//! each release. There is no registry, so the images of bundles come from archives, by their
//! digests.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};
use testcluster::{Cluster, Process, ProcessSpec, network, work_tree};
use tokio::process::Command;
use tokio::time::Instant;

use super::error::MatrixError;
use super::tool;
use crate::takeover::{CRD, OPERATOR_NAMESPACE};

/// Namespace of OLM.
const NAMESPACE: &str = "olm";
/// The images with which OLM unpacks a bundle, by their files among the parts.
const IMAGES: [&str; 2] = ["opm", "util"];
/// The label by which docs/uninstall.md finds the `ClusterServiceVersion`. OLM gives it to what it
/// has installed for a Subscription: the names of package and namespace, as many as fit.
const COMPONENT: &str = "operators.coreos.com/reports-server-operator.reports-server-system";
/// Longest time until something that is waited for.
const TIMEOUT: &str = "--timeout=10m";
/// Time without a write to the CRD after which OLM is taken to be done with it, and pause between two
/// looks.
const QUIET: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(500);

/// Installs OLM, whose parts `hack/olm olm0` builds, and starts it. The processes end when they are
/// dropped.
///
/// # Errors
/// If something cannot be installed or started.
pub async fn begin(cluster: &Cluster, parts: &Path) -> Result<Vec<Process>, MatrixError> {
    let images = parts.join("images");
    let mut names = Vec::new();
    for image in IMAGES {
        let archive = images.join(format!("{image}.tar"));
        cluster.load_image(&archive).await?;
        names.push(read(&archive.with_extension("name"))?.trim().to_owned());
    }
    tool::create_crds(cluster, &parts.join("crds")).await?;
    cluster.kubectl(["create", "namespace", NAMESPACE]).await?;
    let namespace = format!("--namespace={NAMESPACE}");
    let catalog = ProcessSpec::new("olm-catalog", parts.join("catalog"))
        .args([
            format!("--opmImage={}", names[0]),
            format!("--util-image={}", names[1]),
            "--set-workload-user-id=true".to_owned(),
        ])
        .args([namespace.as_str()]);
    let operator = ProcessSpec::new("olm-operator", parts.join("olm"))
        .args([namespace.as_str()])
        .env("OPERATOR_NAMESPACE", NAMESPACE)
        .env("OPERATOR_NAME", "olm-operator");
    Ok(vec![cluster.run(catalog)?, cluster.run(operator)?])
}

/// Offers a release in a catalog, asks for it as its files do, and waits until OLM has installed it
/// or upgraded to it.
///
/// # Errors
/// If that fails, or is not over in time.
pub async fn sync(cluster: &Cluster, parts: &Path, manifests: &Path) -> Result<(), MatrixError> {
    let address = free_address(cluster)?;
    let offer = cluster.directory().join(format!("olm-{}", address.port()));
    let mut command = Command::new(work_tree().join("hack/olm"));
    command.arg("offer").arg(manifests.join("olm")).arg(&offer);
    tool::run("hack/olm", command).await?;
    cluster.load_image(&offer.join("bundle.tar")).await?;
    serve(cluster, parts, &offer, address)?;
    let beside = offer.join("beside.yaml");
    let apply = ["apply".as_ref(), "-f".as_ref(), beside.as_os_str()];
    cluster.kubectl(apply).await?;
    let request = request(&offer, address)?.to_string();
    cluster
        .kubectl_with_input(["apply", "-f", "-"], &request)
        .await?;
    let version = format!("clusterserviceversion/{}", bundle(&offer)?);
    // Without the label, the page's command would find nothing, and say so without an error.
    let label = COMPONENT.replace('.', r"\.");
    let is_labelled = format!("jsonpath={{.metadata.labels.{label}}}");
    for reached in ["create", "jsonpath={.status.phase}=Succeeded", &is_labelled] {
        let reached = format!("--for={reached}");
        let wait = ["wait", &version, &reached, TIMEOUT];
        in_namespace(cluster, &wait).await?;
    }
    let complete = "--for=jsonpath={.status.phase}=Complete";
    let wait = ["wait", "installplan", "--all", complete, TIMEOUT];
    in_namespace(cluster, &wait).await
}

/// Waits until OLM does not write the CRD any more. It carries an `InstallPlan` out again while its own
/// cache has an old phase, and takes the finalizer away each time by which a deletion of the CRD waits
/// for each `ReportsServer`.
///
/// # Errors
/// If the CRD cannot be read.
pub async fn leaves_crd_alone(cluster: &Cluster) -> Result<(), MatrixError> {
    let version = "--output=jsonpath={.metadata.resourceVersion}";
    let (mut last, mut since) = (String::new(), Instant::now());
    while last.is_empty() || since.elapsed() < QUIET {
        let now = cluster.kubectl(["get", CRD, version]).await?;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Waits until OLM has been told that it may upgrade, or may not.
///
/// # Errors
/// If it is not told in time.
pub async fn is_told(cluster: &Cluster, upgradeable: bool) -> Result<(), MatrixError> {
    let path = r#"{.status.conditions[?(@.type=="Upgradeable")].status}"#;
    let value = if upgradeable { "True" } else { "False" };
    let told = format!("--for=jsonpath={path}={value}");
    in_namespace(
        cluster,
        &["wait", "operatorcondition", "--all", &told, TIMEOUT],
    )
    .await
}

async fn in_namespace(cluster: &Cluster, arguments: &[&str]) -> Result<(), MatrixError> {
    let arguments = [&["-n", OPERATOR_NAMESPACE][..], arguments].concat();
    cluster.kubectl(arguments).await?;
    Ok(())
}

/// Returns an address of the node at which nobody listens.
fn free_address(cluster: &Cluster) -> Result<SocketAddr, MatrixError> {
    let any = SocketAddr::new(IpAddr::V4(network::NODE_IP), 0);
    let address = cluster.listen(any)?.local_addr();
    address.map_err(|source| MatrixError::Start {
        program: "opm".to_owned(),
        source,
    })
}

/// Serves the catalog of an offer until the cluster ends: what is offered next has one of its own.
fn serve(
    cluster: &Cluster,
    parts: &Path,
    offer: &Path,
    address: SocketAddr,
) -> Result<(), MatrixError> {
    let port = address.port();
    let catalog = offer.join("catalog").to_string_lossy().into_owned();
    let log = offer.join("termination.log");
    let process = ProcessSpec::new(format!("opm-{port}"), parts.join("opm")).args([
        "serve".to_owned(),
        catalog,
        format!("--port={port}"),
        format!("--termination-log={}", log.display()),
        "--pprof-addr=".to_owned(),
    ]);
    std::mem::forget(cluster.run(process)?);
    Ok(())
}

/// Returns what a cluster is asked for, with the catalog at an address in place of its image.
fn request(offer: &Path, address: SocketAddr) -> Result<Value, MatrixError> {
    let mut objects = documents(&offer.join("subscription.yaml"))?;
    for object in &mut objects {
        if object["kind"] != "CatalogSource" {
            continue;
        }
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("image");
            let pod = json!({"securityContextConfig": "restricted"});
            spec.insert("grpcPodConfig".to_owned(), pod);
            spec.insert("address".to_owned(), json!(address.to_string()));
        }
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": objects}))
}

/// Returns the name of the bundle that a catalog offers, which is that of its
/// `ClusterServiceVersion`.
fn bundle(offer: &Path) -> Result<String, MatrixError> {
    let blobs = documents(&offer.join("catalog/catalog.yaml"))?;
    let bundle = blobs.iter().find(|blob| blob["schema"] == "olm.bundle");
    let name = bundle.and_then(|bundle| bundle["name"].as_str());
    let missing = || MatrixError::Example("the catalog has no bundle".to_owned());
    Ok(name.ok_or_else(missing)?.to_owned())
}

/// Returns the documents of a YAML file.
fn documents(path: &Path) -> Result<Vec<Value>, MatrixError> {
    let text = read(path)?;
    let mut documents = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&text) {
        let document = Value::deserialize(document);
        let document = document.map_err(|error| MatrixError::Example(error.to_string()))?;
        if !document.is_null() {
            documents.push(document);
        }
    }
    Ok(documents)
}

fn read(path: &Path) -> Result<String, MatrixError> {
    fs::read_to_string(path).map_err(|source| MatrixError::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::pages;

    #[test]
    fn the_page_removes_what_olm_has_installed() {
        let commands = pages::REMOVE_OLM.commands().unwrap();
        let selects = |command: &String| command.ends_with(&format!("--selector {COMPONENT}"));
        assert!(commands.iter().any(selects), "{commands:?}");
        let name = COMPONENT.split_once('/').unwrap().1;
        assert_eq!(
            name,
            format!("reports-server-operator.{OPERATOR_NAMESPACE}")
        );
        assert!(name.len() <= 63, "OLM would cut it");
    }

    #[test]
    fn the_catalog_is_asked_for_at_an_address() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/olm"));
        let address = SocketAddr::new(IpAddr::V4(network::NODE_IP), 1234);
        let request = request(folder, address).unwrap();
        let items = request["items"].as_array().unwrap();
        let source = items.iter().find(|item| item["kind"] == "CatalogSource");
        let spec = &source.unwrap()["spec"];
        assert_eq!(spec["address"], "10.200.0.1:1234");
        assert_eq!(spec.get("image"), None);
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!("reports-server-operator.v{version}");
        assert_eq!(bundle(folder).unwrap(), expected);
    }
}
