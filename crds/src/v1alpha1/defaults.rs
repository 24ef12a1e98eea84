//! Values in force where the specification says nothing.
//!
//! Defaults are kept out of the schema, so that a new release never rewrites stored objects, and
//! in one place, so that operator, status and documentation cannot differ.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::spec::{
    ApiDeletionPolicy, Approval, DataDeletionPolicy, DatabaseMode, EphemeralVolume, LogFormat,
    LogLevel, OnFailure, ReportsServerSpec, SourcePolicy, TlsMode, Verification,
};

/// Reports in a page of a list, and in a batch of an import.
pub const PAGE_SIZE: u32 = 250;
/// Deletions of a prune, and writes of a way back, at the same time.
pub const CONCURRENCY: u32 = 16;
/// Requests of a migration to the kube-apiserver in a second.
pub const MAX_REQUESTS_PER_SECOND: u32 = 50;
/// The time after the switch in which late writes to etcd are looked for. Zero means that there is
/// one look.
pub const DRAIN_WINDOW: Duration = Duration::ZERO;
/// The time for which the API is watched after the switch.
pub const SOAK: Duration = Duration::from_mins(5);
/// The time after the switch before anything is pruned.
pub const SOURCE_AFTER: Duration = Duration::from_hours(24);
/// Server pods on a database that several can share.
pub const REPLICAS: u32 = 2;
/// Connections of one server pod to PostgreSQL.
pub const MAX_CONNECTIONS: u32 = 16;
/// Size of the database's volume.
pub const STORAGE_SIZE: &str = "10Gi";
/// The time of backups: at night, UTC.
pub const BACKUP_SCHEDULE: &str = "0 3 * * *";
/// The time for which a backup is kept.
pub const BACKUP_RETENTION: Duration = Duration::from_hours(30 * 24);
/// Age of the newest backup from which an alert is raised.
pub const MAX_BACKUP_AGE: Duration = Duration::from_hours(26);
/// Traces of a million that are recorded, of those that begin at the server.
pub const TRACING_SAMPLING_RATE: u32 = 0;
/// Lifetime of the certificate authority.
pub const CA_VALIDITY: Duration = Duration::from_hours(365 * 24);
/// Lifetime of a leaf certificate.
pub const CERT_VALIDITY: Duration = Duration::from_hours(90 * 24);

/// Settings in force: those of the specification, and the defaults where it says nothing.
/// Durations are whole seconds in text, such as `300s`.
#[derive(JsonSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Effective {
    /// `migration.approval`
    pub approval: Approval,
    /// `migration.concurrency`
    #[schemars(with = "i32")]
    pub concurrency: u32,
    /// `migration.pageSize`
    #[schemars(with = "i32")]
    pub page_size: u32,
    /// `migration.maxRequestsPerSecond`
    #[schemars(with = "i32")]
    pub max_requests_per_second: u32,
    /// `migration.verification`
    pub verification: Verification,
    /// `migration.drainWindow`
    #[serde(default, with = "seconds")]
    #[schemars(with = "String", length(max = 32))]
    pub drain_window: Duration,
    /// `migration.requireAdmission`
    #[serde(default)]
    pub require_admission: bool,
    /// `migration.soak`
    #[serde(with = "seconds")]
    #[schemars(with = "String", length(max = 32))]
    pub soak: Duration,
    /// `migration.onFailure`
    pub on_failure: OnFailure,
    /// `migration.source.policy`
    pub source_policy: SourcePolicy,
    /// `migration.source.after`
    #[serde(with = "seconds")]
    #[schemars(with = "String", length(max = 32))]
    pub source_after: Duration,
    /// `database.mode`
    pub database_mode: DatabaseMode,
    /// `database.embedded.ephemeral`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<EphemeralVolume>,
    /// `database.embedded.storage.size` or `database.managed.storage.size`
    #[schemars(length(max = 32))]
    pub storage_size: String,
    /// `database.pool.maxConnections`; none with mode `Embedded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>")]
    pub max_connections: Option<u32>,
    /// `tls.mode`
    pub tls_mode: TlsMode,
    /// `tls.operator.caValidity`
    #[serde(with = "seconds")]
    #[schemars(with = "String", length(max = 32))]
    pub ca_validity: Duration,
    /// `tls.operator.certValidity`
    #[serde(with = "seconds")]
    #[schemars(with = "String", length(max = 32))]
    pub cert_validity: Duration,
    /// `tls.operator.renewBefore`
    #[serde(with = "seconds")]
    #[schemars(with = "String", length(max = 32))]
    pub renew_before: Duration,
    /// `server.replicas`; none where the number follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<i32>")]
    pub replicas: Option<u32>,
    /// `server.logging.level`
    pub log_level: LogLevel,
    /// `server.logging.format`
    pub log_format: LogFormat,
    /// `server.logging.auditDirectClients`
    #[serde(default)]
    pub audit_direct_clients: bool,
    /// `deletionPolicy.apis`
    pub deletion_apis: ApiDeletionPolicy,
    /// `deletionPolicy.data`
    pub deletion_data: DataDeletionPolicy,
}

