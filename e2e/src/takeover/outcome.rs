//! The result of the line: a table for people, JSON for machines.

use std::fmt;

use serde_json::{Value, json};

use super::Measures;
use crate::witness::Account;

/// Result of one run of the whole line.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Reports that were loaded.
    pub reports: usize,
    /// `recorded` or `generated`.
    pub input: &'static str,
    /// The database in which the servers stored them.
    pub database: &'static str,
    /// Figures before the operator was installed, etcd compacted.
    pub before: Measures,
    /// Figures after the copies were pruned, etcd compacted.
    pub after: Measures,
    /// Seconds from `kubectl apply` of the operator to `Ready`.
    pub seconds: f64,
    /// The problems that the witness noticed.
    pub account: Account,
}

impl Outcome {
    /// Returns whether nothing was lost, missed or failed, and etcd is free of reports.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.account.is_clean() && self.after.report_objects_in_etcd == 0
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "reports": self.reports,
            "input": self.input,
            "database": self.database,
            "etcd_bytes_before": self.before.etcd_bytes,
            "etcd_bytes_after": self.after.etcd_bytes,
            "report_objects_in_etcd_before": self.before.report_objects_in_etcd,
            "report_objects_in_etcd_after": self.after.report_objects_in_etcd,
            "list_ms_before": self.before.list_ms,
            "list_ms_after": self.after.list_ms,
            "apiserver_bytes_before": self.before.apiserver_bytes,
            "apiserver_bytes_after": self.after.apiserver_bytes,
            "seconds": self.seconds,
        });
        if let (Some(json), Ok(Value::Object(account))) =
            (json.as_object_mut(), serde_json::to_value(&self.account))
        {
            json.extend(account);
        }
        json
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (&self.before, &self.after);
        tell_row(f, "", ["before", "after"])?;
        tell_row(f, "reports", [before.reports, after.reports])?;
        let in_etcd = [before, after].map(|figures| figures.report_objects_in_etcd);
        tell_row(f, "report objects in etcd", in_etcd)?;
        let etcd = [before, after].map(|figures| mib(figures.etcd_bytes));
        tell_row(f, "etcd database", etcd)?;
        let lists = [before, after].map(|figures| ms(figures.list_ms));
        tell_row(f, "list of all PolicyReports", lists)?;
        let heap = [before, after].map(|figures| mib(figures.apiserver_bytes));
        tell_row(f, "kube-apiserver live heap", heap)?;
        tell(f, &self.account, self.seconds, self.database)
    }
}

/// Writes a row of the table of figures: those before and after.
pub(crate) fn tell_row<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    figures: [T; 2],
) -> fmt::Result {
    let [before, after] = figures;
    writeln!(f, "{name:<38}{before:>14}{after:>14}")
}

/// Writes the words of the witness, with the time until `Ready` and the name of the database.
pub(crate) fn tell(
    f: &mut fmt::Formatter<'_>,
    account: &Account,
    seconds: f64,
    database: &str,
) -> fmt::Result {
    writeln!(f)?;
    writeln!(
        f,
        "Witness: {} requests, {} acknowledged writes, {} events seen; Ready after {seconds:.0} s (database: {database})",
        account.requests, account.writes, account.events
    )?;
    let counts = [
        ("requests failed", account.failed_requests),
        ("longest wait (ms)", account.longest_wait_ms),
        ("watchers dead", account.watchers_dead),
        ("watches that had to list again", account.relists),
        ("events missed", account.events_missed),
        ("events duplicated", account.events_duplicated),
        ("events out of order", account.events_out_of_order),
        ("events nobody wrote", account.events_unexplained),
        ("objects lost", account.objects_lost),
        ("objects changed", account.objects_changed),
    ];
    for (name, count) in counts {
        writeln!(f, "{name:<38}{count:>14}")?;
    }
    if account.lists_expected + account.conflicts_expected > 0 {
        writeln!(
            f,
            "Expected, as our server does not know the incumbent's versions:"
        )?;
        let (lists, conflicts) = (account.lists_expected, account.conflicts_expected);
        writeln!(f, "{:<38}{lists:>14}", "watches that listed once")?;
        writeln!(f, "{:<38}{conflicts:>14}", "updates that were sent again")?;
    }
    for example in &account.examples {
        writeln!(f, "  {example}")?;
    }
    Ok(())
}

fn mib(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "printed with one digit")]
    let mib = bytes as f64 / 1_048_576.0;
    format!("{mib:.1} MiB")
}

/// Returns a time as the table shows it.
pub(crate) fn ms(ms: u64) -> String {
    format!("{ms} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_names_that_scripts_rely_on() {
        let outcome = Outcome {
            reports: 3,
            input: "generated",
            database: "embedded",
            before: Measures::default(),
            after: Measures::default(),
            seconds: 1.5,
            account: Account::default(),
        };
        let json = outcome.to_json();
        for name in [
            "reports",
            "failed_requests",
            "longest_wait_ms",
            "events_missed",
            "events_duplicated",
            "events_out_of_order",
            "watchers_dead",
            "objects_lost",
            "objects_changed",
            "etcd_bytes_before",
            "etcd_bytes_after",
            "report_objects_in_etcd_after",
            "seconds",
        ] {
            assert!(json.get(name).is_some_and(Value::is_number), "{name}");
        }
        assert_eq!(json["database"], "embedded");
        assert!(outcome.is_clean());
    }

    #[test]
    fn a_report_left_in_etcd_is_not_clean() {
        let after = Measures {
            report_objects_in_etcd: 1,
            ..Measures::default()
        };
        let outcome = Outcome {
            reports: 3,
            input: "generated",
            database: "embedded",
            before: Measures::default(),
            after,
            seconds: 1.5,
            account: Account::default(),
        };
        assert!(!outcome.is_clean());
    }
}
