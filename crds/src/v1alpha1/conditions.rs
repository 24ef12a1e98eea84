//! Types of the conditions of a `ReportsServer`.
//!
//! They follow kstatus: `Reconciling` and `Stalled` are there only while they are true, and the
//! others are set to `Unknown` at first sight. Every condition carries `observedGeneration`.

use super::listed::listed;

listed! {
/// Sums up all others: everything that was asked for is done and well.
pub const READY: &str = "Ready";
/// True while the operator works on something; removed otherwise.
pub const RECONCILING: &str = "Reconciling";
/// True while something is wrong that trying again cannot mend; removed otherwise.
pub const STALLED: &str = "Stalled";
/// The database can be used.
pub const DATABASE_READY: &str = "DatabaseReady";
/// The reports are in the database that the specification asks for; absent where they were never
/// moved.
pub const DATABASE_MOVED: &str = "DatabaseMoved";
/// The database that the operator runs has the major version that the specification asks for;
/// absent where it was never brought to another one.
pub const DATABASE_UPGRADED: &str = "DatabaseUpgraded";
/// The certificates are there, valid, and trusted by everybody who needs them.
pub const CERTIFICATES_READY: &str = "CertificatesReady";
/// The server's pods are ready, and the control API answers through the kube-apiserver.
pub const SERVER_AVAILABLE: &str = "ServerAvailable";
/// Every `APIService` points to where the specification wants it.
pub const API_SERVICES_REGISTERED: &str = "APIServicesRegistered";
/// The reports of every group with owner `Server` are copied and verified. Once true for a plan,
/// it stays true for it.
pub const DATA_MIGRATED: &str = "DataMigrated";
/// Every group could be given back to its CRDs.
pub const ROLLBACK_AVAILABLE: &str = "RollbackAvailable";
/// The last backup succeeded.
pub const LAST_BACKUP_SUCCEEDED: &str = "LastBackupSucceeded";
/// The operator can be replaced now; false from the copy to the end of the switch.
pub const UPGRADEABLE: &str = "Upgradeable";
/// There are admission policies, webhooks or quotas for the resources of a group that the server
/// serves or is asked to serve; the kube-apiserver does not apply them to the server. `Unknown`
/// where the operator cannot read them; absent where there are none.
pub const ADMISSION_BYPASSED: &str = "AdmissionBypassed";
/// The objects that `spec.monitoring` asks for are there; absent where it asks for none. `Ready`
/// does not depend on it.
pub const MONITORING_READY: &str = "MonitoringReady";
}

/// Conditions that every `ReportsServer` has from its first reconciliation on.
pub const ALWAYS_PRESENT: &[&str] = &[
    READY,
    DATABASE_READY,
    CERTIFICATES_READY,
    SERVER_AVAILABLE,
    API_SERVICES_REGISTERED,
    DATA_MIGRATED,
    ROLLBACK_AVAILABLE,
    UPGRADEABLE,
];

/// Conditions that are removed when they are not true.
pub const PRESENT_ONLY_WHEN_TRUE: &[&str] = &[RECONCILING, STALLED];
