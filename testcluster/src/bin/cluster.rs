//! `hack/cluster`: a real Kubernetes on this machine, for tests and for a look.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};
use testcluster::{Cluster, ClusterOptions, Shape, provisioner, run_agent};

/// A real Kubernetes on this machine, in namespaces of its own.
#[derive(Parser)]
#[command(name = "hack/cluster", version)]
struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Start a cluster and leave it running.
    Up(Up),
    /// End a cluster and remove everything of it.
    Down {
        #[command(flatten)]
        name: Name,
        /// All that run, and what crashed ones left.
        #[arg(long)]
        all: bool,
    },
    /// Name the clusters that run.
    List,
    /// A shell, or a command, inside of the cluster's network and mounts.
    Shell {
        #[command(flatten)]
        name: Name,
        /// Run this instead of a shell.
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Run kubectl as the administrator.
    Kubectl {
        #[command(flatten)]
        name: Name,
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Load OCI archives into the node.
    LoadImage {
        #[command(flatten)]
        name: Name,
        /// Files, e.g. from hack/image.
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Print the log of a component, or the names of those that have one.
    Logs {
        #[command(flatten)]
        name: Name,
        /// E.g. kube-apiserver-0.
        component: Option<String>,
    },
    /// Inside of the namespaces: start and connect.
    #[command(hide = true)]
    Agent { directory: PathBuf },
    /// Inside of the namespaces: provide persistent volumes.
    #[command(hide = true)]
    Provisioner { directory: PathBuf },
}

#[derive(Args)]
struct Name {
    /// Name of the cluster.
    #[arg(long, default_value = "default")]
    name: String,
}

#[derive(Args)]
struct Up {
    #[command(flatten)]
    name: Name,
    /// Parts of the cluster.
    #[arg(long, value_enum, default_value_t = Shape::ControlPlane)]
    shape: Shape,
    /// Number of kube-apiservers that share the etcd.
    #[arg(long, default_value_t = 1)]
    apiservers: usize,
    /// Additional flag of every kube-apiserver; may be repeated.
    #[arg(long = "apiserver-arg", allow_hyphen_values = true)]
    apiserver_args: Vec<String>,
    /// Let etcd wait for the disk at each write (for benchmarks).
    #[arg(long)]
    fsync: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(verb: Verb) -> anyhow::Result<()> {
    match verb {
        Verb::Up(up) => start(up).await,
        Verb::Down { name, all } => down(&name.name, all),
        Verb::List => {
            for name in Cluster::running() {
                println!("{name}");
            }
            Ok(())
        }
        Verb::Shell { name, command } => shell(&name.name, &command),
        Verb::Kubectl { name, args } => {
            let cluster = Cluster::attach(&name.name)?;
            let mut kubectl = cluster.command("kubectl").into_std();
            Err(kubectl.args(args).exec()).context("run kubectl")
        }
        Verb::LoadImage { name, archives } => {
            let cluster = Cluster::attach(&name.name)?;
            for archive in archives {
                cluster.load_image(&archive).await?;
                println!("loaded {}", archive.display());
            }
            Ok(())
        }
        Verb::Logs { name, component } => logs(&name.name, component.as_deref()),
        Verb::Agent { directory } => Ok(run_agent(&directory).await?),
        Verb::Provisioner { directory } => provide(directory).await,
    }
}

async fn start(up: Up) -> anyhow::Result<()> {
    let name = up.name.name;
    let begin = std::time::Instant::now();
    let options = ClusterOptions {
        name: name.clone(),
        shape: up.shape,
        apiservers: up.apiservers,
        apiserver_args: up.apiserver_args,
        fsync: up.fsync,
        detached: true,
        ..ClusterOptions::default()
    };
    let cluster = Cluster::start(options).await?;
    let named = if name == "default" {
        String::new()
    } else {
        format!(" --name {name}")
    };
    println!(
        "the cluster '{name}' ({}) is ready after {:.1} s; its files are in {}",
        up.shape.as_str(),
        begin.elapsed().as_secs_f64(),
        cluster.directory().display()
    );
    println!("use it:    hack/cluster kubectl{named} get all -A");
    println!("remove it: hack/cluster down{named}");
    Ok(())
}

fn down(name: &str, all: bool) -> anyhow::Result<()> {
    if all {
        for name in Cluster::known() {
            Cluster::down(&name)?;
        }
        return Ok(());
    }
    Ok(Cluster::down(name)?)
}

fn shell(name: &str, command: &[String]) -> anyhow::Result<()> {
    let cluster = Cluster::attach(name)?;
    let mut shell = cluster.shell();
    if command.is_empty() {
        let program = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        if io::stdin().is_terminal() {
            println!("inside of the cluster '{name}'; kubectl works; leave with `exit`");
        }
        shell.arg(program);
    } else {
        shell.args(command);
    }
    Err(shell.exec()).context("run nsenter (package util-linux)")
}

fn logs(name: &str, component: Option<&str>) -> anyhow::Result<()> {
    let logs = Cluster::attach(name)?.logs();
    let mut names: Vec<String> = fs::read_dir(&logs)?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".log").map(str::to_owned))
        .collect();
    names.sort();
    match component {
        None => println!("{}", names.join("\n")),
        Some(component) if names.iter().any(|name| name == component) => {
            let mut log = fs::File::open(logs.join(format!("{component}.log")))?;
            io::copy(&mut log, &mut io::stdout())?;
        }
        Some(component) => {
            bail!(
                "there is no log of '{component}'; there are: {}",
                names.join(", ")
            )
        }
    }
    Ok(())
}

async fn provide(directory: PathBuf) -> anyhow::Result<()> {
    // It is the only provider in this process, so nothing is lost when one is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = kube::Client::try_default().await?;
    Ok(provisioner::run(client, directory).await?)
}
