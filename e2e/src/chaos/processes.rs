//! The driver on a control plane without nodes: server and migration are processes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::{ChaosError, Driver, Fault, Window};
use crate::processes::{LIMIT, Processes, ProcessesError};
use testcluster::{Cluster, Component, Process, Signal};

/// Number of times that a migration that was killed is started again.
const TRIES: u32 = 5;
/// A CRD that is touched.
const CRD: &str = "crd/policyreports.wgpolicyk8s.io";

/// A driver of processes. See the module.
pub struct ProcessDriver {
    processes: Processes,
    server: tokio::sync::Mutex<Option<Process>>,
    migration: Mutex<Option<Arc<Process>>>,
    migrations: AtomicU32,
}

impl ProcessDriver {
    /// Starts the server on a control plane, and registers its control API.
    ///
    /// # Errors
    /// If one of these fails.
    pub async fn start(processes: Processes) -> Result<Self, ChaosError> {
        let server = processes.serve()?;
        processes.register().await?;
        Ok(Self {
            processes,
            server: tokio::sync::Mutex::new(Some(server)),
            migration: Mutex::default(),
            migrations: AtomicU32::new(0),
        })
    }

    /// Runs a migration to its end, each time anew after it was killed.
    async fn migrate(&self, more: &[&str]) -> Result<(), ChaosError> {
        let mut last = None;
        for _ in 0..TRIES {
            let number = self.migrations.fetch_add(1, Ordering::Relaxed);
            let name = format!("migrate-{number}");
            let migration = self.processes.migrate(&name, None, more)?;
            self.set_migration(Some(Arc::clone(&migration.process)));
            let ended = migration.ended(LIMIT).await;
            self.set_migration(None);
            let ended = ended?;
            if ended.done {
                return Ok(());
            }
            last = Some(ProcessesError::Migration {
                name,
                how: ended.how,
                log: ended.log,
            });
        }
        match last {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn set_migration(&self, process: Option<Arc<Process>>) {
        *self
            .migration
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = process;
    }

    /// Sends a signal to the migration, if one is under way.
    fn signal(&self, signal: Signal) {
        let migration = self.migration.lock();
        let migration = migration.unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = migration.as_ref() {
            // One that has ended meanwhile has nothing to be told.
            let _ = process.signal(signal);
        }
    }

    async fn kill_server(&self) -> Result<(), ChaosError> {
        let mut server = self.server.lock().await;
        if let Some(old) = server.take() {
            old.kill().await?;
            // When its value is dropped, a process is ended by its name, which the new one has, too.
            drop(old);
        }
        *server = Some(self.processes.serve()?);
        Ok(())
    }
}

#[async_trait]
impl Driver for ProcessDriver {
    fn cluster(&self) -> &Cluster {
        &self.processes.cluster
    }

    async fn forward(&self, prune: bool) -> Result<(), ChaosError> {
        let keep: &[&str] = if prune { &[] } else { &["--keep"] };
        self.migrate(keep).await
    }

    async fn back(&self) -> Result<(), ChaosError> {
        self.migrate(&["--back"]).await
    }

    fn faults(&self) -> Vec<Fault> {
        let last = self.processes.cluster.apiservers().saturating_sub(1);
        vec![
            Fault::OperatorKilled,
            Fault::OperatorPaused,
            Fault::ServerKilled,
            Fault::ApiServerFrozen(0),
            Fault::ApiServerFrozen(last),
            Fault::ApiServerRestarted(last),
            Fault::CrdTouched,
        ]
    }

    fn usual(&self) -> Duration {
        Duration::from_secs(9)
    }

    async fn strike(&self, fault: Fault, length: Duration) -> Result<Option<Window>, ChaosError> {
        match fault {
            Fault::OperatorKilled => self.signal(Signal::Kill),
            Fault::OperatorPaused => {
                self.signal(Signal::Stop);
                tokio::time::sleep(length).await;
                self.signal(Signal::Cont);
            }
            Fault::ServerKilled => self.kill_server().await?,
            // No pods and no operator that would mend it: not among the faults of this driver.
            Fault::ServerPodDeleted | Fault::ApiServiceDeleted => {}
            fault => at_cluster(self.cluster(), fault, length).await?,
        }
        Ok(None)
    }
}

/// Makes a fault that is the same on every cluster.
///
/// # Errors
/// If the cluster does not do as asked.
pub async fn at_cluster(
    cluster: &Cluster,
    fault: Fault,
    length: Duration,
) -> Result<(), ChaosError> {
    match fault {
        Fault::ApiServerFrozen(index) => {
            cluster.stop(Component::ApiServer(index))?;
            tokio::time::sleep(length).await;
            cluster.cont(Component::ApiServer(index))?;
        }
        Fault::ApiServerRestarted(index) => cluster.restart(Component::ApiServer(index)).await?,
        Fault::CrdTouched => {
            let note = format!("chaos/touched={}", length.as_millis());
            let annotate = ["annotate", "--overwrite", CRD, &note];
            cluster.kubectl(annotate).await?;
        }
        _ => {}
    }
    Ok(())
}
