//! The counts of a report, and its bounds.

use crds::v1alpha1::spec::WorkloadKind;
use crds::v1alpha1::status::{MigrationPhase, RestartResult};

use super::*;
use crate::migration::{ResourceProgress, Workload};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn status(checksum: Option<&str>, held: Option<u64>) -> GroupStatus {
    let progress = |resource: &str| ResourceProgress {
        resource: resource.to_owned(),
        version: "v1alpha2".to_owned(),
        total: checksum.map(|_| 3),
        copied: 5,
        verified: 3,
        set_checksum: checksum.map(str::to_owned),
        ..ResourceProgress::default()
    };
    GroupStatus {
        group: "a.example".to_owned(),
        phase: MigrationPhase::Soaking,
        resources: vec![progress("reports"), progress("clusterreports")],
        held_milliseconds: held,
        ..GroupStatus::default()
    }
}

fn restart(name: &str, message: &str) -> Restart {
    Restart {
        workload: Workload {
            kind: WorkloadKind::Deployment,
            namespace: "n".repeat(63),
            name: name.to_owned(),
        },
        result: RestartResult::Restarted,
        at: at(0),
        message: message.to_owned(),
    }
}

fn run(report: &mut MigrationReport, step: StepName, second: i64) {
    report.begin(step, at(second));
    report.end(step, at(second + 1), 1000);
}

#[test]
fn counts_and_checksum_outlive_the_process_that_compared() {
    let mut report = MigrationReport::default();
    report.take_over(&status(Some("c0ffee"), None));
    assert_eq!((report.counts.copied, report.counts.verified), (6, 6));
    let checksum = report.checksum.clone();
    assert_eq!(checksum.as_ref().map(String::len), Some(64));
    // A process that did not do the copying knows no total and no checksum.
    report.take_over(&status(None, None));
    assert_eq!(report.counts.copied, 6);
    assert_eq!(report.checksum, checksum);
    report.take_over(&status(Some("other"), None));
    assert_ne!(report.checksum, checksum);
}

#[test]
fn a_checksum_of_the_whole_needs_one_of_every_resource() {
    let mut report = MigrationReport::default();
    let mut half = status(Some("c0ffee"), None);
    half.resources[0].set_checksum = None;
    report.take_over(&half);
    assert_eq!(report.checksum, None);
}

#[test]
fn the_hold_of_an_earlier_run_is_not_this_ones() {
    let mut report = MigrationReport::default();
    run(&mut report, StepName::Preflight, 0);
    report.take_over(&status(None, Some(9000)));
    assert_eq!(report.longest_hold_milliseconds, None);
    run(&mut report, StepName::SwitchOpen, 2);
    report.take_over(&status(None, Some(1200)));
    report.take_over(&status(None, Some(300)));
    assert_eq!(report.longest_hold_milliseconds, Some(1200));
}

#[test]
fn a_run_forward_after_one_back_begins_anew_and_a_repeated_step_does_not() {
    let mut report = MigrationReport::default();
    run(&mut report, StepName::Preflight, 0);
    report.fail(StepName::Mirror, at(3));
    run(&mut report, StepName::Preflight, 5);
    assert_eq!((report.steps[0].runs, report.steps[0].begun), (2, at(0)));
    run(&mut report, StepName::BackClose, 9);
    assert_eq!(report.steps.len(), 3);
    run(&mut report, StepName::Preflight, 20);
    assert_eq!(report.steps.len(), 1);
    assert_eq!(report.steps[0].begun, at(20));
}

#[test]
fn a_prune_that_was_killed_half_way_is_counted_whole() {
    let mut report = MigrationReport::default();
    report.prune_begins(1000);
    assert_eq!(report.prune_goes_on(700), 300);
    // Another process, with nothing but what was written when the first one began.
    let mut report = MigrationReport {
        counts: Counts {
            to_prune: Some(1000),
            ..Counts::default()
        },
        ..MigrationReport::default()
    };
    report.prune_begins(400);
    assert_eq!(report.prune_goes_on(2), 998);
    // And a second prune, of the two that were left and five that came later.
    report.prune_begins(7);
    assert_eq!(report.prune_goes_on(0), 1005);
}

