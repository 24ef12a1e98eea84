//! Others at work while the migration lives, in the steps that last.

use kube::core::TypeMeta;

use crate::interference::ground::{Ground, KIND, ended};
use crate::interference::meddle::{DOOMED, created, delete_namespace, namespace_goes};

/// Late writes are looked for all the time, and a CRD that is deleted and installed again has none of
/// the copies.
#[tokio::test(flavor = "multi_thread")]
async fn a_crd_that_is_replaced_while_late_writes_are_looked_for_takes_no_report_along() {
    let ground = Ground::start().await;
    let before = ground.contents().await.unwrap();
    let flags = ["--keep", "--drain-window", "20"];
    let migration = ground.processes.migrate("alive", None, &flags).unwrap();
    migration.says(&["to etcd until"]).await.unwrap();
    let (name, _) = ground.shipped_crd();
    ground.delete_crd(&name).await.unwrap();
    ground.install_crds().await.unwrap();
    // Whoever looks does so through the new CRD: this one comes.
    let late = write_through_the_door(&ground, "late").await.unwrap();
    ended(&migration).await.unwrap();
    let mut after = ground.contents().await.unwrap();
    assert!(after.remove(&late).is_some(), "{late:?} did not come");
    assert_eq!(after, before);
}

/// The copies in etcd of a namespace that was deleted while the server served can be deleted as well.
#[tokio::test(flavor = "multi_thread")]
async fn copies_in_a_namespace_that_is_gone_are_pruned() {
    let mut ground = Ground::start().await;
    ground.namespace(DOOMED).await.unwrap();
    ground.reach(false).await.unwrap();
    let uid = delete_namespace(&ground).await.unwrap();
    namespace_goes(&ground, &uid).await.unwrap();
    let cluster = &ground.processes.cluster;
    let copies = format!("/registry/{}/{}/", KIND.group(), KIND.plural());
    assert!(
        cluster
            .etcd_count(&format!("{copies}{DOOMED}/"))
            .await
            .unwrap()
            > 0
    );
    let prune = ground.processes.migrate("prune", None, &[]).unwrap();
    ended(&prune).await.unwrap();
    assert_eq!(cluster.etcd_count(&copies).await.unwrap(), 0);
}

/// Writes a report to etcd behind the server; gives its key.
async fn write_through_the_door(
    ground: &Ground,
    name: &str,
) -> anyhow::Result<(testreports::ReportKind, (String, String))> {
    let namespace = "team-00";
    let mut door = KIND.api_resource();
    "legacy".clone_into(&mut door.version);
    door.api_version = format!("{}/legacy", KIND.group());
    let reports = kube::Api::namespaced_with(ground.admin.clone(), namespace, &door);
    let mut report = ground.report(namespace, name);
    report.types = Some(TypeMeta {
        api_version: door.api_version,
        kind: door.kind,
    });
    created(&reports, &report).await?;
    Ok((KIND, (namespace.to_owned(), name.to_owned())))
}
