//! Reads the recorded reports and the vendors' CRDs.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::{InputError, ReportKind, as_sent};

/// Returns all CRDs in a folder.
pub fn crds(folder: &Path) -> Result<Vec<CustomResourceDefinition>, InputError> {
    let read = |source| InputError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        paths.push(entry.map_err(read)?.path());
    }
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let file = File::open(&path).map_err(|source| InputError::Read {
                path: path.clone(),
                source,
            })?;
            serde_yaml::from_reader(file).map_err(|error| InputError::Format {
                path,
                reason: error.to_string(),
            })
        })
        .collect()
}

/// Returns all recorded reports of a kind, as their clients sent them.
pub fn reports(folder: &Path, kind: ReportKind) -> Result<Vec<Value>, InputError> {
    let name = format!(
        "{}.{}-{}.jsonl.gz",
        kind.plural(),
        kind.group(),
        kind.version()
    );
    let path = folder.join(name);
    let read = |source| InputError::Read {
        path: path.clone(),
        source,
    };
    let lines = BufReader::new(GzDecoder::new(File::open(&path).map_err(read)?)).lines();
    let mut reports = Vec::new();
    for line in lines {
        let mut report: Value =
            serde_json::from_str(&line.map_err(read)?).map_err(|error| InputError::Format {
                path: path.clone(),
                reason: error.to_string(),
            })?;
        as_sent(&mut report);
        reports.push(report);
    }
    if reports.is_empty() {
        return Err(InputError::Format {
            path,
            reason: "holds no report".into(),
        });
    }
    Ok(reports)
}
