//! The plan of a switch, with estimates of its duration. Pure.

use super::target::Settings;

/// The time from the first request that is held to the gate that opens, and until a CRD answers
/// through its additional version afterwards.
const SWITCH_SECONDS: u64 = 15;
/// Requests a second where the settings have no bound.
const UNBOUNDED: u32 = 100;

/// The plan of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// See [`crate::migration::observe::state::Observed::plan_hash`].
    pub hash: String,
    /// Objects in etcd when they were listed.
    pub reports: u64,
    /// Size of these objects as JSON, in bytes.
    pub bytes: u64,
    /// The time that the copy and the comparison took.
    pub copy_seconds: Option<u64>,
    /// Estimate for the switch.
    pub switch_seconds: u64,
    /// Estimate for deleting the copies, where the plan deletes them.
    pub prune_seconds: Option<u64>,
}

impl Plan {
    /// Returns the plan for `reports` objects of `bytes`, in a database that is `persistent` or
    /// not.
    #[must_use]
    pub fn new(
        hash: String,
        (reports, bytes): (u64, u64),
        settings: &Settings,
        persistent: bool,
        copy_seconds: Option<u64>,
    ) -> Self {
        let pages = reports.div_ceil(u64::from(settings.page_size.max(1)));
        // Before the deletions it is looked for finalizers, and after them for what is left.
        let prunes = settings.prune_after.is_some() && persistent;
        let prune_seconds = prunes.then(|| requests(settings, reports + 2 * pages));
        Self {
            hash,
            reports,
            bytes,
            copy_seconds,
            switch_seconds: SWITCH_SECONDS + requests(settings, pages),
            prune_seconds,
        }
    }

    /// Describes the plan in one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        let copy = self.copy_seconds;
        let copy = copy.map_or_else(String::new, |seconds| format!(" in {seconds} s"));
        let prune = self.prune_seconds.map_or_else(
            || "nothing is deleted from etcd".to_owned(),
            |seconds| format!("deleting the copies from etcd takes about {seconds} s"),
        );
        format!(
            "{} reports ({} bytes as JSON) are copied and verified{copy}; a switch takes about {} s, \
             and requests wait for 1 to 2 s of it; {prune}",
            self.reports, self.bytes, self.switch_seconds
        )
    }
}

/// Returns the time for so many requests at the pace of the settings, in whole seconds.
fn requests(settings: &Settings, count: u64) -> u64 {
    let per_second = settings.max_requests_per_second.filter(|n| *n > 0);
    count.div_ceil(u64::from(per_second.unwrap_or(UNBOUNDED)))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::step::StepName;
    use super::*;
    use crate::migration::report::MigrationReport;

    fn settings(per_second: Option<u32>) -> Settings {
        Settings {
            page_size: 250,
            max_requests_per_second: per_second,
            ..Settings::default()
        }
    }

    #[test]
    fn deletions_follow_the_pace_that_is_allowed() {
        let plan = |per_second| {
            let counts = (10_000, 1 << 20);
            Plan::new("h".to_owned(), counts, &settings(per_second), true, None)
        };
        // 10,000 deletions and 80 pages; 40 pages.
        assert_eq!(plan(Some(50)).prune_seconds, Some(202));
        assert_eq!(plan(Some(50)).switch_seconds, 16);
        assert_eq!(plan(Some(500)).prune_seconds, Some(21));
        assert_eq!(plan(None).prune_seconds, Some(101));
    }

    #[test]
    fn nothing_is_deleted_where_etcd_has_the_only_durable_copy_or_the_copies_are_kept() {
        let plan = |settings, persistent| {
            Plan::new("h".to_owned(), (5, 5), &settings, persistent, None).prune_seconds
        };
        assert_eq!(plan(settings(None), false), None);
        let keep = Settings {
            prune_after: None,
            ..settings(None)
        };
        assert_eq!(plan(keep, true), None);
    }

    #[test]
    fn the_copy_is_known_once_both_steps_have_ended() {
        let mut report = MigrationReport::default();
        let at = Timestamp::UNIX_EPOCH;
        report.begin(StepName::Mirror, at);
        report.end(StepName::Mirror, at, 700);
        assert_eq!(report.copy_took(), None);
        report.begin(StepName::Verify, at);
        report.end(StepName::Verify, at, 600);
        let copy = report.copy_took();
        assert_eq!(copy, Some(2));
        let plan = Plan::new("h".to_owned(), (1, 9), &settings(None), true, copy);
        assert!(
            plan.describe()
                .contains("1 reports (9 bytes as JSON) are copied and verified in 2 s")
        );
    }
}
