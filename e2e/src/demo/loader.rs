//! The ways in which images get into the nodes of a cluster that somebody has.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use tokio::process::Command;

use super::DemoError;
use testcluster::{Error, run_command};

/// The tool that puts images into the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Loader {
    /// `kind load image-archive`.
    Kind,
    /// `k3d image import`.
    #[value(name = "k3d")]
    K3d,
    /// `minikube image load`.
    Minikube,
    /// The images are there, or can be pulled.
    #[value(name = "none")]
    Nothing,
}

impl Loader {
    /// Returns the name of the program; none where nothing is loaded.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Kind => Some("kind"),
            Self::K3d => Some("k3d"),
            Self::Minikube => Some("minikube"),
            Self::Nothing => None,
        }
    }

    /// Returns the tool's name for the cluster of a context, as the tool itself names contexts.
    fn cluster(self, context: &str) -> Option<&str> {
        match self {
            Self::Kind => context.strip_prefix("kind-"),
            Self::K3d => context.strip_prefix("k3d-"),
            Self::Minikube | Self::Nothing => Some(context),
        }
    }

    /// Returns the words of the command behind the name of the program.
    fn arguments<'a>(self, cluster: &'a str, archive: &'a str) -> Vec<&'a str> {
        match self {
            Self::Kind => vec!["load", "image-archive", archive, "--name", cluster],
            Self::K3d => vec!["image", "import", archive, "--cluster", cluster],
            Self::Minikube => vec!["image", "load", archive, "--profile", cluster],
            Self::Nothing => Vec::new(),
        }
    }

    /// Checks that the tool is there, and that the context is one of its clusters.
    ///
    /// # Errors
    /// If not.
    pub fn check(self, context: &str) -> Result<(), DemoError> {
        let Some(program) = self.program() else {
            return Ok(());
        };
        if !is_in_path(program) {
            let missing = format!("the program {program}, which loads the images, is not in PATH");
            return Err(DemoError::Refused(missing));
        }
        match self.cluster(context) {
            Some(_) => Ok(()),
            None => Err(DemoError::Refused(format!(
                "the current context '{context}' is no cluster of {program}: those begin with \
                 '{program}-'"
            ))),
        }
    }

    /// Loads archives into the nodes of the cluster of a context.
    ///
    /// # Errors
    /// If the tool fails.
    pub async fn load(self, context: &str, archives: &[PathBuf]) -> Result<(), DemoError> {
        let (Some(program), Some(cluster)) = (self.program(), self.cluster(context)) else {
            return Ok(());
        };
        for archive in archives {
            let mut command = Command::new(program);
            command.args(self.arguments(cluster, &archive.to_string_lossy()));
            command.kill_on_drop(true);
            match run_command(command, "").await {
                Ok(_) => {}
                Err(Error::Command {
                    command, stderr, ..
                }) => {
                    let why = stderr;
                    return Err(DemoError::Load { command, why });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Returns whether a program is in one of the folders of `PATH`.
pub fn is_in_path(program: impl AsRef<Path>) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A program with a path is joined to nothing but itself.
    std::env::split_paths(&path).any(|folder| folder.join(program.as_ref()).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(Loader::Kind, "kind-r", "load image-archive a.tar --name r")]
    #[case(Loader::K3d, "k3d-r", "image import a.tar --cluster r")]
    #[case(Loader::Minikube, "r", "image load a.tar --profile r")]
    #[case(Loader::Nothing, "any", "")]
    fn the_context_names_the_cluster(
        #[case] loader: Loader,
        #[case] context: &str,
        #[case] expected: &str,
    ) {
        let cluster = loader.cluster(context).unwrap();
        assert_eq!(loader.arguments(cluster, "a.tar").join(" "), expected);
    }

    #[test]
    fn the_context_of_another_tool_is_refused() {
        assert_eq!(Loader::Kind.cluster("k3d-reports"), None);
        assert_eq!(Loader::K3d.cluster("reports"), None);
        assert!(Loader::Nothing.check("any").is_ok());
    }

    #[test]
    fn a_program_is_found_by_its_name_or_its_path() {
        assert!(is_in_path("sh"));
        assert!(is_in_path("/bin/sh"));
        assert!(!is_in_path("no-such-program"));
    }
}
