//! The database: its use, its changes, its backups.

use super::symptom::{Advice, Seen, Symptom};
use crate::v1alpha1::conditions::{
    DATABASE_MOVED, DATABASE_READY, DATABASE_UPGRADED, LAST_BACKUP_SUCCEEDED, RECONCILING,
};
use crate::v1alpha1::reasons;

/// The places where a problem of a connection is met: with the server's own database, and with that
/// of another server from which reports are imported.
const CONNECTION: &[Seen] = &[Seen::False(DATABASE_READY), Seen::Stalled];
/// The places where a problem of a connection that may pass is met.
const PASSING: &[Seen] = &[Seen::False(DATABASE_READY), Seen::Message];
/// The place where a problem of the database alone is met.
const DATABASE_ALONE: &[Seen] = &[Seen::False(DATABASE_READY)];

pub(super) static DATABASE: Symptom = Symptom {
    title: "The database cannot be used",
    text: "`DatabaseReady` is False. Reads from memory go on where a server runs; writes and reads \
           of the newest state get 503 with `Retry-After`. The message names host and cause, and the \
           operator looks again every ten seconds. `Stalled` with one of these reasons is about the \
           database of another server, from which reports are imported \
           ([from-reports-server.md](from-reports-server.md#where-it-is-gone-already)). How each mode \
           works: [database.md](database.md).",
    reasons: &[
        Advice::new(
            reasons::DATABASE_AVAILABLE,
            &[Seen::True(DATABASE_READY)],
            "Nothing.",
        ),
        Advice::new(
            reasons::VOLUME_PENDING,
            DATABASE_ALONE,
            "`kubectl -n NAMESPACE describe pvc NAME`: no StorageClass, none by that name, no room, or \
             no node that it could be on. The class cannot be changed later: delete the \
             `ReportsServer` and create it with another.",
        ),
        Advice::new(
            reasons::VOLUME_CANNOT_GROW,
            &[Seen::True(DATABASE_READY)],
            "Set the size back, or use a StorageClass with `allowVolumeExpansion`. Everything else \
             goes on.",
        ),
        Advice::new(
            reasons::VOLUME_MISSING,
            &[Seen::Stalled],
            "Create a new `ReportsServer` that begins with a backup \
             ([database.md](database.md#backup-and-restore)), or go back to a volume that the message \
             names ([database.md](database.md#major-versions)).",
        ),
        Advice::new(
            reasons::DATABASE_LOST,
            &[Seen::Stalled],
            "Restore the database from a backup ([database.md](database.md#backup-and-restore)); \
             without one, [runbook.md](runbook.md#the-database-is-gone).",
        ),
        Advice::new(
            reasons::SECRET_MISSING,
            CONNECTION,
            "Create the Secret in the target namespace.",
        ),
        Advice::new(
            reasons::SECRET_KEY_MISSING,
            CONNECTION,
            "Add the key, or name yours in `external.keys`.",
        ),
        Advice::new(
            reasons::CONNECTION_INVALID,
            CONNECTION,
            "Correct the value of the key that the message names.",
        ),
        Advice::new(
            reasons::WRONG_PASSWORD,
            CONNECTION,
            "Correct the Secret, or the role.",
        ),
        Advice::new(
            reasons::DATABASE_MISSING,
            CONNECTION,
            "Create the database, or correct `dbname`.",
        ),
        Advice::new(
            reasons::RIGHTS_MISSING,
            CONNECTION,
            "Grant what the message names.",
        ),
        Advice::new(
            reasons::TLS_MISMATCH,
            CONNECTION,
            "The message says what differs: no TLS on one side, another CA, another name, or a client \
             certificate that is not accepted.",
        ),
        Advice::new(
            reasons::SERVER_TOO_OLD,
            CONNECTION,
            "Upgrade PostgreSQL to version 14 or newer.",
        ),
        Advice::new(
            reasons::DATABASE_UNSUITABLE,
            CONNECTION,
            "Use a database with encoding `UTF8`, on a build with lz4.",
        ),
        Advice::new(
            reasons::DATABASE_READ_ONLY,
            CONNECTION,
            "Name the primary among the hosts. During a failover: wait.",
        ),
        Advice::new(
            reasons::TOO_MANY_CONNECTIONS,
            CONNECTION,
            "Raise `max_connections`, or lower `spec.database.pool.maxConnections`: \
             [database.md](database.md#connections).",
        ),
        Advice::new(
            reasons::DISK_FULL,
            CONNECTION,
            "Make room: a larger volume (`database.managed.storage.size`), or what else is on it. How \
             much is needed: [sizing.md](sizing.md).",
        ),
        Advice::new(
            reasons::DATABASE_UNREACHABLE,
            CONNECTION,
            "Check the network, network policies ([network.md](network.md)), and PostgreSQL itself. \
             Where servers can use it and the operator cannot, it is the operator's way to it.",
        ),
        Advice::new(
            reasons::OTHER_DATABASE,
            CONNECTION,
            "Lead the Secret back to the right database, or restore a backup there: \
             [database.md](database.md#another-database-than-before). Nothing is lost meanwhile, and \
             nothing is written there.",
        ),
        Advice::new(
            reasons::OTHER_IDENTITY,
            CONNECTION,
            "Set `clusterIdentity.id` to what the message names, or use another database.",
        ),
        Advice::new(
            reasons::CLOUD_NATIVE_PG_MISSING,
            DATABASE_ALONE,
            "Install CloudNativePG, or choose another mode.",
        ),
        Advice::new(
            reasons::CLUSTER_MISSING,
            DATABASE_ALONE,
            "Create the `Cluster`, or set `database.cloudNativePG.create`.",
        ),
        Advice::new(
            reasons::CLUSTER_NOT_READY,
            DATABASE_ALONE,
            "Wait, or look at the `Cluster`; its phase is in the message.",
        ),
        Advice::new(
            reasons::FAILING_OVER,
            DATABASE_ALONE,
            "Wait: the servers follow by themselves.",
        ),
        Advice::new(
            reasons::DATABASE_UNAVAILABLE,
            PASSING,
            "The words in the message are those of PostgreSQL or of its pod; look at the pod and its \
             log.",
        ),
    ],
};

