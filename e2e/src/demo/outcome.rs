//! The result of the demo on a cluster that somebody has: what its API shows.

use std::fmt;

use serde_json::{Value, json};

use crate::round_trip::WayBack;
use crate::takeover::{Figures, ms, tell, tell_row};
use crate::witness::Account;

/// The line of the table that says what is not in it.
const NOT_MEASURED: &str = "Not measured (only the demo's own cluster shows it): objects in etcd, \
     etcd database, kube-apiserver live heap.";

/// Result of the demo.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Reports that were loaded.
    pub reports: usize,
    /// `recorded` or `generated`.
    pub input: &'static str,
    /// The database in which the servers stored them.
    pub database: &'static str,
    /// Figures before the operator was installed.
    pub before: Figures,
    /// Figures after the copies in etcd were pruned.
    pub after: Figures,
    /// Seconds from `kubectl apply` of the operator to `Ready`.
    pub seconds: f64,
    /// The problems that the witness noticed.
    pub account: Account,
    /// The way back, where it was asked for.
    pub back: Option<WayBack>,
    /// A sentence about what could not be removed.
    pub left: Option<String>,
}

impl Outcome {
    /// Returns whether nothing was lost, missed or failed, and nothing of the demo is left.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.account.is_clean()
            && self.back.as_ref().is_none_or(WayBack::is_clean)
            && self.left.is_none()
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut json = json!({
            "reports": self.reports,
            "input": self.input,
            "database": self.database,
            "list_ms_before": self.before.list_ms,
            "list_ms_after": self.after.list_ms,
            "seconds": self.seconds,
            "left": self.left,
        });
        if let Some(json) = json.as_object_mut() {
            if let Ok(Value::Object(account)) = serde_json::to_value(&self.account) {
                json.extend(account);
            }
            if let Some(back) = &self.back {
                json.insert("way_back".to_owned(), back.to_json());
            }
        }
        json
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after) = (&self.before, &self.after);
        tell_row(f, "", ["before", "after"])?;
        tell_row(f, "reports", [before.reports, after.reports])?;
        let lists = [before, after].map(|figures| ms(figures.list_ms));
        tell_row(f, "list of all PolicyReports", lists)?;
        writeln!(f, "{NOT_MEASURED}")?;
        tell(f, &self.account, self.seconds, self.database)?;
        if let Some(back) = &self.back {
            write!(f, "\n{back}")?;
        }
        if let Some(left) = &self.left {
            writeln!(f, "\n{left}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            reports: 3,
            input: "generated",
            database: "embedded",
            before: Figures::default(),
            after: Figures::default(),
            seconds: 1.5,
            account: Account::default(),
            back: None,
            left: None,
        }
    }

    #[test]
    fn figures_of_the_machine_alone_are_left_out_in_one_line() {
        let table = outcome().to_string();
        let lines = table.lines().filter(|line| line.contains("etcd"));
        assert_eq!(lines.collect::<Vec<_>>(), [NOT_MEASURED], "{table}");
        assert!(outcome().to_json().get("etcd_bytes_before").is_none());
        assert_eq!(outcome().to_json()["failed_requests"], 0);
    }

    #[test]
    fn something_that_stays_is_not_clean() {
        assert!(outcome().is_clean());
        let left = Outcome {
            left: Some("a namespace stays".to_owned()),
            ..outcome()
        };
        assert!(!left.is_clean());
        assert!(left.to_string().ends_with("a namespace stays\n"));
    }
}
