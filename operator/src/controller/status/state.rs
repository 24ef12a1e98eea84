//! The state that a reconciliation has reached, which the status tells.

use crate::certs;
use crate::controller::apply::Applied;
use crate::controller::found::Found;
use crate::controller::validate::{Reached, Refusal, Validated};
use crate::database::known::Known;
use crate::refusals::{Meaning, passing};

/// The state that a reconciliation has reached.
pub enum State<'a> {
    /// Everything was applied.
    Applied {
        /// The specification that was asked for.
        spec: &'a Validated,
        /// The reason why it is not what is asked for by now, where that cannot be carried out.
        refusal: Option<&'a Refusal>,
        /// The children as the kube-apiserver returned them.
        applied: &'a Applied,
        /// The certificates.
        certs: &'a certs::Outcome,
        /// The facts about its PostgreSQL, where it has one.
        database: Option<&'a Known>,
    },
    /// The specification cannot be carried out.
    Refused {
        /// The reason.
        refusal: &'a Refusal,
        /// The specification that is kept for clients, and how it was found.
        found: Option<(&'a Validated, &'a Found)>,
    },
    /// A step failed; it is tried again.
    Failed {
        /// The error, in one sentence.
        message: String,
        /// True when the operator lacks a right, which trying again does not give.
        forbidden: bool,
        /// The specification that is kept for clients, and how it was found.
        found: Option<(&'a Validated, &'a Found)>,
    },
    /// `spec.suspend` is set.
    Suspended {
        /// An API group is in the middle of its switch, which is brought to its end first.
        finishing: bool,
        /// The specification that was asked for.
        spec: &'a Validated,
        /// The state in which the specification that is kept for clients was found.
        found: Option<&'a Found>,
    },
    /// The object is being deleted.
    Deleting {
        /// The specification that is kept for clients, and how it was found.
        found: Option<(&'a Validated, &'a Found)>,
    },
}

impl<'a> State<'a> {
    /// Returns the state after an error; `refusal` is the meaning where a right was refused, `found`
    /// what is kept for clients all the same.
    #[must_use]
    pub fn failed(
        message: String,
        refusal: Option<Meaning>,
        found: Option<(&'a Validated, &'a Found)>,
    ) -> Self {
        let forbidden = refusal == Some(Meaning::Missing);
        let message = match refusal {
            Some(Meaning::Passing(_)) => passing(&message),
            _ => message,
        };
        Self::Failed {
            message,
            forbidden,
            found,
        }
    }

    /// Returns the specification that is kept for clients without being carried out, and how it was
    /// found.
    #[must_use]
    pub fn found(&self) -> Option<(&'a Validated, &'a Found)> {
        match self {
            Self::Refused { found, .. } | Self::Failed { found, .. } | Self::Deleting { found } => {
                *found
            }
            Self::Suspended { spec, found, .. } => found.map(|found| (*spec, found)),
            Self::Applied { .. } => None,
        }
    }

    /// Returns the facts about the PostgreSQL that clients depend on, where there is one; nothing of a
    /// server that goes, whose way back does not wait for it.
    #[must_use]
    pub fn database(&self) -> Option<&'a Known> {
        match self {
            Self::Applied { database, .. } => *database,
            Self::Refused { .. } | Self::Failed { .. } | Self::Suspended { .. } => {
                let (spec, _) = self.found()?;
                spec.postgres.as_ref().map(Reached::known)
            }
            Self::Deleting { .. } => None,
        }
    }

    /// Returns which children cannot be kept for clients, and why.
    #[must_use]
    pub fn unkept(&self) -> Option<String> {
        let (_, found) = self.found()?;
        let all = found.unkept.iter().map(|unkept| unkept.message.as_str());
        let all: Vec<&str> = all.collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
