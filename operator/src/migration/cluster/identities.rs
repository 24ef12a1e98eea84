//! The kube-apiservers that are alive, by the Leases that they renew.
//!
//! Each kube-apiserver has a Lease in `kube-system` by which others know of it (`APIServerIdentity`,
//! on by default). It is renewed every ten seconds; that of a kube-apiserver which is gone is deleted
//! after an hour. The name is made of the name of the host, so kube-apiservers on one host share a
//! Lease: there may be more of them than are counted here.

use jiff::SignedDuration;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;

use crate::names::KUBE_SYSTEM;
use crate::said::is_forbidden;

/// The label of these Leases.
const LABEL: &str = "apiserver.kubernetes.io/identity=kube-apiserver";
/// The age beside the newest Lease up to which the holder of a Lease is taken to be alive. Five
/// renewals may fail before.
const ALIVE: SignedDuration = SignedDuration::from_mins(1);

/// Returns the number of kube-apiservers that renew their Lease; 0 where none does, or where the
/// operator may not list the Leases.
///
/// # Errors
/// If the Leases cannot be listed for another reason.
pub async fn count(client: &kube::Client) -> Result<usize, kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), KUBE_SYSTEM);
    match leases.list(&ListParams::default().labels(LABEL)).await {
        Ok(leases) => Ok(alive(&leases.items)),
        Err(error) if is_forbidden(&error) => {
            tracing::info!(%error, "the kube-apiservers cannot be counted by their Leases");
            Ok(0)
        }
        Err(error) => Err(error),
    }
}

/// Returns the number of Leases that were renewed not long before the newest one. The times are
/// compared with each other: they are those of the kube-apiservers' clocks, and ours may differ.
fn alive(leases: &[Lease]) -> usize {
    let renewed = leases.iter().filter_map(|lease| {
        let spec = lease.spec.as_ref()?;
        Some(spec.renew_time.as_ref()?.0)
    });
    let Some(newest) = renewed.clone().max() else {
        return 0;
    };
    renewed
        .filter(|at| newest.duration_since(*at) <= ALIVE)
        .count()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::pair;

    fn leases(renewed: &[&str]) -> Vec<Lease> {
        let lease = |at: &&str| {
            let value = json!({"metadata": {"name": "apiserver-a"}, "spec": {"renewTime": at}});
            serde_json::from_value(value).unwrap()
        };
        renewed.iter().map(lease).collect()
    }

    #[rstest]
    #[case::no_lease(&[], 0)]
    #[case::one(&["2026-11-29T10:00:00.000000Z"], 1)]
    #[case::all_renewed(
        &["2026-11-29T10:00:00.000000Z", "2026-11-29T10:00:07.500000Z",
          "2026-11-29T09:59:58.000000Z"],
        3
    )]
    #[case::one_is_gone(
        &["2026-11-29T10:00:00.000000Z", "2026-11-29T09:58:59.000000Z"],
        1
    )]
    #[case::one_fails_to_renew(
        &["2026-11-29T10:00:00.000000Z", "2026-11-29T09:59:00.000000Z"],
        2
    )]
    fn leases_count_that_were_renewed_within_a_minute_of_the_newest(
        #[case] renewed: &[&str],
        #[case] expected: usize,
    ) {
        assert_eq!(alive(&leases(renewed)), expected);
    }

    #[test]
    fn a_lease_that_was_never_renewed_does_not_count() {
        let lease = |spec: Value| -> Lease {
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
        };
        assert_eq!(alive(&[lease(json!({})), lease(json!(null))]), 0);
    }

    #[tokio::test]
    async fn leases_are_listed_by_their_label_in_kube_system() {
        let (client, mut server) = pair();
        let counting = tokio::spawn(async move { count(&client).await });
        let request = server.next().await;
        let (path, query) = request.path.split_once('?').unwrap();
        assert_eq!(
            path,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        );
        assert!(
            query.contains("labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver"),
            "{query}"
        );
        let lease = json!({"metadata": {"name": "apiserver-a"},
            "spec": {"renewTime": "2026-11-29T10:00:00.000000Z"}});
        let list = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "LeaseList",
            "metadata": {}, "items": [lease]});
        request.answer(200, &list);
        assert_eq!(counting.await.unwrap().unwrap(), 1);
    }

    #[rstest]
    #[case::no_right(403, "Forbidden", Some(0))]
    #[case::no_answer(500, "InternalError", None)]
    #[tokio::test]
    async fn without_the_right_nothing_is_known_and_another_failure_is_one(
        #[case] code: u16,
        #[case] reason: &'static str,
        #[case] expected: Option<usize>,
    ) {
        let (client, mut server) = pair();
        let counting = tokio::spawn(async move { count(&client).await });
        server.next().await.refuse(code, reason);
        assert_eq!(counting.await.unwrap().ok(), expected);
    }
}
