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

/// Words of a 403 that says that no right is missing: a quota, a `LimitRange`, a policy or a webhook
/// refuses the object.
const ADMISSION: [&str; 5] = [
    "exceeded quota",
    "failed quota",
    " usage per ",
    "denied the request",
    "denied request",
];

/// Returns whether admission refuses an object for what it is.
#[must_use]
pub fn is_refused_by_admission(error: &kube::Error) -> bool {
    let words = |message: &str| ADMISSION.iter().any(|words| message.contains(words));
    matches!(error, kube::Error::Api(status) if status.code == 403 && words(&status.message))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::quota(
        "persistentvolumeclaims \"a\" is forbidden: exceeded quota: q, requested: \
                   persistentvolumeclaims=1, used: persistentvolumeclaims=2, limited: \
                   persistentvolumeclaims=2",
        true
    )]
    #[case::limit(
        "persistentvolumeclaims \"a\" is forbidden: maximum storage usage per \
                   PersistentVolumeClaim is 5Gi, but request is 10Gi",
        true
    )]
    #[case::webhook(
        "admission webhook \"validation.gatekeeper.sh\" denied the request: no",
        true
    )]
    #[case::policy(
        "deployments.apps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding \
                    'b' denied request: no",
        true
    )]
    #[case::right(
        "deployments.apps \"a\" is forbidden: User \"system:serviceaccount:o:o\" cannot \
                   patch resource \"deployments\" in API group \"apps\" in the namespace \"n\"",
        false
    )]
    #[case::escalation(
        "roles.rbac.authorization.k8s.io \"a\" is forbidden: user \"u\" \
                        (groups=[\"g\"]) is attempting to grant RBAC permissions not currently \
                        held",
        false
    )]
    #[case::namespace(
        "configmaps \"a\" is forbidden: unable to create new content in namespace n \
                       because it is being terminated",
        false
    )]
    fn a_refused_object_is_told_from_a_missing_right(
        #[case] message: &str,
        #[case] expected: bool,
    ) {
        let status = kube::core::Status {
            message: message.to_owned(),
            code: 403,
            ..kube::core::Status::default()
        };
        let error = kube::Error::Api(status.boxed());
        assert!(is_forbidden(&error));
        assert_eq!(is_refused_by_admission(&error), expected);
    }

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
