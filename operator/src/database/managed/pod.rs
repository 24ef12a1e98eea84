//! The pod of the database. It passes the `restricted` Pod Security Standard.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, ExecAction, Lifecycle, LifecycleHandler, PodSpec, Probe,
    ResourceRequirements, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::parts::{self, empty, files, mount, on_claim, secret, variable};
use super::wanted::Managed;
use super::{DATABASE, PASSWORD_KEY, PORT, SUPERUSER, conf};
use crate::names::Names;
use crate::security;

/// The data directory is below the mount point: the root of a volume may hold `lost+found`.
pub(super) const VOLUME_DIRECTORY: &str = "/pgdata";
const DATA_DIRECTORY: &str = "/pgdata/data";
const PASSWORD_DIRECTORY: &str = "/etc/reports-postgres-password";
/// Name of the database's container.
pub const CONTAINER: &str = "postgres";
/// Name of the port.
pub const PORT_NAME: &str = "postgres";
/// Longest fast shutdown: the checkpoint at its end writes what is dirty.
const GRACE_SECONDS: i64 = 120;
/// Longest start: crash recovery replays the log since the last checkpoint.
const START_SECONDS: i32 = 3600;

/// The readiness probe: a query is answered, and the server listens on TCP. While the first start
/// sets the database up, it does not listen there. The question goes through the socket, where
/// nobody is refused, so that no question fills the log.
const READY: &str = "psql -XqAt -h /var/run/postgresql -U postgres -d reports \
    -c \"SELECT 'ready' WHERE current_setting('listen_addresses') <> ''\" | grep -q ready";
/// The liveness probe: the server answers at all, even if it has no connection left.
const ALIVE: &str = "pg_isready -q -h /var/run/postgresql -U postgres -d reports || [ $? -eq 1 ]";
/// The fast shutdown, whatever signal the image asks for: a smart one would wait for the servers.
const STOP: &str = "pg_ctl stop -D \"$PGDATA\" -m fast -W";

/// Returns the pod's specification.
#[must_use]
pub fn pod(managed: &Managed, names: &Names) -> PodSpec {
    PodSpec {
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        containers: vec![postgres(managed), reload(managed)],
        volumes: Some(volumes(managed, names)),
        ..parts::pod(managed)
    }
}

fn postgres(managed: &Managed) -> Container {
    Container {
        args: None,
        command: Some(script(conf::START)),
        env: Some(environment()),
        ports: Some(vec![ContainerPort {
            name: Some(PORT_NAME.to_owned()),
            container_port: PORT,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        startup_probe: Some(Probe {
            period_seconds: Some(2),
            failure_threshold: Some(START_SECONDS / 2),
            ..probe(READY)
        }),
        liveness_probe: Some(Probe {
            period_seconds: Some(10),
            failure_threshold: Some(6),
            ..probe(ALIVE)
        }),
        readiness_probe: Some(Probe {
            period_seconds: Some(5),
            failure_threshold: Some(2),
            ..probe(READY)
        }),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                exec: Some(shell(STOP)),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        resources: Some(managed.resources.clone()),
        volume_mounts: Some(
            [
                vec![
                    mount("data", VOLUME_DIRECTORY, false),
                    mount("init", conf::INIT_DIRECTORY, true),
                    mount("password", PASSWORD_DIRECTORY, true),
                    mount("shm", "/dev/shm", false),
                    mount("tmp", "/tmp", false),
                ],
                shared_mounts(),
            ]
            .concat(),
        ),
        ..container(managed, CONTAINER)
    }
}

/// Returns the container beside the database that has it reload its files: PostgreSQL does not look
/// at them by itself.
fn reload(managed: &Managed) -> Container {
    let quantity = |text: &str| Quantity(text.to_owned());
    Container {
        command: Some(script(conf::RELOAD)),
        resources: Some(ResourceRequirements {
            requests: Some(BTreeMap::from([
                ("cpu".to_owned(), quantity("5m")),
                ("memory".to_owned(), quantity("16Mi")),
            ])),
            limits: Some(BTreeMap::from([("memory".to_owned(), quantity("64Mi"))])),
            ..ResourceRequirements::default()
        }),
        volume_mounts: Some(shared_mounts()),
        ..container(managed, "reload")
    }
}

/// Returns a container with what every container of the image has.
pub(super) fn container(managed: &Managed, name: &str) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(managed.image()),
        image_pull_policy: Some(managed.pull_policy().as_str().to_owned()),
        security_context: Some(security::container()),
        // So that a condition can quote why it ended.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

pub(super) fn environment() -> Vec<EnvVar> {
    vec![
        variable("PGDATA", DATA_DIRECTORY.to_owned()),
        variable("POSTGRES_DB", DATABASE.to_owned()),
        // Names and labels are compared byte by byte, and indexes do not depend on the version of
        // the image's C library.
        variable(
            "POSTGRES_INITDB_ARGS",
            "--encoding=UTF8 --locale=C --data-checksums".to_owned(),
        ),
        variable(
            "POSTGRES_PASSWORD_FILE",
            format!("{PASSWORD_DIRECTORY}/{PASSWORD_KEY}"),
        ),
        variable("POSTGRES_USER", SUPERUSER.to_owned()),
    ]
}

/// Returns the mounts of the socket, the configuration and the certificates.
fn shared_mounts() -> Vec<VolumeMount> {
    vec![
        mount("config", conf::DIRECTORY, true),
        mount("run", conf::SOCKET_DIRECTORY, false),
        mount("tls", conf::TLS_DIRECTORY, true),
    ]
}

fn volumes(managed: &Managed, names: &Names) -> Vec<Volume> {
    let of_ours = |name: &str, of: &[&str], mode| files(name, names.postgres(), of, mode);
    vec![
        on_claim("data", managed.claim()),
        of_ours("config", &conf::FILES, parts::READABLE),
        of_ours("init", &conf::INIT_FILES, parts::EXECUTABLE),
        secret("tls", names.postgres_tls(), None),
        secret("password", names.postgres(), Some(PASSWORD_KEY)),
        empty("run"),
        empty("tmp"),
        parts::shared_memory("shm"),
    ]
}

fn script(name: &str) -> Vec<String> {
    vec!["bash".to_owned(), format!("{}/{name}", conf::DIRECTORY)]
}

fn shell(command: &str) -> ExecAction {
    ExecAction {
        command: Some(vec!["bash".to_owned(), "-c".to_owned(), command.to_owned()]),
    }
}

fn probe(command: &str) -> Probe {
    Probe {
        exec: Some(shell(command)),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}
