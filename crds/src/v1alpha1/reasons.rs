//! Reasons of the conditions and events of a `ReportsServer`. They are part of the API: programs
//! may rely on them. What the documentation says of each besides, where it is met and what to do, is
//! in [`publish`](crate::publish); a test fails for a reason that it does not know.

use super::listed::listed;

listed! {
/// Everything asked for is served.
pub const SERVING: &str = "Serving";
/// Work is going on.
pub const PROGRESSING: &str = "Progressing";
/// Something that is waited for is not ready; the message names it.
pub const DEPENDENCY_NOT_READY: &str = "DependencyNotReady";
/// A verified migration waits for `migration.approvedPlan`.
pub const AWAITING_APPROVAL: &str = "AwaitingApproval";
/// The CRDs answer again.
pub const ROLLED_BACK: &str = "RolledBack";
/// `spec.suspend` is set.
pub const SUSPENDED: &str = "Suspended";
/// The state before the first look.
pub const UNKNOWN: &str = "Unknown";
/// Everything is as it should be.
pub const AS_EXPECTED: &str = "AsExpected";
/// The object is being deleted.
pub const DELETING: &str = "Deleting";

/// The specification contradicts itself or the cluster; the message names field and remedy.
pub const INVALID_SPEC: &str = "InvalidSpec";
/// The specification uses a field that this version does not act on; the message names it.
pub const NOT_SUPPORTED: &str = "NotSupported";
/// The CRD of `ReportsServer` is older than the operator; the message names what it lacks.
pub const CRD_OUTDATED: &str = "CRDOutdated";
/// A CRD is missing that an object for a monitoring stack needs; the message names it.
pub const MONITORING_CRD_MISSING: &str = "MonitoringCRDMissing";
/// The operator lacks a right; the message names it.
pub const FORBIDDEN: &str = "Forbidden";
/// An object by the name of a child is somebody else's.
pub const FOREIGN_OBJECT: &str = "ForeignObject";
/// An older `ReportsServer` has claimed the API group.
pub const API_GROUP_CLAIMED: &str = "APIGroupClaimed";
/// Somebody else's `APIService` serves the API group.
pub const FOREIGN_API_SERVICE: &str = "ForeignAPIService";
/// An `APIService` that leads to the server was changed by somebody else, and was put back; the
/// message names the field manager.
pub const API_SERVICE_RESTORED: &str = "APIServiceRestored";
/// A CRD of the group converts between versions by a webhook.
pub const WEBHOOK_CONVERSION: &str = "WebhookConversion";
/// A version cannot be served.
pub const UNSUPPORTED_VERSION: &str = "UnsupportedVersion";
/// `spec.targetNamespace` does not exist or is being deleted.
pub const TARGET_NAMESPACE_MISSING: &str = "TargetNamespaceMissing";
/// `spec.targetNamespace` is not labelled as a target, or must never be one.
pub const TARGET_NAMESPACE_CLOSED: &str = "TargetNamespaceClosed";
/// The pods ask for what the target namespace, or the `ServiceAccount` that they name, does not
/// allow; the message names the field and what would allow it.
pub const NOT_ALLOWED: &str = "NotAllowed";

/// Preflight refuses to go on; the message says why.
pub const PREFLIGHT_FAILED: &str = "PreflightFailed";
/// Admission policies, webhooks or quotas for reports have no effect on reports that the server
/// serves; the message names them and the remedies.
pub const ADMISSION_BYPASSED: &str = "AdmissionBypassed";
/// Reports are copied.
pub const COPYING: &str = "Copying";
/// The copy equals etcd.
pub const VERIFIED: &str = "Verified";
/// The copy differs from etcd without an explanation; the message names objects.
pub const VERIFICATION_FAILED: &str = "VerificationFailed";
/// Nothing is switched, as `migration.dryRun` asks.
pub const DRY_RUN: &str = "DryRun";
/// The `APIService` is being handed over.
pub const SWITCHING: &str = "Switching";
/// A write reached etcd unseen during the switch and was imported, or kept out.
pub const STRAGGLER: &str = "Straggler";
/// Writes that reached etcd while the server was in charge gave way to the server's own.
pub const WRITES_DROPPED: &str = "WritesDropped";
/// The group was taken over from another server, whose versions are not ours; the message says what
/// has to be restarted.
pub const VERSIONS_RESTARTED: &str = "VersionsRestarted";
/// The operator was restarted while it looked for late writes to the server that a group was taken over
/// from; the message says what may be missing.
pub const LATE_WRITES_UNSEEN: &str = "LateWritesUnseen";
/// A switch or a way back could not keep watches: clients were told 410. The message says why, and
/// what can be done.
pub const WATCHES_LOST: &str = "WatchesLost";
/// A workload was restarted because its watches were lost; the message says why.
pub const RESTARTED: &str = "Restarted";
/// A workload that should be restarted is missing, or cannot be restarted; the message says why.
pub const RESTART_FAILED: &str = "RestartFailed";
/// Reports that only the database of another server has are imported; the message says how far that
/// is.
pub const IMPORTING: &str = "Importing";
/// The reports that only the database of another server had are imported; the message counts them.
pub const IMPORTED: &str = "Imported";
/// A database does not have the tables of kyverno/reports-server; the message names what is
/// missing.
pub const TABLES_MISSING: &str = "TablesMissing";
/// A database has reports of other clusters only; the message names them.
pub const OTHER_CLUSTERS: &str = "OtherClusters";
/// The soak found the API unwell.
pub const SOAK_FAILED: &str = "SoakFailed";
/// The copies in etcd are being deleted.
pub const PRUNING: &str = "Pruning";
/// The copies in etcd are deleted.
pub const PRUNED: &str = "Pruned";
/// Somebody writes a CRD again and again while etcd has to be reached through it; the message names
/// the field manager and what it has to ignore.
pub const CRD_REAPPLIED: &str = "CRDReapplied";
/// A switch, a prune or a way back has ended; the message sums up the migration report.
pub const MIGRATION_REPORTED: &str = "MigrationReported";
/// The migration report cannot be read or written; the migration goes on without it.
pub const REPORT_NOT_WRITTEN: &str = "ReportNotWritten";
/// The group goes back to its CRDs.
pub const ROLLING_BACK: &str = "RollingBack";
/// Etcd's copies are gone; a way back writes all reports again.
pub const SOURCE_PRUNED: &str = "SourcePruned";
/// There was no CRD to copy from.
pub const SOURCE_CRD_MISSING: &str = "SourceCRDMissing";
/// There is no CRD to go back to.
pub const CRD_MISSING: &str = "CRDMissing";

/// The database's volume is not bound yet.
pub const VOLUME_PENDING: &str = "VolumePending";
/// The database can be used, but its volume keeps its size although a larger one is asked for.
pub const VOLUME_CANNOT_GROW: &str = "VolumeCannotGrow";
/// The database can be used.
pub const DATABASE_AVAILABLE: &str = "DatabaseAvailable";
/// The database cannot be used; the message says why.
pub const DATABASE_UNAVAILABLE: &str = "DatabaseUnavailable";
/// A Secret that the specification names is missing.
pub const SECRET_MISSING: &str = "SecretMissing";
/// A Secret that the specification names lacks a key.
pub const SECRET_KEY_MISSING: &str = "SecretKeyMissing";
/// The connection's parameters cannot be used; the message names key and remedy.
pub const CONNECTION_INVALID: &str = "ConnectionInvalid";
/// PostgreSQL refuses the user: no such role, or another password.
pub const WRONG_PASSWORD: &str = "WrongPassword";
/// PostgreSQL has no database of this name.
pub const DATABASE_MISSING: &str = "DatabaseMissing";
/// The user may not connect, or not create what the server needs.
pub const RIGHTS_MISSING: &str = "RightsMissing";
/// Operator and PostgreSQL do not agree about TLS: a certificate, a name, or whether to speak it.
pub const TLS_MISMATCH: &str = "TLSMismatch";
/// PostgreSQL is older than version 14.
pub const SERVER_TOO_OLD: &str = "ServerTooOld";
/// No host takes writes.
pub const DATABASE_READ_ONLY: &str = "DatabaseReadOnly";
/// PostgreSQL has no connection left.
pub const TOO_MANY_CONNECTIONS: &str = "TooManyConnections";
/// The disk of PostgreSQL is full.
pub const DISK_FULL: &str = "DiskFull";
/// The database lacks something: encoding `UTF8`, or compression with lz4.
pub const DATABASE_UNSUITABLE: &str = "DatabaseUnsuitable";
/// PostgreSQL does not answer.
pub const DATABASE_UNREACHABLE: &str = "DatabaseUnreachable";
/// The connection leads to another database than the one that holds the reports: an empty one, or
/// one of other clusters. Servers take nothing from it; the message says what it holds.
pub const OTHER_DATABASE: &str = "OtherDatabase";
/// The database holds this cluster's reports under another identity; the message names it.
pub const OTHER_IDENTITY: &str = "OtherIdentity";
/// `CloudNativePG` is not installed.
pub const CLOUD_NATIVE_PG_MISSING: &str = "CloudNativePGMissing";
/// The `Cluster` of `CloudNativePG` is missing.
pub const CLUSTER_MISSING: &str = "ClusterMissing";
/// The `Cluster` of `CloudNativePG` has no primary that is ready.
pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";
/// Another instance of the `Cluster` of `CloudNativePG` is being made primary.
pub const FAILING_OVER: &str = "FailingOver";
/// The database is being filled from a backup; no server runs meanwhile.
pub const RESTORING: &str = "Restoring";
/// The database could not be filled from the backup.
pub const RESTORE_FAILED: &str = "RestoreFailed";
/// The reports are being moved to another database; the message says how far it is.
pub const MOVING: &str = "Moving";
/// The move waits for something, or is tried again; the message says why.
pub const MOVE_WAITING: &str = "MoveWaiting";
/// The database cannot take the reports; the message says why.
pub const MOVE_REFUSED: &str = "MoveRefused";
/// The move is being given up, as the specification asks.
pub const MOVE_GIVEN_UP: &str = "MoveGivenUp";
/// The reports are moved.
pub const MOVED: &str = "Moved";
/// The server's database has lost its reports, and etcd has no copies of them.
pub const DATABASE_LOST: &str = "DatabaseLost";
/// The volume of the database is gone; the message says what is left.
pub const VOLUME_MISSING: &str = "VolumeMissing";
/// The operator checks whether the database can be brought to another major version.
pub const UPGRADE_CHECKING: &str = "UpgradeChecking";
/// The database is being brought to another major version, and takes no writes meanwhile.
pub const DATABASE_UPGRADING: &str = "DatabaseUpgrading";
/// The database could not be brought to another major version and serves as before.
pub const UPGRADE_FAILED: &str = "UpgradeFailed";
/// The database has been brought to another major version.
pub const UPGRADED: &str = "Upgraded";
/// The last backup is complete and readable.
pub const BACKUP_SUCCEEDED: &str = "BackupSucceeded";
/// The last backup failed; the message says why.
pub const BACKUP_FAILED: &str = "BackupFailed";
/// Certificates were issued.
pub const CERTIFICATES_ISSUED: &str = "CertificatesIssued";
/// Certificates are being replaced.
pub const ROTATING: &str = "Rotating";
/// The certificate that the specification names cannot be used; the message names Secret, key and
/// remedy.
pub const CERTIFICATE_INVALID: &str = "CertificateInvalid";
/// The certificate that the specification names has expired.
pub const CERTIFICATE_EXPIRED: &str = "CertificateExpired";
/// The serving certificate, which the operator cannot replace itself, ends soon.
pub const CERTIFICATE_EXPIRING: &str = "CertificateExpiring";
/// cert-manager has not issued the certificate yet, or cannot renew it; the message is its own.
pub const CERTIFICATE_NOT_READY: &str = "CertificateNotReady";
/// cert-manager is not installed.
pub const CERT_MANAGER_MISSING: &str = "CertManagerMissing";
/// The server's pods are not ready.
pub const PODS_NOT_READY: &str = "PodsNotReady";
/// The control API does not answer through the kube-apiserver.
pub const CONTROL_API_UNAVAILABLE: &str = "ControlAPIUnavailable";
/// A child could not be applied; the message is the kube-apiserver's.
pub const APPLY_FAILED: &str = "ApplyFailed";
}