impl Effective {
    /// Resolves a specification. Numbers out of their bounds, which the CRD's schema refuses
    /// already, become the default.
    #[must_use]
    pub fn of(spec: &ReportsServerSpec) -> Self {
        let migration = spec.migration.clone().unwrap_or_default();
        let source = migration.source.unwrap_or_default();
        let database = spec.database.clone().unwrap_or_default();
        let mode = database.mode.unwrap_or_default();
        let pool = database.pool.unwrap_or_default();
        let (ephemeral, storage) = match mode {
            DatabaseMode::Embedded => {
                let embedded = database.embedded.unwrap_or_default();
                (embedded.ephemeral, embedded.storage)
            }
            DatabaseMode::Managed => (None, database.managed.unwrap_or_default().storage),
            DatabaseMode::External | DatabaseMode::CloudNativePg => (None, None),
        };
        let tls = spec.tls.clone().unwrap_or_default();
        let operator_tls = tls.operator.unwrap_or_default();
        let server = spec.server.clone().unwrap_or_default();
        let logging = server.logging.unwrap_or_default();
        let deletion = spec.deletion_policy.clone().unwrap_or_default();

        let ca_validity = operator_tls.ca_validity.map_or(CA_VALIDITY, Into::into);
        let cert_validity: Duration = operator_tls.cert_validity.map_or(CERT_VALIDITY, Into::into);
        let policy = match (ephemeral, source.policy) {
            // Etcd holds the only durable copy.
            (Some(_), _) => SourcePolicy::Keep,
            (None, policy) => policy.unwrap_or_default(),
        };
        Self {
            approval: migration.approval.unwrap_or_default(),
            concurrency: positive(migration.concurrency, CONCURRENCY),
            page_size: positive(migration.page_size, PAGE_SIZE),
            max_requests_per_second: positive(
                migration.max_requests_per_second,
                MAX_REQUESTS_PER_SECOND,
            ),
            verification: migration.verification.unwrap_or_default(),
            drain_window: migration.drain_window.map_or(DRAIN_WINDOW, Into::into),
            require_admission: migration.require_admission.unwrap_or_default(),
            soak: migration.soak.map_or(SOAK, Into::into),
            on_failure: migration.on_failure.unwrap_or_default(),
            source_policy: policy,
            source_after: source.after.map_or(SOURCE_AFTER, Into::into),
            database_mode: mode,
            ephemeral,
            storage_size: storage
                .and_then(|storage| storage.size)
                .map_or_else(|| STORAGE_SIZE.to_owned(), |size| size.0),
            max_connections: (mode != DatabaseMode::Embedded)
                .then(|| positive(pool.max_connections, MAX_CONNECTIONS)),
            tls_mode: tls.mode.unwrap_or_default(),
            ca_validity,
            cert_validity,
            renew_before: operator_tls
                .renew_before
                .map_or(cert_validity / 3, Into::into),
            replicas: server
                .autoscaling
                .is_none()
                .then(|| positive(server.replicas, default_replicas(mode))),
            log_level: logging.level.unwrap_or_default(),
            log_format: logging.format.unwrap_or_default(),
            audit_direct_clients: logging.audit_direct_clients.unwrap_or_default(),
            deletion_apis: deletion.apis.unwrap_or_default(),
            deletion_data: deletion.data.unwrap_or_default(),
        }
    }
}

