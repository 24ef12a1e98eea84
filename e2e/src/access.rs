//! The ways in which clients reach a cluster: one of this machine's own, or one that somebody has.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use kube::Config;
use tokio::process::Command;

use testcluster::{Cluster, Error, network};

/// A cluster as its clients need it.
#[async_trait]
pub trait Access: Send + Sync {
    /// Returns the number of kube-apiservers that can be told apart; their indexes begin at 0.
    fn apiservers(&self) -> usize;

    /// Returns the configuration of clients of the administrator at a kube-apiserver.
    ///
    /// # Errors
    /// If the kube-apiserver cannot be reached from here.
    async fn config(&self, index: usize) -> Result<Config, Error>;

    /// Returns the URL of a kube-apiserver as commands reach it; none where they have the one of
    /// their kubeconfig alone.
    fn server(&self, index: usize) -> Option<String>;

    /// Returns a command that will run `program` as the administrator.
    fn command(&self, program: &Path) -> Command;

    /// Runs kubectl as the administrator, with this text on standard input; returns its standard
    /// output.
    ///
    /// # Errors
    /// If kubectl fails, with the text that it wrote to standard error.
    async fn kubectl(&self, arguments: &[&OsStr], input: &str) -> Result<String, Error>;

    /// Returns the directory for the logs of clients.
    fn logs(&self) -> PathBuf;
}

#[async_trait]
impl Access for Cluster {
    fn apiservers(&self) -> usize {
        Cluster::apiservers(self)
    }

    async fn config(&self, index: usize) -> Result<Config, Error> {
        Cluster::config(self, index).await
    }

    fn server(&self, index: usize) -> Option<String> {
        Some(format!("https://{}", network::apiserver(index)))
    }

    fn command(&self, program: &Path) -> Command {
        Cluster::command(self, program)
    }

    async fn kubectl(&self, arguments: &[&OsStr], input: &str) -> Result<String, Error> {
        self.kubectl_with_input(arguments, input).await
    }

    fn logs(&self) -> PathBuf {
        Cluster::logs(self)
    }
}
