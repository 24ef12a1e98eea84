//! The reports that are written and read, and their places.

use apimachinery::definition::ResourceDefinition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use testreports::{Corpus, Input, Messages, Owner, ReportKind};

/// The kind of all reports.
pub const KIND: ReportKind = ReportKind::PolicyReport;
const NAMESPACE: &str = "counted";
const NAMESPACE_UID: &str = "00000000-0000-4000-8000-000000000001";

/// The content of reports, recorded or generated.
pub struct Reports {
    crds: Vec<CustomResourceDefinition>,
    corpus: Corpus,
    messages: Messages,
}

impl Reports {
    pub fn of(input: &Input) -> Self {
        let corpus = input.corpus().unwrap();
        Self {
            crds: input.crds(&[KIND.group()]).unwrap(),
            messages: Messages::of(corpus.templates(KIND)),
            corpus,
        }
    }

    pub fn definitions(&self) -> Vec<ResourceDefinition> {
        let crds = self.crds.iter();
        crds.map(|crd| ResourceDefinition::from_crd(crd).unwrap())
            .collect()
    }

    /// Returns a report as it is created.
    pub fn report(&self, index: usize) -> Value {
        let owner = Owner {
            namespace: NAMESPACE.to_owned(),
            uid: NAMESPACE_UID.to_owned(),
        };
        self.corpus.report(KIND, index, &owner)
    }

    /// Returns a report after a scan that found something new. The number of the scan has to
    /// differ from that of every other scan of the report.
    pub fn scanned(&self, mut report: Value, scan: u64) -> Value {
        self.messages.rescan(&mut report, scan);
        report
    }
}

/// Returns the path of all reports.
pub fn collection() -> String {
    KIND.path(Some(NAMESPACE))
}

/// Returns the path of a report.
pub fn path(index: usize) -> String {
    format!("{}/{}", collection(), testreports::subject_uid(KIND, index))
}
