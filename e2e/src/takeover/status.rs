//! The status of a `ReportsServer`: what it has reached, and what is new in it.

use std::collections::HashSet;
use std::time::Instant;

use crds::v1alpha1::ReportsServer;
use crds::v1alpha1::status::MigrationPhase;
use serde_json::{Value, json};

use super::TakeoverError;

/// Returns whether `Ready` is true for the present specification.
#[must_use]
pub fn is_ready(server: &ReportsServer) -> bool {
    server.status.as_ref().is_some_and(|status| {
        status.observed_generation == server.metadata.generation
            && status
                .conditions
                .iter()
                .any(|c| c.type_ == "Ready" && c.status == "True")
    })
}

/// Returns whether every group of the specification is in a phase as wanted.
#[must_use]
pub fn all_groups(server: &ReportsServer, wanted: impl Fn(MigrationPhase) -> bool) -> bool {
    let groups = server
        .status
        .as_ref()
        .and_then(|status| status.migration.as_ref());
    let groups = groups.map_or(&[][..], |migration| migration.groups.as_slice());
    server.spec.apis.iter().all(|api| {
        groups
            .iter()
            .any(|group| group.group == api.group && wanted(group.phase))
    })
}

/// The news of a `ReportsServer` that a user would want to read while something is waited for.
pub(super) struct Heard {
    pub(super) began: Instant,
    /// The time at which its migration changed last.
    pub(super) moved: Instant,
    migration: Value,
    /// The lines that were printed.
    said: HashSet<String>,
    pub(super) last: String,
}

impl Heard {
    pub(super) fn begin() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            moved: now,
            migration: Value::Null,
            said: HashSet::new(),
            last: String::new(),
        }
    }

    pub(super) fn not_reached(self, what: &str) -> TakeoverError {
        TakeoverError::NotReached {
            what: what.to_owned(),
            waited: self.began.elapsed(),
            last: self.last,
        }
    }

    /// Takes a new state in; returns the lines that were not printed yet.
    pub(super) fn news(&mut self, server: &ReportsServer) -> Vec<String> {
        let status = server.status.as_ref();
        let migration = json!(status.and_then(|status| status.migration.as_ref()));
        if migration != self.migration {
            self.moved = Instant::now();
            self.migration = migration;
        }
        let mut news = Vec::new();
        for line in progress(server) {
            self.last.clone_from(&line);
            if self.said.insert(line.clone()) {
                let seconds = self.began.elapsed().as_secs_f64();
                news.push(format!("  {seconds:>5.1} s  {line}"));
            }
        }
        news
    }
}

fn progress(server: &ReportsServer) -> Vec<String> {
    let Some(status) = &server.status else {
        return Vec::new();
    };
    let mut lines: Vec<String> = Vec::new();
    for condition in &status.conditions {
        if matches!(
            condition.type_.as_str(),
            "Ready" | "Stalled" | "ServerAvailable"
        ) {
            lines.push(format!(
                "{}={} {}",
                condition.type_, condition.status, condition.reason
            ));
        }
    }
    for group in status
        .migration
        .iter()
        .flat_map(|migration| &migration.groups)
    {
        lines.push(format!("{}: {}", group.group, group.phase.as_str()));
    }
    lines
}
