//! The result of an action.

use super::AbuseError;
use crate::request::RequestError;

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// It was carried out.
    Done,
    /// The kube-apiserver has refused it.
    Refused(String),
    /// There was nothing to do it to.
    Nothing,
    /// It did not come to its end.
    Stuck(String),
}

impl Did {
    /// Returns what an answer of the kube-apiserver means.
    ///
    /// # Errors
    /// If it is no answer.
    pub fn of<T>(answer: kube::Result<T>, doing: &'static str) -> Result<Self, AbuseError> {
        match answer {
            Ok(_) => Ok(Self::Done),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Self::Nothing),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 409 | 422) => {
                Ok(Self::Refused(status.message.clone()))
            }
            Err(error) => Err(RequestError::of(doing)(error).into()),
        }
    }
}
