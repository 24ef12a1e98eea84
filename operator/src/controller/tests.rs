//! The requests that steps make, against a kube-apiserver that the test plays.

use rstest::rstest;
use serde_json::{Value, json};

use super::found::{Part, Unkept};
use super::validate::{Between, Stage, Validated};
use super::{apply, build, finalizer, fixtures};
use crate::certs::Material;
use crate::testing::pair;

fn stored(finalizers: &[&str]) -> crds::v1alpha1::ReportsServer {
    let mut object = fixtures::object(json!({}));
    object.metadata.finalizers = Some(finalizers.iter().map(|f| (*f).to_owned()).collect());
    object
}

#[tokio::test]
async fn what_cannot_be_read_is_no_reason_to_let_certificates_run_out() {
    let (client, _server) = pair();
    let ctx = fixtures::context(&client);
    let error = super::Error::Dereference(super::dereference::Error::NoIdentity);
    let object = fixtures::object(json!({}));
    assert!(super::can_be_rescued(&object, &error, &ctx));
}

#[tokio::test]
async fn the_finalizer_leaves_those_of_others_and_is_bound_to_what_was_read() {
    for (present, wanted, expected) in [
        (
            vec!["a/b"],
            true,
            json!(["a/b", "reports-server.io/apiservices"]),
        ),
        (
            vec!["a/b", "reports-server.io/apiservices"],
            false,
            json!(["a/b"]),
        ),
    ] {
        let (client, mut server) = pair();
        let object = stored(&present);
        let task = tokio::spawn(async move { finalizer::set(&client, &object, wanted).await });
        let patch = server.next().await;
        assert_eq!(patch.method, "PATCH");
        assert_eq!(patch.body["metadata"]["finalizers"], expected);
        assert_eq!(patch.body["metadata"]["resourceVersion"], "7");
        assert_eq!(patch.body["metadata"]["uid"], "uid-1");
        patch.answer(200, &serde_json::to_value(stored(&[])).unwrap());
        task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_finalizer_that_is_as_wanted_makes_no_request() {
    let (client, server) = pair();
    drop(server);
    finalizer::set(&client, &stored(&[]), false).await.unwrap();
    finalizer::set(&client, &stored(&["reports-server.io/apiservices"]), true)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_conflict_on_the_finalizer_is_told_as_one() {
    let (client, mut server) = pair();
    let task = tokio::spawn(async move { finalizer::set(&client, &stored(&[]), true).await });
    server.next().await.refuse(409, "Conflict");
    let error = super::Error::from(task.await.unwrap().unwrap_err());
    assert!(error.is_conflict());
}

/// Returns a list of metadata: a child, a leftover of ours, and a look-alike of somebody else.
fn found(own: Option<&str>) -> Value {
    let item = |name: &str, owner: &str| {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": name, "namespace": "target", "uid": format!("uid-of-{name}"),
                "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": owner}]}})
    };
    let own = own.map(|own| item(own, "uid-1"));
    let others = [item("leftover", "uid-1"), item("foreign", "uid-9")];
    let items: Vec<Value> = own.into_iter().chain(others).collect();
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
        "items": items})
}

#[tokio::test]
async fn leftovers_are_deleted_and_nothing_else() {
    let (client, mut server) = pair();
    let spec = fixtures::validated(json!({}));
    let kept = build::build(&spec, &fixtures::material(), &fixtures::operator()).kept();
    let task = tokio::spawn(async move { apply::remove_orphans(&client, &spec, &kept).await });
    // The operator of Prometheus is not installed.
    for plural in ["servicemonitors", "prometheusrules"] {
        let look = server.next().await;
        assert!(look.path.contains(plural), "{}", look.path);
        look.refuse(404, "NotFound");
    }
    let mut kinds = Vec::new();
    for (plural, own) in [
        ("horizontalpodautoscalers", None),
        ("poddisruptionbudgets", None),
        ("networkpolicies", None),
        ("cronjobs", None),
        ("jobs", None),
        ("statefulsets", None),
        ("deployments", Some("simple-server")),
        ("services", Some("simple-server")),
        ("configmaps", Some("simple-config")),
        ("secrets", Some("simple-ca")),
        ("rolebindings", Some("simple-operator")),
        ("roles", Some("simple-server")),
        ("serviceaccounts", Some("simple-server")),
    ] {
        let list = server.next().await;
        assert!(
            list.path.contains(&format!("/namespaces/target/{plural}?")),
            "{}",
            list.path
        );
        assert!(
            list.path.contains("reports-server.io%2Fname%3Dsimple"),
            "{}",
            list.path
        );
        list.answer(200, &found(own));
        let delete = server.next().await;
        assert_eq!(delete.method, "DELETE");
        assert!(
            delete.path.contains(&format!("{plural}/leftover")),
            "{}",
            delete.path
        );
        assert_eq!(delete.body["preconditions"]["uid"], "uid-of-leftover");
        delete.answer(
            200,
            &json!({"apiVersion": "v1", "kind": "Status", "status": "Success",
            "metadata": {}}),
        );
        kinds.push(plural);
    }
    // cert-manager is not installed.
    let look = server.next().await;
    let certificate = "/apis/cert-manager.io/v1/namespaces/target/certificates/simple-server";
    assert!(look.path.contains(certificate), "{}", look.path);
    look.refuse(404, "NotFound");
    let gone = task.await.unwrap().unwrap();
    assert_eq!(gone.len(), kinds.len(), "{gone:?}");
}

