//! A pair of PostgreSQL servers that Patroni keeps as primary and synchronous standby, beside the
//! pods of a cluster, which reach them at the node's address. Debian's Patroni and PostgreSQL, with
//! an etcd of its own.

mod config;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use pgtest::Authority;
use serde_json::{Value, json};

use config::{Member, create_script, member, patroni};
use testcluster::{Cluster, Process, ProcessSpec, Signal, http, network};

/// Address where both servers listen, on ports of their own.
const ADDRESS: Ipv4Addr = network::NODE_IP;
const DCS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(ADDRESS), 12379);
const DCS_PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(ADDRESS), 12380);
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";
/// The database.
pub const DATABASE: &str = "reports";
/// An empty database beside it.
pub const OTHER_DATABASE: &str = "other";
/// The owner of both.
pub const ROLE: &str = "reports_server";
/// Longest time of a first start, which runs initdb and a base backup, on a machine that does other
/// things as well.
const START_LIMIT: Duration = Duration::from_mins(2);
/// Longest time until a dead primary is followed, and until the pair is whole again.
const FAILOVER_LIMIT: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(200);

/// The reason why the pair could not do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum PatroniError {
    /// The cluster that it runs in.
    #[error(transparent)]
    Cluster(#[from] testcluster::Error),
    /// A file.
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Certificates could not be made.
    #[error("certificates of the pair: {0}")]
    Certificates(String),
    /// A program of Debian's is missing.
    #[error("{0} is missing; `hack/deps postgres` installs it")]
    Missing(&'static str),
    /// A state was not reached.
    #[error("{what} was not reached within {limit:?}: {last}; logs: {}", logs.display())]
    NotReached {
        /// The awaited state.
        what: &'static str,
        /// The time of the wait.
        limit: Duration,
        /// The last answer of Patroni.
        last: String,
        /// The directory of the logs.
        logs: PathBuf,
    },
    /// Patroni refused.
    #[error("Patroni refuses a switchover: {0}")]
    Refused(String),
}

/// A running pair. It ends when dropped, and with the cluster at the latest.
pub struct Patroni<'a> {
    cluster: &'a Cluster,
    members: [Member; 2],
    processes: [Option<Process>; 2],
    #[expect(dead_code, reason = "held: its drop ends it")]
    dcs: Process,
    authority: String,
    password: String,
}

impl<'a> Patroni<'a> {
    /// Starts the pair, and waits until one is primary and the other its synchronous standby.
    ///
    /// # Errors
    /// If a package is missing or the pair does not get ready.
    pub async fn start(cluster: &'a Cluster) -> Result<Self, PatroniError> {
        let user = User::postgres()?;
        let directory = cluster.directory().join("patroni");
        let password = uuid::Uuid::new_v4().simple().to_string();
        user.directory(&directory)?;
        let authority = certificates(&user, &directory)?;
        user.file(
            &directory.join("create.sh"),
            &create_script(&password),
            0o700,
        )?;
        let members = [0, 1].map(|index| member(index, &directory));
        let dcs = cluster.run(etcd(&directory))?;
        let mut pair = Self {
            cluster,
            members,
            processes: [None, None],
            dcs,
            authority,
            password,
        };
        for index in 0..pair.members.len() {
            user.directory(&pair.members[index].directory)?;
            let text = patroni(&pair.members[index], &directory, DCS).to_string();
            user.file(&pair.config(index), &text, 0o600)?;
            pair.start_member(index)?;
        }
        pair.whole(START_LIMIT).await?;
        Ok(pair)
    }

    fn config(&self, index: usize) -> PathBuf {
        self.members[index].directory.join("patroni.yml")
    }

    fn start_member(&mut self, index: usize) -> Result<(), PatroniError> {
        let spec = ProcessSpec::new(format!("patroni-{}", self.members[index].name), "setpriv")
            .args([
                "--reuid=postgres".to_owned(),
                "--regid=postgres".to_owned(),
                "--clear-groups".to_owned(),
                "--".to_owned(),
                "patroni".to_owned(),
                self.config(index).display().to_string(),
            ]);
        self.processes[index] = Some(self.cluster.run(spec)?);
        Ok(())
    }

    /// Returns a connection URI that names both servers and takes the one that can write.
    #[must_use]
    pub fn uri(&self) -> String {
        self.uri_of(DATABASE)
    }

    /// Returns a connection URI of a database, like [`uri`](Self::uri).
    #[must_use]
    pub fn uri_of(&self, database: &str) -> String {
        let [a, b] = self.members.each_ref().map(|member| member.postgres);
        let password = &self.password;
        format!("postgres://{ROLE}:{password}@{a},{b}/{database}?target_session_attrs=read-write")
    }

