//! The program that prints the structure of the workspace; exit code 0 only when everything is
//! within its bounds.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, io};

use clap::Parser;
use house::report::{Report, ReportError};

/// Measures the structure of the workspace, and holds the documents against the code.
#[derive(Parser)]
struct Args {
    /// The root of the workspace.
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// The program cargo-machete, which finds dependencies that no line uses.
    #[arg(long)]
    machete: PathBuf,
    /// Writes the figures to this file as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The reason why nothing can be measured.
#[derive(Debug, thiserror::Error)]
enum HouseError {
    #[error(transparent)]
    Report(#[from] ReportError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("cargo-machete ended with {0}")]
    Machete(String),
}

fn main() -> ExitCode {
    match house(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn house(args: &Args) -> Result<bool, HouseError> {
    let file = |path: &Path, source| HouseError::File {
        path: path.to_owned(),
        source,
    };
    let root = args.root.canonicalize().map_err(|e| file(&args.root, e))?;
    let mut report = Report::measure(&root)?;
    report.unused_dependencies = unused_dependencies(&args.machete, &root)?;
    print!("{report}");
    if let Some(path) = &args.json {
        fs::write(path, format!("{:#}\n", report.to_json())).map_err(|e| file(path, e))?;
    }
    Ok(report.holds())
}

/// Returns the dependencies that no line uses, each as `CRATE: DEPENDENCY`.
fn unused_dependencies(machete: &Path, root: &Path) -> Result<Vec<String>, HouseError> {
    let output = Command::new(machete).arg(root).output();
    let output = output.map_err(|source| HouseError::File {
        path: machete.to_owned(),
        source,
    })?;
    // 1 says that some were found.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(HouseError::Machete(output.status.to_string()));
    }
    Ok(listed(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns what cargo-machete lists: a line `CRATE -- PATH:`, and below it the dependencies,
/// indented.
fn listed(text: &str) -> Vec<String> {
    let mut of = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some((name, _)) = line.split_once(" -- ") {
            of = name;
        } else if let Some(dependency) = line.strip_prefix('\t') {
            found.push(format!("{of}: {dependency}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_with_their_crate() {
        let text = "cargo-machete found the following unused dependencies in .:\n\
            server -- ./server/Cargo.toml:\n\ttower\n\ttokio-stream\n\nfuzz -- ./fuzz/Cargo.toml:\n\tuuid\n";
        assert_eq!(
            listed(text),
            ["server: tower", "server: tokio-stream", "fuzz: uuid"]
        );
        assert!(listed("cargo-machete didn't find any unused dependencies.").is_empty());
    }
}
