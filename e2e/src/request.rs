//! The error of a request to the kube-apiserver.

/// A request that its caller cannot do without, and that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing}: {source}")]
pub struct RequestError {
    /// The action that failed.
    doing: &'static str,
    /// The error of the kube-apiserver or the connection.
    source: kube::Error,
}

impl RequestError {
    /// Returns a function that makes the error of an action.
    pub(crate) fn of(doing: &'static str) -> impl FnOnce(kube::Error) -> Self {
        move |source| Self { doing, source }
    }
}
