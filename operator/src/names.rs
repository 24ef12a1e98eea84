//! Every name, label, annotation and port of the objects that the operator makes, in one place.
//!
//! A child of the `ReportsServer` called `NAME` is found by name alone, so that a lost status or
//! a restarted operator never makes a second one.

use std::collections::BTreeMap;

use crds::names;

/// `reportingController` of events.
pub const REPORTING_CONTROLLER: &str = "reports-server.io/operator";
/// Namespace of the operator in `manifests/install.yaml`.
pub const OPERATOR_NAMESPACE: &str = "reports-server-system";
/// Name of the operator's Deployment, `ServiceAccount`, `ClusterRole` and Lease.
pub const OPERATOR: &str = names::CONTROLLER;
/// `ClusterRole` with the operator's rights in a target namespace; bound there and nowhere else.
pub const OPERAND_CLUSTER_ROLE: &str = "reports-server-operator:operand";
/// `ClusterRole` with what a server reads of the cluster; bound to the account of each server.
pub const SERVER_CLUSTER_ROLE: &str = "reports-server:server";
/// `ClusterRole` into which the operator's rights on report groups are aggregated.
pub const REPORTS_CLUSTER_ROLE: &str = "reports-server-operator:reports";
/// `ClusterRole` with the right to read the metrics of servers and operator.
pub const METRICS_CLUSTER_ROLE: &str = "reports-server:metrics";
/// `ClusterRole` with the rights to ask who reads the operator's metrics, and whether it may.
pub const METRICS_ACCESS_CLUSTER_ROLE: &str = "reports-server-operator:metrics-access";
/// Label by which a `ClusterRole` is aggregated into [`REPORTS_CLUSTER_ROLE`].
pub const AGGREGATE_LABEL: &str = "rbac.reports-server.io/aggregate-to-operator";

/// `ResourceQuota` of the operator's namespace that admits pods of its priority class.
pub const PRIORITY_QUOTA: &str = "reports-server-operator-critical-pods";

/// Name of the admission policy that refuses to delete a target namespace on which API groups depend,
/// and of its binding.
pub const NAMESPACE_GUARD: &str = "reports-server-target-namespaces";

/// Environment variable with the server's image.
pub const SERVER_IMAGE_ENV: &str = "RELATED_IMAGE_SERVER";
/// Environment variable with the image of PostgreSQL.
pub const POSTGRES_IMAGE_ENV: &str = "RELATED_IMAGE_POSTGRES";
/// Environment variable with the name of the `OperatorCondition` that OLM v0 gives to the operator.
pub const OPERATOR_CONDITION_ENV: &str = "OPERATOR_CONDITION_NAME";
/// Prefix of the project's images: a registry, with a path or without. It is named here alone: manifests,
/// chart and pages are generated from it, and the scripts in `hack` read it in this line.
pub const IMAGE_REGISTRY: &str = "registry.reports-server.io";