pub(super) static CHANGES: Symptom = Symptom {
    title: "The database is being changed",
    text: "`DatabaseMoved` follows a [move to PostgreSQL](database.md#from-embedded-to-postgresql) or \
           [to a volume](database.md#from-postgresql-to-embedded), `DatabaseUpgraded` a \
           [major upgrade](database.md#major-versions). Both are absent where there never was one.",
    reasons: &[
        Advice::new(
            reasons::MOVING,
            &[Seen::False(DATABASE_MOVED), Seen::True(RECONCILING)],
            "Wait: everything is served from where it was.",
        ),
        Advice::new(
            reasons::MOVE_WAITING,
            &[Seen::False(DATABASE_MOVED)],
            "Mend what the message names; the move goes on by itself.",
        ),
        Advice::new(
            reasons::MOVE_REFUSED,
            &[Seen::False(DATABASE_MOVED)],
            "Use a database, or a volume, that is empty of this cluster, or make it one, as the message \
             says; or set `spec.database` back.",
        ),
        Advice::new(
            reasons::MOVE_GIVEN_UP,
            &[Seen::False(DATABASE_MOVED)],
            "Nothing: the reports stay where they are.",
        ),
        Advice::new(
            reasons::MOVED,
            &[Seen::True(DATABASE_MOVED)],
            "Delete what the message names when you no longer need it: the old database, or its volume.",
        ),
        Advice::new(
            reasons::UPGRADE_CHECKING,
            &[Seen::False(DATABASE_UPGRADED), Seen::True(RECONCILING)],
            "Wait: everything is served. If a pod does not start, the message says why.",
        ),
        Advice::new(
            reasons::DATABASE_UPGRADING,
            &[Seen::False(DATABASE_UPGRADED), Seen::False(DATABASE_READY)],
            "Wait: writes get 503 meanwhile. If the pod of the copy does not start, correct what the \
             message names, or set the version back.",
        ),
        Advice::new(
            reasons::UPGRADE_FAILED,
            &[Seen::False(DATABASE_UPGRADED)],
            "The old version serves as before. Correct the cause and delete the Job that the message \
             names, or set the version back.",
        ),
        Advice::new(
            reasons::UPGRADED,
            &[Seen::True(DATABASE_UPGRADED)],
            "Delete the earlier volume when you no longer want it.",
        ),
    ],
};

pub(super) static BACKUPS: Symptom = Symptom {
    title: "A backup or a restore fails",
    text: "`LastBackupSucceeded` exists where `database.backup` is set. A failed backup makes nothing \
           unready and removes no older one. More: [database.md](database.md#backup-and-restore).",
    reasons: &[
        Advice::new(
            reasons::BACKUP_SUCCEEDED,
            &[Seen::True(LAST_BACKUP_SUCCEEDED)],
            "Nothing.",
        ),
        Advice::new(
            reasons::BACKUP_FAILED,
            &[Seen::False(LAST_BACKUP_SUCCEEDED)],
            "`kubectl -n NAMESPACE logs job/JOB`: a full volume, a bucket that refuses, or a database \
             that ended meanwhile. `kubectl create job --from=cronjob/NAME-backup JOB` tries again.",
        ),
        Advice::new(
            reasons::RESTORING,
            DATABASE_ALONE,
            "Wait; where the Job's pod cannot start, the message says why.",
        ),
        Advice::new(
            reasons::RESTORE_FAILED,
            DATABASE_ALONE,
            "Correct `bootstrap.recovery`, whose mistake the message names (for an unknown backup it \
             lists those that exist), or delete the Job to try again.",
        ),
    ],
};
