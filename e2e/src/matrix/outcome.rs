//! The result of one way.

use serde_json::{Value, json};

use crate::chaos::{Flaw, Tally};
use crate::witness::Account;

/// The progress of a way, and the faults that clients noticed.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Name of the way.
    pub way: &'static str,
    /// True when the operator ran.
    pub installed: bool,
    /// True when every group was served by the server.
    pub ready: bool,
    /// True when the release before was upgraded; absent where there is none to begin with.
    pub upgraded: Option<bool>,
    /// True when it was gone back to, and upgraded again; absent where there is none, or the way
    /// does not go back.
    pub downgraded: Option<bool>,
    /// True when the groups went back and the operator away.
    pub uninstalled: bool,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Objects and events that were lost.
    pub lost: u64,
    /// Time from the first command to the last.
    pub seconds: f64,
    /// The error that ended it early.
    pub error: Option<String>,
    /// A few of the faults in words.
    pub examples: Vec<String>,
}

impl Outcome {
    /// Takes in what a witness noticed.
    pub fn notice(&mut self, account: Account) {
        self.failed_requests += account.failed_requests;
        self.lost += account.objects_lost + account.objects_changed + account.events_missed;
        self.examples.extend(account.examples);
    }

    /// Takes in what the clients of the chaos noticed.
    pub fn count(&mut self, tally: &Tally) {
        self.failed_requests += tally.flaws(Flaw::FailedRequest);
        let lost = [Flaw::Lost, Flaw::Resurrected, Flaw::Missed];
        self.lost += lost.map(|flaw| tally.flaws(flaw)).iter().sum::<u64>();
        self.examples.extend(tally.examples());
    }

    /// Returns whether everything was done, and no client noticed.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.installed
            && self.ready
            && self.upgraded != Some(false)
            && self.downgraded != Some(false)
            && self.uninstalled
            && self.failed_requests == 0
            && self.lost == 0
            && self.error.is_none()
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "way": self.way,
            "installed": self.installed,
            "ready": self.ready,
            "upgraded": self.upgraded,
            "downgraded": self.downgraded,
            "uninstalled": self.uninstalled,
            "failed_requests": self.failed_requests,
            "lost": self.lost,
            "seconds": self.seconds,
            "error": self.error,
            "examples": self.examples,
        })
    }
}

/// A way that cannot be tried here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the way.
    pub way: &'static str,
    /// The reason, and what shows that it works all the same.
    pub why: &'static str,
}

impl LeftOut {
    /// Returns the names of [`Outcome::to_json`] without figures, and the reason as the error.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "way": self.way,
            "installed": null,
            "ready": null,
            "upgraded": null,
            "downgraded": null,
            "uninstalled": null,
            "failed_requests": null,
            "lost": null,
            "seconds": null,
            "error": self.why,
            "examples": [],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_is_left_out_has_the_names_of_the_others() {
        let left_out = LeftOut {
            way: "other",
            why: "because",
        };
        let names = |json: &Value| {
            let object = json.as_object().unwrap();
            object.keys().cloned().collect::<Vec<_>>()
        };
        let json = left_out.to_json();
        assert_eq!(names(&json), names(&Outcome::default().to_json()));
        assert_eq!(
            (&json["way"], &json["error"]),
            (&json!("other"), &json!("because"))
        );
        assert!(json["installed"].is_null());
    }
}
