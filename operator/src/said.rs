//! The answers of the kube-apiserver: its messages in its own words, and what they mean.

/// Returns the message of a `Status`, and of any other error its `Display` text.
#[must_use]
pub fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

/// Returns whether the kube-apiserver says that a right is missing.
#[must_use]
pub fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_in_one_sentence() {
        let status = kube::core::Status {
            message: "Deployment.apps \"a\" is invalid: spec.replicas: must not be negative".into(),
            code: 422,
            ..kube::core::Status::default()
        };
        let message = status.message.clone();
        assert_eq!(said(&kube::Error::Api(status.boxed())), message);
    }
}
