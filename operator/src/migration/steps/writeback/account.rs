//! The work of a pass, counted.

use super::{Done, NAMED};
use crate::migration::cluster::pages::Key;
use crate::migration::cluster::wire::WireError;

/// The work of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Objects created or updated in etcd.
    pub written: usize,
    /// Objects deleted from etcd.
    pub deleted: usize,
    /// Objects refused by the kube-apiserver.
    pub refused: usize,
    /// The first of the refused objects, with the reasons.
    pub refused_names: Vec<String>,
}

impl Account {
    /// Adds another pass.
    pub fn add(&mut self, other: Self) {
        self.written += other.written;
        self.deleted += other.deleted;
        self.refused += other.refused;
        let room = NAMED.saturating_sub(self.refused_names.len());
        self.refused_names
            .extend(other.refused_names.into_iter().take(room));
    }

    pub(super) fn count(&mut self, key: &Key, done: &Result<Done, WireError>) {
        match done {
            Ok(Done::Written(_)) => self.written += 1,
            Ok(Done::Deleted) => self.deleted += 1,
            Ok(Done::Orphaned(_) | Done::Nothing | Done::TakenAway) => {}
            Err(error) => {
                self.refused += 1;
                if self.refused_names.len() < NAMED {
                    self.refused_names.push(format!("{key}: {error}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[test]
    fn what_a_policy_of_the_cluster_refuses_is_counted_and_the_first_named() {
        let denied = "admission webhook \"a.example.com\" denied the request";
        let mut account = Account::default();
        for number in 0..NAMED + 5 {
            let key = Key {
                namespace: "n".to_owned(),
                name: format!("r{number}"),
            };
            let refused = Err(WireError::Status {
                method: Method::POST,
                path: "/x".to_owned(),
                code: 403,
                reason: "Forbidden".to_owned(),
                message: denied.to_owned(),
                retry_after: None,
            });
            account.count(&key, &refused);
            account.count(&key, &Ok(Done::Deleted));
        }
        let Account {
            written,
            deleted,
            refused,
            refused_names,
        } = account;
        assert_eq!((written, deleted, refused), (0, NAMED + 5, NAMED + 5));
        assert_eq!(refused_names.len(), NAMED);
        let first = &refused_names[0];
        assert!(
            first.starts_with("n/r0: ") && first.contains(denied),
            "{first}"
        );
    }
}