/// Answers as a cluster with a `Certificate` of this owner; returns what was removed.
async fn certificate_of(owner: &str, deleted: bool) -> Option<String> {
    let (client, mut server) = pair();
    let spec = fixtures::validated(json!({}));
    let task = tokio::spawn(async move { apply::remove_unasked_certificate(&client, &spec).await });
    let certificate = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "simple-server", "namespace": "target", "uid": "uid-of-it",
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": owner}]}});
    server.next().await.answer(200, &certificate);
    // The mock answers nothing more: another request would not end.
    if deleted {
        let delete = server.next().await;
        assert_eq!(delete.method, "DELETE");
        assert_eq!(delete.body["preconditions"]["uid"], "uid-of-it");
        delete.answer(
            200,
            &json!({"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}}),
        );
    }
    task.await.unwrap().unwrap()
}

#[tokio::test]
async fn a_certificate_that_nobody_asks_for_is_removed_unless_it_is_somebody_elses() {
    let removed = certificate_of("uid-1", true).await;
    assert_eq!(removed.as_deref(), Some("Certificate simple-server"));
    assert_eq!(certificate_of("uid-9", false).await, None);
}

#[tokio::test]
async fn the_control_api_of_another_is_left_alone() {
    let (client, mut server) = pair();
    let task = tokio::spawn(async move { apply::remove_control_api(&client, "uid-1").await });
    let get = server.next().await;
    assert!(
        get.path
            .contains("/apiservices/v1alpha1.control.reports-server.io"),
        "{}",
        get.path
    );
    let foreign = found(None)["items"][1].clone();
    get.answer(200, &foreign);
    // The mock answers nothing more: a DELETE would not end.
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn only_the_api_services_of_the_lost_server_are_given_back() {
    let service = |name: &str, namespace: &str| {
        json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "5"},
            "spec": {"group": "a.example", "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1,
                "service": {"namespace": namespace, "name": "simple-server", "port": 443}}})
    };
    let items = ["v1.a.example", "v1.b.example"].map(|name| service(name, "target"));
    let foreign = service("v1.c.example", "elsewhere");
    let all: Vec<Value> = items.into_iter().chain([foreign]).collect();
    let (client, mut server) = pair();
    let service_ref = crate::apiservice::ServiceRef {
        namespace: "target".into(),
        name: "simple-server".into(),
        port: 443,
    };
    let task = tokio::spawn(async move { apply::release(&client, &service_ref).await });
    let list = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIServiceList",
        "metadata": {}, "items": all});
    server.next().await.answer(200, &list);
    for (name, code) in [("v1.a.example", 200), ("v1.b.example", 404)] {
        let delete = server.next().await;
        assert_eq!(delete.method, "DELETE");
        assert!(delete.path.contains(&format!("/apiservices/{name}")));
        let uid = format!("uid-of-{name}");
        let expected = json!({"uid": uid, "resourceVersion": "5"});
        assert_eq!(delete.body["preconditions"], expected);
        if code == 200 {
            delete.answer(200, &deleted());
        } else {
            delete.refuse(code, "NotFound");
        }
    }
    // The mock answers nothing more: another DELETE would not end.
    assert_eq!(task.await.unwrap().unwrap(), ["v1.a.example"]);
}

