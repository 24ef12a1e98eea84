//! The parts of the status that outlive the process that found them, and the words of progress.

use crds::v1alpha1::spec::WorkloadKind;
use crds::v1alpha1::status::RestartResult;
use serde_json::{Map, json};

use super::*;
use crate::migration::{ApiServiceStatus, ResourceProgress};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn group(switched_at: Option<Timestamp>) -> GroupStatus {
    GroupStatus {
        group: "a.example".to_owned(),
        switched_at,
        resources: vec![ResourceProgress {
            resource: "reports".to_owned(),
            ..ResourceProgress::default()
        }],
        ..GroupStatus::default()
    }
}

#[test]
fn progress_is_shown_in_the_message_and_by_itself() {
    let mut copying = group(None);
    copying.phase = MigrationPhase::Mirroring;
    copying.message = "copying the reports".to_owned();
    copying.progress = Some(migration::Counted {
        done: 1_234,
        total: 10_000,
    });
    let shown = Some("1,234/10,000");
    let status = migration(None, &[copying.clone()], at(0));
    assert_eq!(status.progress.as_deref(), shown);
    assert_eq!(status.groups[0].progress.as_deref(), shown);
    assert_eq!(
        status.message.as_deref(),
        Some("a.example: copying the reports: 1,234/10,000")
    );
    copying.problem = Some(migration::Problem {
        reason: reasons::COPYING,
        message: "503".to_owned(),
        stalled: false,
    });
    assert_eq!(words(&copying), "503");
    let done = migration(None, &[group(None)], at(1));
    assert_eq!(
        (done.progress, done.groups[0].progress.clone()),
        (None, None)
    );
}

#[test]
fn what_the_comparison_found_outlives_the_process_that_compared() {
    let mut compared = group(Some(at(0)));
    compared.resources[0].failed = Some(0);
    compared.resources[0].checksummed = Some(100);
    compared.resources[0].skipped = Some(3);
    compared.resources[0].set_checksum = Some("c0ffee".to_owned());
    let before = migration(None, &[compared], at(1));
    let found = |status: &MigrationStatus| {
        let resource = &status.resources[0];
        let checksum = resource.set_checksum.clone();
        assert_eq!(resource.checksummed, status.groups[0].checksummed);
        (
            resource.failed,
            resource.checksummed,
            resource.skipped,
            checksum,
        )
    };
    let after = migration(Some(&before), &[group(Some(at(0)))], at(2));
    let known = (Some(0), Some(100), Some(3), Some("c0ffee".to_owned()));
    assert_eq!(found(&after), known);
    // Another switch is another comparison.
    let anew = migration(Some(&before), &[group(Some(at(9)))], at(9));
    assert_eq!(found(&anew), (None, None, None, None));
}

#[test]
fn restarts_are_shown_and_kept_until_the_report_is_read_again() {
    let mut restarted = group(None);
    restarted.restarts = vec![migration::Restart {
        workload: migration::Workload {
            kind: WorkloadKind::Deployment,
            namespace: "kyverno".to_owned(),
            name: "a".to_owned(),
        },
        result: RestartResult::Restarted,
        at: at(5),
        message: "the switch was interrupted".to_owned(),
    }];
    let before = migration(None, &[restarted], at(6));
    let shown = before.groups[0].restarts.clone();
    assert_eq!((shown.len(), shown[0].name.as_str()), (1, "a"));
    assert_eq!(shown[0].time, time(at(5)));
    let after = migration(Some(&before), &[group(None)], at(7));
    assert_eq!(after.groups[0].restarts, shown);
    let mut another_run = group(None);
    another_run.report = Some(migration::ReportSummary::default());
    let after = migration(Some(&before), &[another_run], at(8));
    assert_eq!(after.groups[0].restarts, []);
}

#[test]
fn the_report_in_short_is_shown_and_kept_over_a_restart() {
    let mut reported = group(None);
    reported.report = Some(migration::ReportSummary {
        config_map: "prod-migration-a.example".to_owned(),
        retries: 2,
        last_retry: Some("Mirror: 503".to_owned()),
        longest_hold_milliseconds: Some(1200),
        ..migration::ReportSummary::default()
    });
    let before = migration(None, &[reported], at(1));
    let shown = before.groups[0].report.clone().unwrap();
    assert_eq!(shown.config_map, "prod-migration-a.example");
    assert_eq!(
        (shown.retries, shown.longest_hold_milliseconds),
        (2, Some(1200))
    );
    let after = migration(Some(&before), &[group(None)], at(2));
    assert_eq!(after.groups[0].report, Some(shown));
}

#[test]
fn the_original_is_kept_when_the_server_has_taken_over() {
    let service = |served_by, original| ApiServiceStatus {
        name: "v1.a.example".to_owned(),
        uid: None,
        served_by,
        original,
    };
    let with = |service| GroupStatus {
        api_services: vec![service],
        ..group(None)
    };
    let labels: Map<_, _> = [("labels".to_owned(), json!({"a": "b"}))]
        .into_iter()
        .collect();
    let by_crd = with(service(ServedBy::Crd, Some(labels.clone())));
    let before = apis(&[], &[by_crd], at(0));
    let by_us = with(service(ServedBy::Server, None));
    let after = apis(&before, &[by_us], at(1));
    assert_eq!(after[0].served_by, ServedBy::Server);
    assert_eq!(after[0].original, Some(labels));
}
