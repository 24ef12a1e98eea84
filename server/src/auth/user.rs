//! The identity behind a request.

use std::collections::BTreeMap;

/// The group of everyone who has proven an identity.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everyone else.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user name of everyone who has proven nothing.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

/// The users as whom kube-controller-manager runs the garbage collector: itself, or an account for that
/// controller alone.
const GARBAGE_COLLECTORS: [&str; 2] = [
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
];

/// An authenticated (or anonymous) user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct UserInfo {
    /// User name.
    pub username: String,
    /// uid, or empty.
    pub uid: String,
    /// Groups in the order in which the authenticator gave them.
    pub groups: Vec<String>,
    /// Further attributes, keys in lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// Returns the user of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            username: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Returns whether the user is the garbage collector of Kubernetes.
    #[must_use]
    pub fn collects_garbage(&self) -> bool {
        GARBAGE_COLLECTORS.contains(&self.username.as_str())
    }

    /// Returns whether the user belongs to a group.
    #[must_use]
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