#[tokio::test]
async fn access_is_gained_once_the_review_says_so() {
    let (client, mut server) = pair();
    let spec = fixtures::validated(json!({}));
    let operator = fixtures::operator();
    let task = tokio::spawn(async move { apply::gain_access(&client, &spec, &operator).await });
    let bind = server.next().await;
    assert_eq!(bind.method, "PATCH");
    assert!(
        bind.path
            .contains("/namespaces/target/rolebindings/simple-operator?")
    );
    assert_eq!(
        bind.body["roleRef"]["name"],
        crate::names::OPERAND_CLUSTER_ROLE
    );
    // Whoever withholds the right to bind has bound the role already.
    bind.refuse(403, "Forbidden");
    for allowed in [false, true] {
        let review = server.next().await;
        assert_eq!(
            review.body["spec"]["resourceAttributes"]["resource"],
            "secrets"
        );
        let mut answer = review.body.clone();
        answer["status"] = json!({"allowed": allowed});
        review.answer(201, &answer);
    }
    task.await.unwrap().unwrap();
}

/// Before an object is applied, it is looked whether one of that name is somebody else's.
async fn nobody_has_it(server: &mut crate::testing::Server) {
    let look = server.next().await;
    assert_eq!(look.method, "GET");
    look.refuse(404, "NotFound");
}

#[tokio::test]
async fn nothing_is_applied_over_an_object_of_somebody_else() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "target",
            "ownerReferences": [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "uid-1"}]}});
    let (client, mut server) = pair();
    let wanted = serde_json::from_value(claim).unwrap();
    let task = tokio::spawn(async move { apply::volume(&client, wanted).await });
    let theirs = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": "data", "namespace": "target",
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "managedFields": [{"manager": "helm", "operation": "Update"}]}});
    server.next().await.answer(200, &theirs);
    // The mock answers nothing more: a PATCH would not end.
    let refusal = task.await.unwrap().unwrap_err().refused().unwrap();
    assert_eq!(refusal.reason, crds::v1alpha1::reasons::FOREIGN_OBJECT);
    let told = "PersistentVolumeClaim target/data exists and does not belong to this ReportsServer (created by helm)";
    assert!(refusal.message.starts_with(told), "{}", refusal.message);
}

/// Answers as a cluster in which one object is somebody else's. Returns the kinds and names of the
/// children that were applied, with their specifications, and what was not.
async fn kept_beside(
    foreign: &str,
    spec: Validated,
    stored: &Material,
) -> (Vec<(String, Value)>, Vec<Unkept>) {
    let (client, mut server) = pair();
    let with = |material: &Material| Box::new(build::build(&spec, material, &fixtures::operator()));
    let (children, stored) = (with(&fixtures::material()), with(stored));
    let task = tokio::spawn(async move { apply::keep(&client, &spec, &children, &stored).await });
    let mut applied = Vec::new();
    while let Some(request) = server.next_if_any().await {
        let path = request.path.split('?').next().unwrap();
        let (path, name) = path.rsplit_once('/').unwrap();
        let kind = path.rsplit('/').next().unwrap();
        let child = format!("{kind}/{name}");
        if request.method == "PATCH" {
            let body = request.body.clone();
            applied.push((child, body["spec"].clone()));
            request.answer(200, &body);
        } else if child == foreign {
            let theirs = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "Helm"}}});
            request.answer(200, &theirs);
        } else {
            request.refuse(404, "NotFound");
        }
    }
    (applied, task.await.unwrap().unkept)
}

/// The kinds of the identity and the rights of a server.
const RIGHTS: [&str; 4] = [
    "serviceaccounts",
    "clusterrolebindings",
    "rolebindings",
    "roles",
];

fn is_right(child: &str) -> bool {
    let kind = child.split('/').next();
    kind.is_some_and(|kind| RIGHTS.contains(&kind))
}

/// Without its rights, a server that runs refuses every client, suspended or not.
#[tokio::test]
async fn a_right_that_was_deleted_is_given_back_where_nothing_is_carried_out() {
    let (spec, material) = (fixtures::validated(json!({})), fixtures::material());
    let (applied, unkept) = Box::pin(kept_beside("nothing", spec, &material)).await;
    let rights = applied.iter().filter(|(child, _)| is_right(child));
    let kinds: Vec<&str> = rights
        .filter_map(|(child, _)| child.split('/').next())
        .collect();
    let expected = [
        "serviceaccounts",
        "clusterrolebindings",
        "clusterrolebindings",
        "rolebindings",
        "roles",
        "rolebindings",
    ];
    assert_eq!(kinds, expected);
    assert!(unkept.is_empty(), "{unkept:?}");
}

