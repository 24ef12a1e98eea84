//! A cluster that somebody has, as a kubeconfig leads to it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::process::Command;

use super::DemoError;
use crate::access::Access;
use testcluster::http::chain;
use testcluster::{Error, Release, run_command};

/// Longest time until the cluster answers for the first time.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// A cluster that somebody has.
#[derive(Clone, Debug)]
pub struct Site {
    /// The current context of the kubeconfig.
    pub context: String,
    /// The kubeconfig, as it was named.
    pub named: PathBuf,
    kubectl: PathBuf,
    config: Config,
    folder: PathBuf,
}

impl Site {
    /// Reads a kubeconfig, once: whoever chooses another context meanwhile does not lead any client
    /// to another cluster. `folder` is for the copy that programs read, and for their logs.
    ///
    /// # Errors
    /// If it cannot be used.
    pub async fn read(kubeconfig: &Path, kubectl: &Path, folder: &Path) -> Result<Self, DemoError> {
        // rustls takes the first provider that is installed; a second one changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let unusable = |error: kube::config::KubeconfigError| {
            let why = chain(&error);
            DemoError::Refused(format!("{} cannot be used: {why}", kubeconfig.display()))
        };
        let read = Kubeconfig::read_from(kubeconfig).map_err(unusable)?;
        let site = Self {
            context: read.current_context.clone().unwrap_or_default(),
            named: kubeconfig.to_owned(),
            kubectl: kubectl.to_owned(),
            folder: folder.to_owned(),
            config: Config::from_custom_kubeconfig(read.clone(), &KubeConfigOptions::default())
                .await
                .map_err(unusable)?,
        };
        let copied = std::fs::write(site.copy(), json!(read).to_string());
        copied.map_err(|source| Error::Io {
            what: format!("copy {}", kubeconfig.display()),
            source,
        })?;
        Ok(site)
    }

    /// Returns the address of the kube-apiserver.
    #[must_use]
    pub fn address(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// Returns the path of the kubeconfig as it was read. A YAML parser reads JSON.
    fn copy(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Returns a client, and the release of the kube-apiserver, which shows that it answers.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn client(&self) -> Result<(Client, Release), DemoError> {
        let silent = |why: String| {
            let server = &self.config.cluster_url;
            DemoError::Refused(format!("the cluster at {server} does not answer: {why}"))
        };
        let client = Client::try_from(self.config.clone());
        let client = client.map_err(|error| silent(chain(&error)))?;
        let version = tokio::time::timeout(ANSWER_LIMIT, client.apiserver_version()).await;
        let version = version.map_err(|_| silent("no answer within 20 s".to_owned()))?;
        let version = version.map_err(|error| silent(chain(&error)))?;
        let release = version.git_version.parse()?;
        Ok((client, release))
    }
}

#[async_trait]
impl Access for Site {
    /// Returns 1: behind the one address there may be more, which no client can choose.
    fn apiservers(&self) -> usize {
        1
    }

    async fn config(&self, _index: usize) -> Result<Config, Error> {
        Ok(self.config.clone())
    }

    fn server(&self, _index: usize) -> Option<String> {
        None
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", self.copy());
        // Ctrl-C is for the demo, which removes everything then by such commands.
        command.process_group(0);
        command.kill_on_drop(true);
        command
    }

    async fn kubectl(&self, arguments: &[&OsStr], input: &str) -> Result<String, Error> {
        let mut command = self.command(&self.kubectl);
        command.args(arguments);
        run_command(command, input).await
    }

    fn logs(&self) -> PathBuf {
        self.folder.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refused(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, text).unwrap();
        let site = Site::read(&file, Path::new("kubectl"), folder.path()).await;
        match site {
            Err(error) => error.to_string(),
            Ok(site) => site.client().await.err().unwrap().to_string(),
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_that_leads_nowhere_is_refused_in_one_sentence() {
        let said = refused("not: [a kubeconfig").await;
        assert!(said.contains("cannot be used"), "{said}");
        let said = refused("{}").await;
        assert!(said.contains("cannot be used"), "{said}");
        let closed = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}"#;
        let said = refused(closed).await;
        assert!(said.contains("does not answer"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}