    /// Returns the certificate authority of both servers' certificates, PEM.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the index of the primary.
    ///
    /// # Errors
    /// If there is none for longer than a failover takes.
    pub async fn primary(&self) -> Result<usize, PatroniError> {
        self.until("a primary", FAILOVER_LIMIT, |roles| {
            roles.iter().position(|role| role == "leader")
        })
        .await
    }

    /// Waits until one server is primary and the other its synchronous standby.
    ///
    /// # Errors
    /// If that takes longer than a failover takes.
    pub async fn restored(&self) -> Result<(), PatroniError> {
        self.whole(FAILOVER_LIMIT).await
    }

    async fn whole(&self, limit: Duration) -> Result<(), PatroniError> {
        self.until("primary and synchronous standby", limit, |roles| {
            let has = |wanted: &str| roles.iter().any(|role| role == wanted);
            (has("leader") && has("sync_standby")).then_some(())
        })
        .await
    }

    /// Kills the primary's PostgreSQL (`SIGKILL`) and returns when the other server is primary.
    /// Patroni brings the killed one back as a standby.
    ///
    /// # Errors
    /// If there is no primary, or none follows it.
    pub async fn crash_primary(&self) -> Result<(), PatroniError> {
        let old = self.primary().await?;
        self.kill_postgres(old).await?;
        self.other_than(old).await
    }

    /// Kills the primary with its Patroni (`SIGKILL`), as a lost machine does, and returns when the
    /// other server is primary. [`start_again`](Self::start_again) brings it back.
    ///
    /// # Errors
    /// If there is no primary, or none follows it.
    pub async fn lose_primary(&mut self) -> Result<usize, PatroniError> {
        let old = self.primary().await?;
        if let Some(process) = self.processes[old].take() {
            process.signal(Signal::Kill)?;
            process.wait().await?;
        }
        self.kill_postgres(old).await?;
        self.other_than(old).await?;
        Ok(old)
    }

    /// Starts a server again that was lost, and waits until it is the standby.
    ///
    /// # Errors
    /// If it does not get ready.
    pub async fn start_again(&mut self, index: usize) -> Result<(), PatroniError> {
        self.start_member(index)?;
        self.restored().await
    }