#[tokio::test]
async fn a_right_that_cannot_be_given_is_told() {
    let (spec, material) = (fixtures::validated(json!({})), fixtures::material());
    let (applied, unkept) = Box::pin(kept_beside("roles/simple-server", spec, &material)).await;
    assert_eq!(unkept.len(), 1, "{unkept:?}");
    assert_eq!((unkept[0].part, unkept[0].foreign), (Part::Server, true));
    let mut children = applied.iter().map(|(child, _)| child.as_str());
    assert!(children.any(|child| child == "services/simple-server"));
}

#[rstest]
#[case("secrets/simple-ca", Part::Certificates, &["services/simple-server",
    "apiservices/v1alpha1.control.reports-server.io"])]
#[case("secrets/simple-serving-cert", Part::Certificates, &["secrets/simple-ca",
    "services/simple-server", "apiservices/v1alpha1.control.reports-server.io"])]
#[case("services/simple-server", Part::Server, &["secrets/simple-ca",
    "secrets/simple-serving-cert", "apiservices/v1alpha1.control.reports-server.io"])]
#[tokio::test]
async fn an_object_of_somebody_else_does_not_keep_the_others_from_being_applied(
    #[case] foreign: &str,
    #[case] part: Part,
    #[case] expected: &[&str],
) {
    let stored = Material {
        previous: vec!["stored-ca\n".to_owned()],
        ..Material::default()
    };
    let spec = fixtures::validated(json!({}));
    let (applied, unkept) = Box::pin(kept_beside(foreign, spec.clone(), &stored)).await;
    let children = applied.iter().map(|(child, _)| child.as_str());
    let children: Vec<&str> = children.filter(|child| !is_right(child)).collect();
    assert_eq!(children, expected);
    assert_eq!(unkept.len(), 1, "{unkept:?}");
    assert_eq!((unkept[0].part, unkept[0].foreign), (part, true));
    // Nobody is told to trust what is not stored.
    let trusted = if part == Part::Certificates {
        stored
    } else {
        fixtures::material()
    };
    let children = build::build(&spec, &trusted, &fixtures::operator());
    let control_api = serde_json::to_value(&children.control_api).unwrap();
    assert_eq!(applied.last().unwrap().1, control_api["spec"]);
}

/// Old pods find the reports by the order.
#[rstest]
#[case::moved(Stage::Moved, "nobody's", true)]
#[case::foreign(Stage::Moved, "secrets/simple-database-move", false)]
#[case::moving(Stage::Moving, "nobody's", false)]
#[tokio::test]
async fn the_order_by_which_the_reports_have_moved_is_kept(
    #[case] stage: Stage,
    #[case] foreign: &str,
    #[case] expected: bool,
) {
    let spec = Validated {
        between: Some(Between {
            secret: Some([("host".to_owned(), b"h".to_vec())].into()),
            ..fixtures::between(stage)
        }),
        ..fixtures::validated(json!({"database": {"mode": "External", "external": {
            "connectionSecretRef": {"name": "new"}, "sslMode": "disable"}}}))
    };
    let material = fixtures::material();
    let (applied, unkept) = Box::pin(kept_beside(foreign, spec, &material)).await;
    let children = applied.iter().map(|(child, _)| child.as_str());
    let children: Vec<&str> = children.filter(|child| !is_right(child)).collect();
    let order = "secrets/simple-database-move";
    let others = [
        "secrets/simple-ca",
        "secrets/simple-serving-cert",
        "services/simple-server",
        "apiservices/v1alpha1.control.reports-server.io",
    ];
    let kept = expected.then_some(order);
    let expected: Vec<&str> = kept.into_iter().chain(others).collect();
    assert_eq!(children, expected);
    let failed = foreign == order;
    let told: Vec<(Part, bool)> = unkept.iter().map(|u| (u.part, u.foreign)).collect();
    assert_eq!(told, vec![(Part::Server, true); usize::from(failed)]);
}

