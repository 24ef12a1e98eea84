//! The status as it is written, to a kube-apiserver that the test plays.

use crds::v1alpha1::{ReportsServerStatus, reports_server_crd};
use serde_json::json;

use crate::controller::fixtures;
use crate::controller::status::{Written, write};
use crate::crd_check::Installed;
use crate::testing::pair;

#[tokio::test]
async fn a_status_is_written_when_it_differs_and_by_its_own_manager() {
    let (client, mut server) = pair();
    let mut object = fixtures::object(json!({}));
    let same = ReportsServerStatus::default();
    object.status = Some(same.clone());
    assert_eq!(
        write(&client, &object, &same, &Installed::Complete)
            .await
            .unwrap(),
        Written::Unchanged
    );

    let other = ReportsServerStatus {
        observed_generation: Some(3),
        ..same
    };
    for (code, expected) in [(200, Written::Changed), (404, Written::Gone)] {
        let (client, object, other) = (client.clone(), object.clone(), other.clone());
        let task =
            tokio::spawn(
                async move { write(&client, &object, &other, &Installed::Complete).await },
            );
        let patch = server.next().await;
        assert!(
            patch.path.contains("/reportsservers/simple/status?"),
            "{}",
            patch.path
        );
        assert!(
            patch
                .path
                .contains("fieldManager=reports-server-operator-status")
        );
        assert_eq!(patch.body["status"], json!({"observedGeneration": 3}));
        if code == 404 {
            patch.refuse(404, "NotFound");
        } else {
            patch.answer(
                200,
                &serde_json::to_value(fixtures::object(json!({}))).unwrap(),
            );
        }
        assert_eq!(task.await.unwrap().unwrap(), expected);
    }
}

/// The CRD has no field of the status but `observedGeneration`.
#[tokio::test]
async fn a_status_is_written_as_the_crd_takes_it_and_once() {
    let (client, mut server) = pair();
    let mut crd = reports_server_crd().unwrap();
    let own = serde_json::to_value(&crd.spec.versions[0]).unwrap();
    let own = own["schema"]["openAPIV3Schema"].clone();
    let mut schema = own.clone();
    let number = json!({"type": "integer"});
    schema["properties"]["status"] =
        json!({"type": "object", "properties": {"observedGeneration": number}});
    let validation = json!({"openAPIV3Schema": schema});
    crd.spec.versions[0].schema = Some(serde_json::from_value(validation).unwrap());
    let older = Installed::of(&own, &crd);

    let mut object = fixtures::object(json!({}));
    let status = ReportsServerStatus {
        observed_generation: Some(3),
        served: Some("1/1".to_owned()),
        ..ReportsServerStatus::default()
    };
    let (first, wanted, takes) = (object.clone(), status.clone(), older.clone());
    let again = client.clone();
    let task = tokio::spawn(async move { write(&client, &first, &wanted, &takes).await });
    let patch = server.next().await;
    assert_eq!(patch.body["status"], json!({"observedGeneration": 3}));
    patch.answer(200, &serde_json::to_value(&object).unwrap());
    assert_eq!(task.await.unwrap().unwrap(), Written::Changed);

    drop(server);
    object.status = Some(ReportsServerStatus {
        observed_generation: Some(3),
        ..ReportsServerStatus::default()
    });
    let written = write(&again, &object, &status, &older).await;
    assert_eq!(written.unwrap(), Written::Unchanged);
}