/// Returns the server's image of the operator's own release.
#[must_use]
pub fn server_image() -> String {
    format!(
        "{IMAGE_REGISTRY}/reports-server:{}",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the operator's own image.
#[must_use]
pub fn operator_image() -> String {
    format!("{IMAGE_REGISTRY}/{OPERATOR}:{}", env!("CARGO_PKG_VERSION"))
}

/// `ConfigMap` of the operator's namespace with settings of the operator itself; it need not exist.
pub const OPERATOR_CONFIG: &str = "reports-server-operator-config";
/// The folder in which its keys are files.
pub const OPERATOR_CONFIG_DIR: &str = "/etc/reports-server-operator";

/// Environment variable of the operator with the address of a collector of traces.
pub const TRACING_ENDPOINT_ENV: &str = "TRACING_ENDPOINT";
/// Environment variable of the operator with the traces of a million that are recorded.
pub const TRACING_RATE_ENV: &str = "TRACING_SAMPLING_RATE_PER_MILLION";
/// Environment variable of the operator with the file of the collector's CAs.
pub const TRACING_CA_FILE_ENV: &str = "TRACING_CA_FILE";

/// Secret of the operator's namespace with the CAs of the collector; it need not exist.
pub const TRACING_CA: &str = "reports-server-operator-tracing-ca";
/// The folder in which its key `ca.crt` is a file.
pub const TRACING_CA_DIR: &str = "/etc/reports-server-operator-tracing-ca";

/// Service by which Prometheus finds the operator's metrics.
pub const METRICS_SERVICE: &str = "reports-server-operator-metrics";
/// Secret of the operator's namespace with the certificate of its metrics; it need not exist.
pub const METRICS_CERT: &str = "reports-server-operator-metrics-cert";
/// The folder in which its keys are files.
pub const METRICS_CERT_DIR: &str = "/etc/reports-server-operator-metrics-cert";

/// Returns the DNS name of [`METRICS_SERVICE`].
#[must_use]
pub fn metrics_host(namespace: &str) -> String {
    format!("{METRICS_SERVICE}.{namespace}.svc")
}

/// Port of the Service.
pub const SERVICE_PORT: i32 = 443;
/// Port on which the server listens.
pub const CONTAINER_PORT: i32 = 8443;
/// Ports of DNS, with their protocols. A policy sees that of the pod, which is 5353 on `OpenShift`.
pub const DNS_PORTS: [(i32, &str); 4] = [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")];
/// Key of the `ConfigMap` with the specification that was carried out last.
pub const ACCEPTED_KEY: &str = "spec.json";
/// Name of both ports.
pub const PORT_NAME: &str = "https";
/// Key of the `ConfigMap` that lists the served API groups.
pub const GROUPS_KEY: &str = "groups";
/// Key of the same `ConfigMap` that lists the users whose writes the server refuses.
pub const REFUSED_WRITERS_KEY: &str = "refusedWriters";
/// Key of the same `ConfigMap`: the level of the server's logs. [`OPERATOR_CONFIG`] has it, too.
pub const LOG_LEVEL_KEY: &str = "logLevel";
/// Key of the same `ConfigMap`: whether the server logs requests of direct clients.
pub const AUDIT_KEY: &str = "auditDirectClients";
/// Key of the same `ConfigMap`: the history that the database has to have.
pub const HISTORY_KEY: &str = "databaseHistory";

/// `ClusterRole` that lets a server ask who a user is and what the user may do.
pub const AUTH_DELEGATOR: &str = "system:auth-delegator";
/// Role in `kube-system` that lets a server read the aggregator's client CA.
pub const AUTH_READER: &str = "extension-apiserver-authentication-reader";
/// Namespace of [`AUTH_READER`].
pub const KUBE_SYSTEM: &str = "kube-system";

/// Names of the children of one `ReportsServer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    instance: String,
}

impl Names {
    /// Returns names for the children of the `ReportsServer` called `instance`.
    #[must_use]
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
        }
    }

    /// Returns the name of the `ReportsServer` itself.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Returns the name of the Deployment, Service, `ServiceAccount`, Role and `RoleBinding` of the
    /// server.
    #[must_use]
    pub fn server(&self) -> String {
        names::server(&self.instance)
    }

    /// Returns the name of the `PersistentVolumeClaim` of the embedded database.
    #[must_use]
    pub fn data(&self) -> String {
        names::data(&self.instance)
    }

    /// Returns the name of the `ConfigMap` with what is not secret about the connection to
    /// PostgreSQL.
    #[must_use]
    pub fn database(&self) -> String {
        names::database(&self.instance)
    }

    /// Returns the name of the `ConfigMap` with the specification that was carried out last.
    #[must_use]
    pub fn accepted(&self) -> String {
        format!("{}-accepted", self.server())
    }

    /// Returns the name of the Secret that tells the server where to move the reports.
    #[must_use]
    pub fn database_move(&self) -> String {
        format!("{}-move", self.database())
    }

    /// Returns the name of the `Cluster` of `CloudNativePG`, where one is made.
    #[must_use]
    pub fn postgres_cluster(&self) -> String {
        names::postgres_cluster(&self.instance)
    }

    /// Returns the name of the `StatefulSet`, Service, `ConfigMap` and Secret of a PostgreSQL that
    /// the operator runs.
    #[must_use]
    pub fn postgres(&self) -> String {
        names::postgres(&self.instance)
    }

    /// Returns the name of the headless Service of [`Self::postgres`].
    #[must_use]
    pub fn postgres_pods(&self) -> String {
        format!("{}-pods", self.postgres())
    }

    /// Returns the name of the `PersistentVolumeClaim` of [`Self::postgres`].
    #[must_use]
    pub fn postgres_data(&self) -> String {
        format!("{}-data", self.postgres())
    }

    /// Returns the same for the data of another major version, which an upgrade has made.
    #[must_use]
    pub fn postgres_data_of(&self, version: u32) -> String {
        format!("{}-{version}", self.postgres_data())
    }

    /// Returns the name of the `ConfigMap` of the upgrade to another major version of
    /// [`Self::postgres`].
    #[must_use]
    pub fn postgres_upgrade(&self) -> String {
        format!("{}-upgrade", self.postgres())
    }

    /// Returns the beginning of the names of the Jobs of that upgrade.
    #[must_use]
    pub fn upgrade(&self) -> String {
        format!("{}-upgrade", self.instance)
    }

    /// Returns the labels of the objects that carry out that upgrade.
    #[must_use]
    pub fn upgrade_labels(&self) -> BTreeMap<String, String> {
        managed(self.component("upgrade"))
    }

    /// Returns the name of the Secret with the certificate of [`Self::postgres`].
    #[must_use]
    pub fn postgres_tls(&self) -> String {
        format!("{}-tls", self.postgres())
    }

    /// Returns the name of the Secret with the certificate by which [`Self::postgres`] lets the
    /// servers in.
    #[must_use]
    pub fn database_client(&self) -> String {
        format!("{}-client", self.database())
    }

    /// Returns the name of the `ConfigMap` with the served groups.
    #[must_use]
    pub fn config(&self) -> String {
        names::config(&self.instance)
    }

    /// Returns the name of the `ConfigMap` with a Grafana dashboard.
    #[must_use]
    pub fn dashboard(&self) -> String {
        format!("{}-dashboard", self.server())
    }

    /// Returns the name of the Secret with the certificate authority.
    #[must_use]
    pub fn ca(&self) -> String {
        names::ca(&self.instance)
    }

    /// Returns the name of the Secret with the server's certificate.
    #[must_use]
    pub fn serving_cert(&self) -> String {
        names::serving_cert(&self.instance)
    }

    /// Returns the name of the `Certificate` of cert-manager.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.server()
    }

    /// Returns the name of the Secret that cert-manager puts the server's certificate into.
    #[must_use]
    pub fn issued_cert(&self) -> String {
        format!("{}-issued-cert", self.instance)
    }

    /// Returns the name of the `RoleBinding` that gives the operator its rights in the target
    /// namespace.
    #[must_use]
    pub fn operand_binding(&self) -> String {
        format!("{}-operator", self.instance)
    }

    /// Returns the name of cluster-scoped RBAC objects, and of those in `kube-system`:
    /// `reports-server:NAME:PURPOSE`.
    #[must_use]
    pub fn cluster(&self, purpose: &str) -> String {
        names::rbac(&self.instance, purpose)
    }

    /// Returns the DNS names that the serving certificate must carry in `namespace`.
    ///
    /// The aggregator calls the first; the second is for clients inside the cluster.
    #[must_use]
    pub fn dns_names(&self, namespace: &str) -> Vec<String> {
        let host = format!("{}.{namespace}.svc", self.server());
        vec![host.clone(), format!("{host}.cluster.local")]
    }

    /// Returns the name of the `CronJob` and `PersistentVolumeClaim` of the backups.
    #[must_use]
    pub fn backup(&self) -> String {
        format!("{}-backup", self.instance)
    }

    /// Returns the beginning of the name of a Job that restores a backup.
    #[must_use]
    pub fn recovery(&self) -> String {
        format!("{}-recovery", self.instance)
    }

    /// Returns the labels of everything that makes backups.
    #[must_use]
    pub fn backup_labels(&self) -> BTreeMap<String, String> {
        managed(self.component("backup"))
    }

    /// Returns the labels of the objects that restore a backup.
    #[must_use]
    pub fn recovery_labels(&self) -> BTreeMap<String, String> {
        managed(self.component("recovery"))
    }

    /// Returns the host name of [`Self::postgres`] in `namespace`.
    #[must_use]
    pub fn postgres_host(&self, namespace: &str) -> String {
        format!("{}.{namespace}.svc", self.postgres())
    }

    /// Returns the labels that select the pod of [`Self::postgres`]; never changed after it exists.
    #[must_use]
    pub fn postgres_selector(&self) -> BTreeMap<String, String> {
        self.component("postgres")
    }

    /// Returns the labels of everything that belongs to [`Self::postgres`].
    #[must_use]
    pub fn postgres_labels(&self) -> BTreeMap<String, String> {
        managed(self.postgres_selector())
    }

    /// Returns the labels that select the server's pods; never changed after the Deployment exists.
    #[must_use]
    pub fn selector(&self) -> BTreeMap<String, String> {
        self.component("server")
    }

    fn component(&self, component: &str) -> BTreeMap<String, String> {
        labels([
            (names::LABEL_APP_NAME, names::APP_NAME),
            (names::LABEL_APP_COMPONENT, component),
            (names::LABEL_OWNER, &self.instance),
        ])
    }

    /// Returns the labels of every child. Labels of the `ReportsServer` itself are not passed on:
    /// tools that prune by label would take the children for their own.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        managed(self.selector())
    }

    /// Returns the selector of every child of this `ReportsServer` that the operator manages.
    #[must_use]
    pub fn label_selector(&self) -> String {
        format!(
            "{},{}={}",
            managed_selector(),
            names::LABEL_OWNER,
            self.instance
        )
    }
}