/// A size can be less than the volume's where the specification forgot about the volume: after a
/// move that was given up, or where backups were switched off and on.
#[rstest]
#[case(
    "20Gi",
    403,
    "use a storage class with allowVolumeExpansion, or set the size back"
)]
#[case(
    "5Gi",
    422,
    "spec.database.embedded.storage.size: 5Gi is less than the 10Gi of \
    PersistentVolumeClaim data, and a volume cannot be made smaller; set it to 10Gi or more"
)]
#[tokio::test]
async fn a_volume_that_cannot_get_its_size_keeps_it_and_says_so(
    #[case] wanted: &str,
    #[case] code: u16,
    #[case] expected: &str,
) {
    let claim = |size: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "target"},
            "spec": {"resources": {"requests": {"storage": size}}}})
    };
    let (client, mut server) = pair();
    let size = wanted.to_owned();
    let wanted = serde_json::from_value(claim(wanted)).unwrap();
    let task = tokio::spawn(async move { apply::volume(&client, wanted).await });
    nobody_has_it(&mut server).await;
    let grow = server.next().await;
    assert_eq!(grow.body["spec"]["resources"]["requests"]["storage"], size);
    grow.refuse(code, "Forbidden");
    server.next().await.answer(200, &claim("10Gi"));
    let keep = server.next().await;
    assert_eq!(keep.method, "PATCH");
    assert_eq!(
        keep.body["spec"]["resources"]["requests"]["storage"],
        "10Gi"
    );
    keep.answer(200, &claim("10Gi"));
    let volume = task.await.unwrap().unwrap();
    let told = volume.refused.unwrap();
    assert!(told.ends_with(expected), "{told}");
}

/// A claim cannot get another storage class. What is tried before anything is applied says so, or the
/// specification and the last one that was accepted would take turns.
#[rstest]
#[case::its_size(200, None)]
#[case::its_class(422, Some("spec.database.backup.destination.pvc.storage"))]
#[tokio::test]
async fn a_volume_that_cannot_be_as_wanted_is_found_before_anything_is_applied(
    #[case] code: u16,
    #[case] field: Option<&str>,
) {
    let claim = |size: &str, class: &str| {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "simple-backup", "namespace": "target"},
            "spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}})
    };
    let (client, mut server) = pair();
    let wanted = serde_json::from_value(claim("20Gi", "fast")).unwrap();
    let task = tokio::spawn(async move { apply::probe_volume(&client, &wanted).await });
    nobody_has_it(&mut server).await;
    let grow = server.next().await;
    assert!(grow.path.contains("dryRun=All"), "{}", grow.path);
    grow.refuse(422, "Invalid");
    server.next().await.answer(200, &claim("10Gi", "slow"));
    let keep = server.next().await;
    assert!(keep.path.contains("dryRun=All"), "{}", keep.path);
    assert_eq!(
        keep.body["spec"]["resources"]["requests"]["storage"],
        "10Gi"
    );
    if code == 200 {
        keep.answer(200, &claim("10Gi", "fast"));
    } else {
        keep.refuse(code, "Invalid");
    }
    let refusal = task.await.unwrap().err().and_then(|error| error.refused());
    let message = refusal.map(|refusal| refusal.message).unwrap_or_default();
    assert!(message.starts_with(field.unwrap_or_default()), "{message}");
    assert_eq!(message.is_empty(), field.is_none());
}

#[tokio::test]
async fn a_volume_that_is_refused_for_another_reason_is_an_error() {
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "target"},
        "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let (client, mut server) = pair();
    let wanted = serde_json::from_value(claim).unwrap();
    let task = tokio::spawn(async move { apply::volume(&client, wanted).await });
    nobody_has_it(&mut server).await;
    server.next().await.refuse(403, "Forbidden");
    // There is none yet: it is not its size that is refused.
    server.next().await.refuse(404, "NotFound");
    assert!(task.await.unwrap().unwrap_err().is_forbidden());
}

#[tokio::test]
async fn a_pod_that_is_in_the_way_is_deleted_and_no_other_of_its_name() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "simple-postgres-0", "namespace": "target", "uid": "uid-of-pod"}});
    for code in [200, 409] {
        let (client, mut server) = pair();
        let pod = serde_json::from_value(pod.clone()).unwrap();
        let task = tokio::spawn(async move { apply::give_way(&client, &pod).await });
        let delete = server.next().await;
        assert_eq!(delete.method, "DELETE");
        assert!(
            delete
                .path
                .contains("/namespaces/target/pods/simple-postgres-0"),
            "{}",
            delete.path
        );
        assert_eq!(delete.body["preconditions"]["uid"], "uid-of-pod");
        if code == 200 {
            delete.answer(200, &deleted());
        } else {
            delete.refuse(409, "Conflict");
        }
        task.await.unwrap().unwrap();
    }
}

fn deleted() -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}})
}
