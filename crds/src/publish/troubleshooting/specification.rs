//! A specification that is not carried out.

use super::symptom::{Advice, Seen, Symptom};
use crate::v1alpha1::conditions::{ADMISSION_BYPASSED, CERTIFICATES_READY, SERVER_AVAILABLE};
use crate::v1alpha1::reasons;

pub(super) static REFUSED: Symptom = Symptom {
    title: "The specification is not carried out",
    text: "`Stalled` is True: trying again cannot help, somebody has to act. What was last accepted \
           stays in force, certificates are renewed, and clients are served \
           ([install.md](install.md#what-is-kept-when-nothing-may-be-changed)). A corrected \
           `ReportsServer` is taken up at once.",
    reasons: &[
        Advice::new(
            reasons::INVALID_SPEC,
            &[Seen::Stalled, Seen::Event],
            "Change the field that the message names. All fields: \
             [reference/reportsserver.md](reference/reportsserver.md). As an event alone: the object \
             cannot be read at all, because it was stored under another CRD; apply it again.",
        ),
        Advice::new(
            reasons::NOT_SUPPORTED,
            &[Seen::Stalled],
            "Take the field out, or set back what the message names.",
        ),
        Advice::new(
            reasons::CRD_OUTDATED,
            &[Seen::Event],
            "Install the CRD of the operator's release \
             ([upgrade.md](upgrade.md#a-crd-that-is-older-than-the-operator)). Until then, the fields \
             that the message names have no effect in a specification, and are left out of the status.",
        ),
        Advice::new(
            reasons::FORBIDDEN,
            &[Seen::Stalled, Seen::Unknown(ADMISSION_BYPASSED)],
            "Grant the right that the message names to the operator's ServiceAccount: the message \
             has the rule for a role, where the kube-apiserver tells what is missing; for another \
             report API see [install.md](install.md#rights). It is tried again every 15 s. It is told \
             after 30 s of refusals: a kube-apiserver that has just started refuses for a moment what \
             is allowed.",
        ),
        Advice::new(
            reasons::FOREIGN_OBJECT,
            &[
                Seen::Stalled,
                Seen::False(CERTIFICATES_READY),
                Seen::False(SERVER_AVAILABLE),
            ],
            "Delete or rename the object that the message names, or give the `ReportsServer` another \
             name. It is never overwritten.",
        ),
        Advice::new(
            reasons::API_GROUP_CLAIMED,
            &[Seen::Stalled],
            "Take the group out of one of the two `ReportsServer`s; the older one keeps it. This version \
             works with one per cluster: move everything to the older, and delete the other.",
        ),
        Advice::new(
            reasons::TARGET_NAMESPACE_MISSING,
            &[Seen::Stalled, Seen::False(SERVER_AVAILABLE), Seen::Event],
            "Create the namespace with its label, or delete the `ReportsServer`: \
             [install.md](install.md#when-the-namespace-went-first) says what each costs. The event \
             names the APIServices that were given back without a server.",
        ),
        Advice::new(
            reasons::TARGET_NAMESPACE_CLOSED,
            &[Seen::Stalled],
            "`kubectl label namespace NAME reports-server.io/target=true`, or use another namespace. \
             Those of Kubernetes and of the operator are always refused: \
             [security.md](security.md#who-may-ask-for-a-server).",
        ),
        Advice::new(
            reasons::NOT_ALLOWED,
            &[Seen::Stalled],
            "Take the field out, or allow it on the namespace or the account as the message says: \
             [security.md](security.md#who-may-ask-for-a-server).",
        ),
    ],
};
