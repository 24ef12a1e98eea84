//! The server, and what leads to it.

use super::symptom::{Advice, Seen, Symptom};
use crate::v1alpha1::conditions::{
    CERTIFICATES_READY, MONITORING_READY, RECONCILING, ROLLBACK_AVAILABLE, SERVER_AVAILABLE,
};
use crate::v1alpha1::reasons;

pub(super) static SERVER: Symptom = Symptom {
    title: "The server is not available",
    text: "`ServerAvailable` is False: clients get 503 for groups that the server serves. \
           `kubectl get apiservices` says what the kube-apiserver sees.",
    reasons: &[
        Advice::new(
            reasons::PODS_NOT_READY,
            &[Seen::False(SERVER_AVAILABLE), Seen::True(RECONCILING)],
            "The message has the words of the pod: no node for it, no image, a container that ends. \
             `kubectl -n NAMESPACE describe pod` and its log say more. Where the server waits for its \
             database, `DatabaseReady` says why. In `Reconciling` alone, a rolling update is under way.",
        ),
        Advice::new(
            reasons::CONTROL_API_UNAVAILABLE,
            &[Seen::False(SERVER_AVAILABLE), Seen::Message],
            "Where the message names the database, `DatabaseReady` says what it lacks. Otherwise the \
             kube-apiserver does not reach the pods: check network policies and `apiServerCIDRs` \
             ([network.md](network.md#the-kube-apiserver)), and whether it can reach Services at all \
             (`kubectl get apiservice v1alpha1.control.reports-server.io -o yaml`).",
        ),
        Advice::new(
            reasons::ROTATING,
            &[Seen::True(CERTIFICATES_READY)],
            "Nothing: both CAs are trusted until everybody has the new one \
             ([certificates.md](certificates.md#replacement)).",
        ),
        Advice::new(
            reasons::CERTIFICATES_ISSUED,
            &[Seen::Event],
            "Nothing: the event says which certificate, and why.",
        ),
        Advice::new(
            reasons::CERTIFICATE_INVALID,
            &[Seen::False(CERTIFICATES_READY), Seen::Stalled],
            "Mend the Secret as the message says: key and certificate of one pair, for both names of \
             the server, by the CA that is told ([certificates.md](certificates.md#provided-by-you)). \
             Until then the certificate in use stays.",
        ),
        Advice::new(
            reasons::CERTIFICATE_EXPIRED,
            &[Seen::False(CERTIFICATES_READY), Seen::Stalled],
            "Put a new certificate into the Secret; it is taken at once. Until then the one in use stays.",
        ),
        Advice::new(
            reasons::CERTIFICATE_EXPIRING,
            &[Seen::True(CERTIFICATES_READY)],
            "Renew the certificate before the time in the message; with cert-manager, look why it does \
             not: `kubectl describe certificate NAME-server`.",
        ),
        Advice::new(
            reasons::CERTIFICATE_NOT_READY,
            &[
                Seen::False(CERTIFICATES_READY),
                Seen::True(CERTIFICATES_READY),
            ],
            "Read the message, which is cert-manager's, and look at the issuer and at the \
             CertificateRequests of the namespace. True: the one in use is good.",
        ),
        Advice::new(
            reasons::CERT_MANAGER_MISSING,
            &[Seen::False(CERTIFICATES_READY), Seen::Stalled],
            "Install cert-manager, or choose another `spec.tls.mode`. Its CRD is watched.",
        ),
        Advice::new(
            reasons::MONITORING_CRD_MISSING,
            &[Seen::False(MONITORING_READY)],
            "Install the Prometheus operator, or take the field out of `spec.monitoring`. It is looked \
             for every five minutes; nothing else waits for it.",
        ),
    ],
};

pub(super) static APIS: Symptom = Symptom {
    title: "An API is not where it should be",
    text: "`APIServicesRegistered` is False, or somebody changes APIServices. \
           `kubectl get apiservices` shows who serves: a Service, or `Local`, which is the CRD.",
    reasons: &[
        Advice::new(
            reasons::FOREIGN_API_SERVICE,
            &[Seen::Stalled],
            "The message says which Service has it. To take the group over from another server, name \
             it in `spec.apis[].from.server` ([from-reports-server.md](from-reports-server.md)); \
             otherwise stop whoever changes the APIService, or delete it once nothing needs that \
             server.",
        ),
        Advice::new(
            reasons::API_SERVICE_RESTORED,
            &[Seen::Event],
            "Stop the field manager that the message names from writing APIServices of the group: a \
             GitOps tool that has them in its repository, or a person.",
        ),
        Advice::new(
            reasons::UNSUPPORTED_VERSION,
            &[Seen::Stalled, Seen::Message],
            "Of a version that the server does not know yet: wait, then read its log. Of a resource \
             that is no report in the same version: the group cannot be moved until its CRD is in \
             another version or group.",
        ),
        Advice::new(
            reasons::SOURCE_PRUNED,
            &[Seen::True(ROLLBACK_AVAILABLE)],
            "Nothing. A way back takes longer, and reports get a new uid \
             ([migration.md](migration.md#back-owner-crd-or-deletion-with-apis-restore)).",
        ),
        Advice::new(
            reasons::CRD_MISSING,
            &[Seen::False(ROLLBACK_AVAILABLE), Seen::Stalled],
            "Install the CRDs that the message names, or keep `owner: Server` \
             ([migration.md](migration.md#a-crd-that-is-deleted)).",
        ),
    ],
};