    /// Makes the standby primary, in order, as before maintenance.
    ///
    /// # Errors
    /// If Patroni refuses, or it does not happen.
    pub async fn switch_over(&self) -> Result<(), PatroniError> {
        let old = self.primary().await?;
        let rest = self.cluster.forward(self.members[old].rest)?;
        let wanted = json!({"leader": self.members[old].name});
        let (status, body) = http::post(rest, "/switchover", &wanted)
            .await
            .map_err(PatroniError::Refused)?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body).into_owned();
            return Err(PatroniError::Refused(text));
        }
        self.other_than(old).await
    }

    async fn kill_postgres(&self, index: usize) -> Result<(), PatroniError> {
        let pid_file = self.members[index].directory.join("data/postmaster.pid");
        // Its number is that of the cluster's own namespace.
        let mut command = self.cluster.shell();
        command
            .args(["sh", "-c", "kill -9 \"$(head -n 1 \"$0\")\""])
            .arg(&pid_file);
        let status = tokio::process::Command::from(command).status().await;
        let killed = status.map_err(|source| PatroniError::File {
            path: pid_file.clone(),
            source,
        })?;
        if killed.success() {
            return Ok(());
        }
        Err(PatroniError::File {
            path: pid_file,
            source: io::Error::other("no PostgreSQL that runs"),
        })
    }

    async fn other_than(&self, old: usize) -> Result<(), PatroniError> {
        self.until("another primary", FAILOVER_LIMIT, |roles| {
            let leader = roles.iter().position(|role| role == "leader")?;
            (leader != old).then_some(())
        })
        .await
    }

    /// Asks until `reached` returns something; it gets both members' roles, empty where unknown.
    async fn until<T>(
        &self,
        what: &'static str,
        limit: Duration,
        reached: impl Fn(&[String; 2]) -> Option<T>,
    ) -> Result<T, PatroniError> {
        let started = Instant::now();
        loop {
            let last = self.roles().await;
            if let Ok(roles) = &last
                && let Some(found) = reached(roles)
            {
                return Ok(found);
            }
            if started.elapsed() > limit {
                return Err(PatroniError::NotReached {
                    what,
                    limit,
                    last: format!("{last:?}"),
                    logs: self.cluster.logs(),
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the roles of both members as any living Patroni reports them. A leader has one once
    /// it can write: it holds the lock a moment before.
    async fn roles(&self) -> Result<[String; 2], String> {
        let mut failure = String::new();
        for member in &self.members {
            match self.ask(member, "/cluster").await {
                Ok(answer) => {
                    let mut roles = self.members.each_ref().map(|of| role(&answer, &of.name));
                    for (member, role) in self.members.iter().zip(&mut roles) {
                        if role == "leader" && !self.writes(member).await {
                            role.clear();
                        }
                    }
                    return Ok(roles);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Returns whether PostgreSQL says that its recovery has ended.
    async fn writes(&self, member: &Member) -> bool {
        let answer = self.ask(member, "/patroni").await;
        answer.is_ok_and(|answer| answer["role"] == "master" || answer["role"] == "primary")
    }

    /// Returns the answer of Patroni, if it is a success.
    async fn ask(&self, member: &Member, path: &str) -> Result<Value, String> {
        let failed = |why: String| format!("{} {path}: {why}", member.name);
        let local = self
            .cluster
            .forward(member.rest)
            .map_err(|error| failed(error.to_string()))?;
        match http::get(local, path).await.map_err(failed)? {
            (status, body) if status.is_success() => {
                Ok(serde_json::from_slice(&body).unwrap_or_default())
            }
            (status, _) => Err(failed(status.to_string())),
        }
    }
}

/// Returns the role of a member that runs.
fn role(cluster: &Value, name: &str) -> String {
    let members = cluster["members"].as_array();
    let member = members
        .into_iter()
        .flatten()
        .find(|member| member["name"] == name);
    let runs = |member: &&Value| matches!(member["state"].as_str(), Some("running" | "streaming"));
    member
        .filter(runs)
        .and_then(|member| member["role"].as_str())
        .unwrap_or_default()
        .to_owned()
}

fn etcd(directory: &Path) -> ProcessSpec {
    ProcessSpec::new("patroni-etcd", "etcd").args([
        "--name=patroni".to_owned(),
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls=http://{DCS}"),
        format!("--advertise-client-urls=http://{DCS}"),
        format!("--listen-peer-urls=http://{DCS_PEER}"),
        format!("--initial-advertise-peer-urls=http://{DCS_PEER}"),
        format!("--initial-cluster=patroni=http://{DCS_PEER}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ])
}

/// Writes the servers' certificate; returns the authority's.
fn certificates(user: &User, directory: &Path) -> Result<String, PatroniError> {
    let failed = |error: anyhow::Error| PatroniError::Certificates(error.to_string());
    let authority = Authority::new("the pair's CA").map_err(failed)?;
    let pair = authority.server(&[&ADDRESS.to_string()]).map_err(failed)?;
    user.file(&directory.join("tls.crt"), &pair.certificate, 0o600)?;
    user.file(&directory.join("tls.key"), &pair.key, 0o600)?;
    Ok(authority.pem().to_owned())
}

/// The user that PostgreSQL runs as: it refuses root.
struct User {
    uid: u32,
    gid: u32,
}

impl User {
    fn postgres() -> Result<Self, PatroniError> {
        if !Path::new("/usr/bin/patroni").exists() {
            return Err(PatroniError::Missing("patroni"));
        }
        let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let numbers = passwd.lines().find_map(|line| {
            let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        });
        let (uid, gid) = numbers.ok_or(PatroniError::Missing("the user postgres"))?;
        Ok(Self { uid, gid })
    }

    fn directory(&self, path: &Path) -> Result<(), PatroniError> {
        fs::create_dir_all(path)
            .and_then(|()| self.own(path, 0o700))
            .map_err(|source| file(path, source))
    }

    fn file(&self, path: &Path, content: &str, mode: u32) -> Result<(), PatroniError> {
        fs::write(path, content)
            .and_then(|()| self.own(path, mode))
            .map_err(|source| file(path, source))
    }

    fn own(&self, path: &Path, mode: u32) -> io::Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        chown(path, Some(self.uid), Some(self.gid))
    }
}

fn file(path: &Path, source: io::Error) -> PatroniError {
    PatroniError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_that_runs_has_a_role() {
        let cluster = json!({"members": [
            {"name": "pg0", "role": "leader", "state": "running"},
            {"name": "pg1", "role": "replica", "state": "stopped"},
        ]});
        let roles = ["pg0", "pg1", "pg2"].map(|name| role(&cluster, name));
        assert_eq!(roles, ["leader", "", ""]);
    }
}
