//! The refusal of a specification.

use crate::database::managed::SettingsError;

/// The reason why nothing is done. Trying again does not help: the user has to change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason of the conditions; one of [`reasons`](crds::v1alpha1::reasons).
    pub reason: &'static str,
    /// Field and remedy.
    pub message: String,
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Self {
        let SettingsError { reason, message } = error;
        Self { reason, message }
    }
}

/// Refuses, for a reason and with a message that names the field.
pub(super) fn refuse<T>(reason: &'static str, message: String) -> Result<T, Refusal> {
    Err(Refusal { reason, message })
}