#[test]
fn the_same_failure_in_a_row_is_one_entry() {
    let mut report = MigrationReport::default();
    let step = Some(StepName::Mirror);
    assert!(report.retry(step, "503", at(0)));
    assert!(!report.retry(step, "503", at(1)));
    assert!(report.retry(step, "504", at(2)));
    assert!(report.retry(step, "503", at(3)));
    assert_eq!(report.retries.count, 4);
    let counts: Vec<u64> = report.retries.newest.iter().map(|r| r.count).collect();
    assert_eq!(counts, [2, 1, 1]);
}

#[test]
fn an_object_whose_writes_are_dropped_again_is_in_the_report_once() {
    let mut report = MigrationReport::default();
    let names = ["policyreports/a/b", "policyreports/a/c"].map(str::to_owned);
    report.settle(2, &names[..1]);
    report.settle(3, &names);
    assert_eq!((report.counts.stragglers, report.counts.dropped), (5, 3));
    assert_eq!(report.dropped, names.into());
}

#[test]
fn every_object_whose_writes_are_dropped_is_named_while_there_is_room() {
    let mut report = MigrationReport::default();
    let namespace = "n".repeat(36);
    let name = |n: u32| format!("policyreports/{namespace}/{n:036}");
    let all: Vec<String> = (0..1_000).map(name).collect();
    report.settle(1_000, &all);
    assert_eq!(report.dropped, all.iter().cloned().collect());
    let more: Vec<String> = (0..50_000).map(name).collect();
    report.settle(49_000, &more);
    let bytes: usize = report.dropped.iter().map(String::len).sum();
    assert!(bytes <= MAX_DROPPED && report.dropped.contains(&all[999]));
    assert_eq!(report.counts.dropped, 51_000);
}

#[test]
fn the_largest_report_fits_into_a_config_map() {
    let mut report = MigrationReport::default();
    for step in StepName::ALL.into_iter().skip(1) {
        run(&mut report, step, 0);
        for n in 0..100 {
            let long = format!("{n}{}", "\u{1F980}".repeat(5000));
            report.retry(Some(step), &long, at(n));
            report.settle(1, &vec![long.clone(); 100]);
            report.prune_ends(Left::default(), &vec![long; 100]);
        }
    }
    let dropped: Vec<String> = (0..10_000).map(|n| format!("reports/n/{n:07}")).collect();
    report.settle(10_000, &dropped);
    let long = "x".repeat(63);
    let mut many = status(Some(&"0".repeat(64)), None);
    many.resources = (0..64)
        .map(|n| ResourceProgress {
            resource: format!("{long}{n}"),
            version: long.clone(),
            source_resource_version: u64::MAX.to_string(),
            ..many.resources[0].clone()
        })
        .collect();
    report.take_over(&many);
    for n in 0..100 {
        let message = start(&"\u{1F980}".repeat(5000));
        report.restart(restart(&format!("{n}{}", "x".repeat(250)), &message));
    }
    assert_eq!(report.restarts.len(), RESTARTS);
    assert_eq!(report.retries.newest.len(), RETRIES);
    let text = serde_json::to_string_pretty(&report).unwrap();
    assert!(text.len() < 250_000, "{} bytes", text.len());
}

#[test]
fn what_is_written_reads_back() {
    let mut report = MigrationReport::default();
    run(&mut report, StepName::Mirror, 0);
    report.retry(None, "no", at(1));
    report.restart(restart("a", "interrupted"));
    report.restart(restart("b", "interrupted"));
    report.restart(restart("a", "once more"));
    assert_eq!(report.restarts.len(), 2, "the newest of each");
    report.take_over(&status(Some("c0ffee"), Some(1)));
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(
        serde_json::from_str::<MigrationReport>(&text).unwrap(),
        report
    );
}
