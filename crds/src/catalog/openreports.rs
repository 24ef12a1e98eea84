//! `openreports.io`: the successor of the working group's report API.

use super::report::{self, AGE, SCOPE_KIND, SCOPE_NAME, summary_columns};
use super::schema::{self, Field, integer, list, object, one_of, string};
use super::{CatalogResource, CatalogVersion, Scope};

const GROUP: &str = "openreports.io";

pub fn resources() -> Vec<CatalogResource> {
    vec![
        CatalogResource {
            group: GROUP,
            kind: "Report",
            list_kind: "ReportList".into(),
            plural: "reports",
            singular: "report",
            short_names: &["reps"],
            categories: &[],
            scope: Scope::Namespaced,
            versions: vec![v1alpha1("Results of checks on the objects of a namespace.")],
        },
        CatalogResource {
            group: GROUP,
            kind: "ClusterReport",
            list_kind: "ClusterReportList".into(),
            plural: "clusterreports",
            singular: "clusterreport",
            short_names: &["creps"],
            categories: &[],
            scope: Scope::Cluster,
            versions: vec![v1alpha1("Results of checks on cluster-scoped objects.")],
        },
    ]
}

fn v1alpha1(description: &str) -> CatalogVersion {
    let fields = [
        ("source", string("Tool that made the checks.")),
        configuration(),
        report::scope(),
        report::scope_selector(),
        report::summary(),
        report::results(),
    ];
    let mut columns = vec![SCOPE_KIND.wide(), SCOPE_NAME.wide()];
    columns.extend(summary_columns!(""));
    columns.push(AGE);
    CatalogVersion {
        name: "v1alpha1",
        served: true,
        storage: true,
        schema: schema::resource(description, &[], fields),
        columns,
    }
}

fn configuration() -> Field {
    let limits = object(
        "Limits on what is reported.",
        &[],
        [
            ("maxResults", integer("Most results in one report.")),
            (
                "statusFilter",
                list(
                    "Outcomes that are reported; the others are left out.",
                    &one_of("Outcome of a check.", report::RESULTS),
                ),
            ),
        ],
    );
    let description = "How the report was asked to be made.";
    (
        "configuration",
        object(description, &["limits"], [("limits", limits)]),
    )
}
