//! `kyverno.io/v1alpha2`: the intermediate reports of Kyverno 1.8 to 1.11, before
//! `reports.kyverno.io`.
//!
//! The group also has Kyverno's policies, in other versions; only the reports are in the catalog.

use super::report::{self, AGE, summary_columns};
use super::schema::{self, Field, object};
use super::{CatalogResource, CatalogVersion, Column, Scope};

const GROUP: &str = "kyverno.io";
const CATEGORIES: &[&str] = &["kyverno"];

pub fn resources() -> Vec<CatalogResource> {
    vec![
        CatalogResource {
            group: GROUP,
            kind: "AdmissionReport",
            list_kind: "AdmissionReportList".into(),
            plural: "admissionreports",
            singular: "admissionreport",
            short_names: &["admr"],
            categories: CATEGORIES,
            scope: Scope::Namespaced,
            versions: vec![admission("Results of the checks of one admission request.")],
        },
        CatalogResource {
            group: GROUP,
            kind: "ClusterAdmissionReport",
            list_kind: "ClusterAdmissionReportList".into(),
            plural: "clusteradmissionreports",
            singular: "clusteradmissionreport",
            short_names: &["cadmr"],
            categories: CATEGORIES,
            scope: Scope::Cluster,
            versions: vec![admission(
                "Results of the checks of one admission request for a cluster-scoped object.",
            )],
        },
        CatalogResource {
            group: GROUP,
            kind: "BackgroundScanReport",
            list_kind: "BackgroundScanReportList".into(),
            plural: "backgroundscanreports",
            singular: "backgroundscanreport",
            short_names: &["bgscanr"],
            categories: CATEGORIES,
            scope: Scope::Namespaced,
            versions: vec![background(
                "Results of the checks of one object that exists already.",
            )],
        },
        CatalogResource {
            group: GROUP,
            kind: "ClusterBackgroundScanReport",
            list_kind: "ClusterBackgroundScanReportList".into(),
            plural: "clusterbackgroundscanreports",
            singular: "clusterbackgroundscanreport",
            short_names: &["cbgscanr"],
            categories: CATEGORIES,
            scope: Scope::Cluster,
            versions: vec![background(
                "Results of the checks of one cluster-scoped object that exists already.",
            )],
        },
    ]
}

fn admission(description: &str) -> CatalogVersion {
    let spec = object(
        "The results and the object they are about.",
        &["owner"],
        [report::owner(), report::summary(), report::results()],
    );
    let mut columns = vec![Column { name: "AGE", ..AGE }];
    columns.extend(summary_columns!(
        ".spec",
        ["PASS", "FAIL", "WARN", "ERROR", "SKIP"]
    ));
    columns.extend([
        Column::new(
            "GVR",
            "string",
            r".metadata.labels['audit\.kyverno\.io/resource\.gvr']",
        ),
        Column::new(
            "REF",
            "string",
            r".metadata.labels['audit\.kyverno\.io/resource\.name']",
        ),
        Column::new(
            "AGGREGATE",
            "string",
            r".metadata.labels['audit\.kyverno\.io/report\.aggregate']",
        )
        .wide(),
    ]);
    v1alpha2(description, ("spec", spec), columns)
}

fn background(description: &str) -> CatalogVersion {
    let spec = object("The results.", &[], [report::summary(), report::results()]);
    let mut columns = vec![
        Column::new(
            "ApiVersion",
            "string",
            ".metadata.ownerReferences[0].apiVersion",
        ),
        Column::new("Kind", "string", ".metadata.ownerReferences[0].kind"),
        Column::new("Subject", "string", ".metadata.ownerReferences[0].name"),
    ];
    columns.extend(summary_columns!(".spec"));
    columns.extend([
        AGE,
        Column::new(
            "Hash",
            "string",
            r".metadata.labels['audit\.kyverno\.io/resource\.hash']",
        )
        .wide(),
    ]);
    v1alpha2(description, ("spec", spec), columns)
}

fn v1alpha2(description: &str, spec: Field, columns: Vec<Column>) -> CatalogVersion {
    CatalogVersion {
        name: "v1alpha2",
        served: true,
        storage: true,
        schema: schema::resource(description, &["spec"], [spec]),
        columns,
    }
}
