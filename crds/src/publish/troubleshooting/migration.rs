//! The migration of API groups.

use super::symptom::{Advice, Seen, Symptom};
use crate::v1alpha1::conditions::{
    ADMISSION_BYPASSED, API_SERVICES_REGISTERED, DATA_MIGRATED, READY,
};
use crate::v1alpha1::reasons;

pub(super) static GROUP: Symptom = Symptom {
    title: "An API group is not moved",
    text: "`status.migration` and the message of `Ready` tell how far the group is. Nothing is \
           deleted from etcd before all of it is verified, so waiting costs nothing. A step that \
           fails is tried again after 15 s at most, and told by an event `STEPFailed`, such as \
           `VerifyFailed`. The steps: [migration.md](migration.md#forward-owner-server).",
    reasons: &[
        Advice::new(
            reasons::PREFLIGHT_FAILED,
            &[Seen::Stalled, Seen::Message],
            "The message names what is in the way: a CRD that is not established or is being deleted, \
             a version that has two servers, an APIService that does not exist yet.",
        ),
        Advice::new(
            reasons::WEBHOOK_CONVERSION,
            &[Seen::Stalled],
            "The group cannot be moved while a CRD of it converts by a webhook. Keep `owner: CRD`.",
        ),
        Advice::new(
            reasons::ADMISSION_BYPASSED,
            &[Seen::True(ADMISSION_BYPASSED), Seen::Stalled],
            "Decide about each object that the message names: limit writers by RBAC instead, exclude \
             the group from its rules, or accept it with an annotation \
             ([migration.md](migration.md#policies-webhooks-and-quotas)). `Stalled` only with \
             `migration.requireAdmission`.",
        ),
        Advice::new(
            reasons::COPYING,
            &[Seen::False(DATA_MIGRATED), Seen::Message],
            "Wait. The pace is `migration.maxRequestsPerSecond`: \
             [migration.md](migration.md#the-pace).",
        ),
        Advice::new(
            reasons::VERIFICATION_FAILED,
            &[Seen::Stalled],
            "Look at the objects that the message names on both sides. It is compared again every 15 s; \
             if it stays, keep `owner: CRD` and report it: the copy must not be used.",
        ),
        Advice::new(reasons::VERIFIED, &[Seen::True(DATA_MIGRATED)], "Nothing."),
        Advice::new(
            reasons::SOURCE_CRD_MISSING,
            &[Seen::True(DATA_MIGRATED)],
            "Nothing. If there should be reports, install the CRDs and check who deleted them.",
        ),
        Advice::new(
            reasons::AWAITING_APPROVAL,
            &[Seen::False(READY)],
            "Set `spec.migration.approvedPlan` to `status.migration.planHash`.",
        ),
        Advice::new(
            reasons::DRY_RUN,
            &[
                Seen::True(READY),
                Seen::True(DATA_MIGRATED),
                Seen::False(API_SERVICES_REGISTERED),
                Seen::Event,
            ],
            "Read the plan, then set `migration.dryRun: false`: \
             [migration.md](migration.md#a-dry-run).",
        ),
        Advice::new(
            reasons::SWITCHING,
            &[Seen::Message],
            "Wait: requests are held for a moment, and a switch that fails is taken back or completed. \
             With an operator that is gone: \
             [runbook.md](runbook.md#a-gate-is-held-and-nobody-opens-it).",
        ),
        Advice::new(
            reasons::SOAK_FAILED,
            &[Seen::Stalled, Seen::Event],
            "The message says what clients met. The group was given back to its CRDs, or with \
             `onFailure: Hold` it waits. Mend the cause; set `owner: CRD` once, then `owner: Server` \
             again.",
        ),
        Advice::new(
            reasons::PRUNING,
            &[Seen::Message],
            "Wait: it is tried again. Clients are served by the server meanwhile.",
        ),
        Advice::new(
            reasons::CRD_REAPPLIED,
            &[Seen::Stalled, Seen::Message],
            "Let the field manager that the message names ignore `/spec/versions` of the CRD: \
             [migration.md](migration.md#crds-that-are-applied-again-and-again).",
        ),
        Advice::new(
            reasons::ROLLING_BACK,
            &[Seen::Stalled, Seen::Message, Seen::Event],
            "Wait, or correct what the message names: an object that etcd does not take (its name and \
             the kube-apiserver's words are there), too little room in etcd. The server serves until \
             everything is written.",
        ),
        Advice::new(
            reasons::IMPORTING,
            &[Seen::Message],
            "Wait: the group is served, and the import is tried again \
             ([from-reports-server.md](from-reports-server.md#where-it-is-gone-already)).",
        ),
        Advice::new(
            reasons::TABLES_MISSING,
            &[Seen::Stalled],
            "Name the database of kyverno/reports-server in the Secret: the one that the message names \
             is another.",
        ),
        Advice::new(
            reasons::OTHER_CLUSTERS,
            &[Seen::Stalled],
            "Name the cluster whose reports are to be imported, of those in the message: \
             [from-reports-server.md](from-reports-server.md#where-it-is-gone-already).",
        ),
    ],
};

pub(super) static EVENTS: Symptom = Symptom {
    title: "An event tells of a migration",
    text: "Told once, in events (`kubectl events --for reportsserver/NAME`) and in the [migration \
           report](migration.md#the-migration-report).",
    reasons: &[
        Advice::new(
            reasons::MIGRATION_REPORTED,
            &[Seen::Event],
            "Nothing: the report is in the ConfigMap that the message names.",
        ),
        Advice::new(
            reasons::REPORT_NOT_WRITTEN,
            &[Seen::Event],
            "Mend what the message names, such as a missing right; nothing waits for the report.",
        ),
        Advice::new(
            reasons::PRUNED,
            &[Seen::Event],
            "Look at objects that were left in etcd, if the message names some: they have finalizers, \
             or were changed there.",
        ),
        Advice::new(
            reasons::STRAGGLER,
            &[Seen::Event],
            "Nothing, or write the report again if the message says that it was kept out.",
        ),
        Advice::new(
            reasons::WRITES_DROPPED,
            &[Seen::Event],
            "Write the reports that the message and the [migration \
             report](migration.md#the-migration-report) name again, if you still want them; find who \
             wrote to etcd ([migration.md](migration.md#an-apiservice-that-was-deleted-by-hand)).",
        ),
        Advice::new(
            reasons::WATCHES_LOST,
            &[Seen::Event],
            "Restart clients that do not list again after a 410, such as Kyverno's controllers: \
             [migration.md](migration.md#watches-that-are-lost).",
        ),
        Advice::new(
            reasons::VERSIONS_RESTARTED,
            &[Seen::Event],
            "Restart what the message names: \
             [from-reports-server.md](from-reports-server.md#what-is-not-kept).",
        ),
        Advice::new(
            reasons::LATE_WRITES_UNSEEN,
            &[Seen::Event],
            "Have the clients of the other server write again what they wrote in the last minute \
             before the switch, if the reports are not there: \
             [from-reports-server.md](from-reports-server.md#what-is-not-kept).",
        ),
        Advice::new(
            reasons::RESTARTED,
            &[Seen::Event],
            "Nothing: the workload is one of `migration.restart`.",
        ),
        Advice::new(
            reasons::RESTART_FAILED,
            &[Seen::Event],
            "Restart the workload by hand, or give the operator `get` and `patch` on it: \
             [kyverno.md](kyverno.md#restarted-by-the-operator).",
        ),
        Advice::new(
            reasons::IMPORTED,
            &[Seen::Event],
            "Look at reports that were not imported, if the message names some.",
        ),
    ],
};