/// Returns the selector of every object that the operator manages.
#[must_use]
pub fn managed_selector() -> String {
    format!("{}={}", names::LABEL_APP_MANAGED_BY, names::FIELD_MANAGER)
}

fn managed(mut selector: BTreeMap<String, String>) -> BTreeMap<String, String> {
    selector.extend(labels([
        (names::LABEL_APP_MANAGED_BY, names::FIELD_MANAGER),
        (names::LABEL_APP_PART_OF, names::APP_NAME),
    ]));
    selector
}

fn labels<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_longest_instance_are_valid() {
        let names = Names::new("a".repeat(names::MAX_NAME_LENGTH));
        for name in [
            names.server(),
            names.data(),
            names.database(),
            names.database_client(),
            names.database_move(),
            names.postgres(),
            names.postgres_pods(),
            names.postgres_data(),
            names.postgres_tls(),
            names.backup(),
            format!("{}-01234567", names.recovery()),
            names.postgres_data_of(18),
            names.postgres_upgrade(),
            format!("{}-check-01234567", names.upgrade()),
            names.config(),
            names.dashboard(),
            names.ca(),
            names.serving_cert(),
            names.issued_cert(),
            names.operand_binding(),
        ] {
            assert!(name.len() <= 63, "{name}: a Service name is one DNS label");
        }
        for value in names.labels().values() {
            assert!(value.len() <= 63, "{value}");
        }
    }

    #[test]
    fn every_label_of_the_selector_is_on_the_children() {
        let names = Names::new("simple");
        let labels = names.labels();
        for (key, value) in names.selector() {
            assert_eq!(labels.get(&key), Some(&value));
        }
    }

    #[test]
    fn the_aggregator_can_verify_the_service_name() {
        let names = Names::new("simple").dns_names("reports");
        assert_eq!(
            names,
            [
                "simple-server.reports.svc",
                "simple-server.reports.svc.cluster.local"
            ]
        );
    }
}