/// Returns the number of pods for a mode. An embedded database belongs to one pod; the others are
/// shared, and two pods survive the loss of a node.
fn default_replicas(mode: DatabaseMode) -> u32 {
    match mode {
        DatabaseMode::Embedded => 1,
        DatabaseMode::Managed | DatabaseMode::External | DatabaseMode::CloudNativePg => REPLICAS,
    }
}

fn positive(value: Option<i32>, default: u32) -> u32 {
    value
        .and_then(|value| u32::try_from(value).ok())
        .filter(|value| *value > 0)
        .unwrap_or(default)
}

/// Durations as text that Go's `time.ParseDuration` reads.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        match value.subsec_millis() {
            0 => serializer.collect_str(&format_args!("{}s", value.as_secs())),
            _ => serializer.collect_str(&format_args!("{}ms", value.as_millis())),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        kube::core::Duration::deserialize(deserializer).map(Into::into)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn effective(spec: serde_json::Value) -> Effective {
        let mut spec = spec;
        spec["targetNamespace"] = json!("reports-server");
        Effective::of(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn nothing_given_is_embedded_automatic_and_prunes_after_a_day() {
        let effective = effective(json!({}));
        assert_eq!(effective.database_mode, DatabaseMode::Embedded);
        assert_eq!(effective.approval, Approval::Automatic);
        assert_eq!(effective.source_policy, SourcePolicy::Prune);
        assert_eq!(effective.source_after, Duration::from_hours(24));
        assert_eq!(effective.storage_size, "10Gi");
        assert_eq!(effective.renew_before, CERT_VALIDITY / 3);
        assert_eq!(effective.replicas, Some(1));
        assert_eq!(effective.max_connections, None);
        assert_eq!(effective.verification, Verification::Full);
        assert_eq!(effective.drain_window, Duration::ZERO);
        assert!(!effective.require_admission);
    }

    #[test]
    fn postgresql_has_two_servers_unless_their_number_follows_the_load() {
        let managed = effective(json!({"database": {"mode": "Managed",
            "managed": {"storage": {"size": "3Gi"}}}}));
        assert_eq!(managed.replicas, Some(2));
        assert_eq!(managed.max_connections, Some(MAX_CONNECTIONS));
        assert_eq!(managed.storage_size, "3Gi");
        let by_load = effective(json!({"database": {"mode": "Managed"},
            "server": {"autoscaling": {"maxReplicas": 4}}}));
        assert_eq!(by_load.replicas, None);
    }

    #[test]
    fn an_ephemeral_database_keeps_the_copies_in_etcd() {
        let effective = effective(json!({"database": {"embedded": {"ephemeral": "EmptyDir"}}}));
        assert_eq!(effective.source_policy, SourcePolicy::Keep);
    }

    #[test]
    fn given_values_win() {
        let effective = effective(json!({
            "migration": {"soak": "1m30s", "drainWindow": "2m", "requireAdmission": true, "verification": "Sample", "concurrency": 2, "pageSize": 500, "source": {"policy": "Keep", "after": "0s"}},
            "server": {"logging": {"level": "Debug"}},
            "tls": {"operator": {"certValidity": "30h", "renewBefore": "500ms"}},
        }));
        assert_eq!(effective.soak, Duration::from_secs(90));
        assert_eq!(effective.drain_window, Duration::from_mins(2));
        assert!(effective.require_admission);
        assert_eq!(effective.verification, Verification::Sample);
        assert_eq!((effective.page_size, effective.concurrency), (500, 2));
        assert_eq!(effective.source_policy, SourcePolicy::Keep);
        assert_eq!(effective.source_after, Duration::ZERO);
        assert_eq!(effective.log_level.as_flag(), "debug");
        assert_eq!(effective.renew_before, Duration::from_millis(500));
    }

    #[test]
    fn durations_in_status_read_back() {
        let before = effective(json!({"tls": {"operator": {"renewBefore": "1500ms"}}}));
        let json = serde_json::to_value(&before).unwrap();
        assert_eq!(json["soak"], "300s");
        assert_eq!(json["renewBefore"], "1500ms");
        assert_eq!(serde_json::from_value::<Effective>(json).unwrap(), before);
    }
}
