//! The time and place of a report, and its continuation by a later process.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::testing::pair;

fn status() -> GroupStatus {
    GroupStatus {
        group: "a.example".to_owned(),
        ..GroupStatus::default()
    }
}

#[test]
fn names_are_unique_and_never_too_long() {
    assert_eq!(name("prod", "a.example"), "prod-migration-a.example");
    let long = |last: &str| format!("{}.{last}", "a.".repeat(120));
    let (one, other) = (name("prod", &long("io")), name("prod", &long("ioo")));
    assert_ne!(one, other);
    assert!(one.len() <= MAX_NAME && !one.contains(".-"), "{one}");
}

fn owner() -> Owner {
    Owner {
        name: "prod".to_owned(),
        uid: "u".to_owned(),
        api_version: "reports-server.io/v1alpha1".to_owned(),
        kind: "ReportsServer".to_owned(),
    }
}

#[tokio::test]
async fn a_report_is_applied_and_what_is_read_is_what_was_written() {
    let (client, mut server) = pair();
    let api = Api::<ConfigMap>::namespaced(client, "reports");
    let mut report = MigrationReport::default();
    report.begin(StepName::Mirror, jiff::Timestamp::now());
    let written = config_map(&owner(), "a.example", &report);
    let api_ = api.clone();
    let task = tokio::spawn(async move { write(&api_, written).await });
    let request = server.next().await;
    assert_eq!(request.method, "PATCH");
    let path = "/api/v1/namespaces/reports/configmaps/prod-migration-a.example";
    assert!(request.path.starts_with(path), "{}", request.path);
    assert!(
        request
            .path
            .contains("fieldManager=reports-server-operator")
    );
    let stored = request.body.clone();
    request.answer(200, &stored);
    task.await.unwrap().unwrap();

    let task = tokio::spawn(async move { read(&api, "prod-migration-a.example").await });
    server.next().await.answer(200, &stored);
    assert_eq!(task.await.unwrap().unwrap(), Some(report));
}

#[rstest]
#[case::edited(200, json!({"metadata": {"name": "x"}, "data": {KEY: "no JSON"}}), true)]
#[case::emptied(200, json!({"metadata": {"name": "x"}}), true)]
#[case::forbidden(403, json!({"kind": "Status", "code": 403, "reason": "Forbidden",
    "status": "Failure", "message": "no"}), false)]
#[tokio::test]
async fn a_report_that_was_edited_is_begun_anew_and_one_out_of_reach_is_not(
    #[case] code: u16,
    #[case] body: serde_json::Value,
    #[case] anew: bool,
) {
    let (client, mut server) = pair();
    let api = Api::<ConfigMap>::namespaced(client, "reports");
    let task = tokio::spawn(async move { read(&api, "x").await });
    server.next().await.answer(code, &body);
    assert_eq!(matches!(task.await.unwrap(), Ok(None)), anew);
}

#[test]
fn the_config_map_goes_with_its_owner_and_is_no_child_to_sweep_away() {
    let map = config_map(&owner(), "a.example", &MigrationReport::default()).unwrap();
    let owners = map.metadata.owner_references.unwrap();
    assert_eq!((owners.len(), owners[0].uid.as_str()), (1, "u"));
    let labels = map.metadata.labels.unwrap();
    assert!(!labels.contains_key(crds::names::LABEL_OWNER));
    assert!(!labels.contains_key(crds::names::LABEL_APP_MANAGED_BY));
    let text = &map.data.unwrap()[KEY];
    assert!(serde_json::from_str::<MigrationReport>(text).is_ok());
}

#[tokio::test(start_paused = true)]
async fn news_is_written_at_once_and_a_repeated_failure_seldom() {
    let journal = Journal::default();
    journal.retry(None, "503");
    // What an earlier process has written is not overwritten unread.
    assert_eq!(journal.due(&status()), None);
    journal.resume(None);
    let (report, _) = journal.due(&status()).unwrap();
    journal.written(&report);
    journal.retry(None, "503");
    assert_eq!(journal.due(&status()), None);
    tokio::time::advance(SELDOM * 2).await;
    let (report, _) = journal.due(&status()).unwrap();
    assert_eq!(report.retries.count, 2);
    journal.written(&report);
    journal.retry(None, "504");
    assert!(journal.due(&status()).is_some());
    // One that cannot be written is not tried in every turn.
    journal.put_off();
    assert_eq!(journal.due(&status()), None);
    tokio::time::advance(SELDOM * 2).await;
    assert!(journal.due(&status()).is_some());
}

#[tokio::test]
async fn what_changes_while_it_is_written_is_written_next() {
    let journal = Journal::default();
    journal.resume(None);
    journal.end(StepName::Prune, Duration::from_secs(1));
    let (report, milestone) = journal.due(&status()).unwrap();
    assert!(milestone);
    journal.end(StepName::CloseDoor, Duration::from_secs(1));
    journal.written(&report);
    let (report, _) = journal.due(&status()).unwrap();
    assert_eq!(report.steps.len(), 2);
    journal.written(&report);
    assert_eq!(journal.due(&status()), None);
}

#[test]
fn an_earlier_report_is_gone_on_with() {
    let journal = Journal::default();
    journal.retry(None, "503");
    let mut earlier = MigrationReport::default();
    earlier.begin(StepName::Mirror, jiff::Timestamp::now());
    earlier.settle(1, &["reports/n/dropped".to_owned()]);
    let resumed = journal.resume(Some(earlier.clone()));
    assert_eq!(resumed.steps, earlier.steps);
    assert_eq!(resumed.retries.count, 1);
    // One that is read late does not undo what was done meanwhile.
    let journal = Journal::default();
    journal.end(StepName::Verify, Duration::ZERO);
    let resumed = journal.resume(Some(earlier.clone()));
    assert_eq!(resumed.steps[0].step, "Verify");
    assert_eq!(resumed.dropped, earlier.dropped, "named nowhere else");
}
