//! The reasons that are no trouble: work that goes on, or that is done.

use super::symptom::{Advice, Seen, Symptom};
use crate::v1alpha1::conditions::{
    ADMISSION_BYPASSED, API_SERVICES_REGISTERED, CERTIFICATES_READY, DATA_MIGRATED,
    MONITORING_READY, READY, RECONCILING, ROLLBACK_AVAILABLE, SERVER_AVAILABLE, UPGRADEABLE,
};
use crate::v1alpha1::reasons;

pub(super) static WORK: Symptom = Symptom {
    title: "All is well, or work goes on",
    text: "`Stalled` is absent: the operator works or waits, and goes on by itself.",
    reasons: &[
        Advice::new(reasons::SERVING, &[Seen::True(READY)], "Nothing."),
        Advice::new(
            reasons::AS_EXPECTED,
            &[
                Seen::True(SERVER_AVAILABLE),
                Seen::True(CERTIFICATES_READY),
                Seen::True(API_SERVICES_REGISTERED),
                Seen::True(ROLLBACK_AVAILABLE),
                Seen::True(UPGRADEABLE),
                Seen::True(MONITORING_READY),
            ],
            "Nothing.",
        ),
        Advice::new(
            reasons::PROGRESSING,
            &[
                Seen::False(READY),
                Seen::True(RECONCILING),
                Seen::False(API_SERVICES_REGISTERED),
                Seen::False(DATA_MIGRATED),
                Seen::False(UPGRADEABLE),
                Seen::Unknown(ADMISSION_BYPASSED),
                Seen::Stalled,
            ],
            "Wait while the message changes. If it stays, do what it says; the log of the operator has \
             the errors of the kube-apiserver. In `Upgradeable`: replace the operator later. In \
             `Stalled`: restart the operator, whose own connection is unusable.",
        ),
        Advice::new(
            reasons::DEPENDENCY_NOT_READY,
            &[Seen::False(READY), Seen::True(RECONCILING), Seen::Message],
            "Look at `CertificatesReady`, `DatabaseReady` and `ServerAvailable`, in this order: the \
             message is that of the first that is not True.",
        ),
        Advice::new(
            reasons::APPLY_FAILED,
            &[
                Seen::False(READY),
                Seen::True(RECONCILING),
                Seen::False(CERTIFICATES_READY),
            ],
            "Read the message; it is tried again. A quota, an admission webhook or a kube-apiserver \
             that does not answer is the usual cause.",
        ),
        Advice::new(
            reasons::SUSPENDED,
            &[Seen::True(READY), Seen::False(READY)],
            "Set `spec.suspend: false` to have changes carried out. False: clients are not served, and \
             nothing is repaired.",
        ),
        Advice::new(
            reasons::DELETING,
            &[
                Seen::False(READY),
                Seen::True(RECONCILING),
                Seen::False(API_SERVICES_REGISTERED),
                Seen::False(DATA_MIGRATED),
            ],
            "Wait until all reports are back in etcd. Where that cannot be, because the CRDs are gone \
             for good: [install.md](install.md#3-back-and-away).",
        ),
        Advice::new(reasons::ROLLED_BACK, &[Seen::True(READY)], "Nothing."),
        Advice::new(
            reasons::UNKNOWN,
            &[Seen::Unknown(READY)],
            "Wait. If it stays, no operator is at work.",
        ),
    ],
};
