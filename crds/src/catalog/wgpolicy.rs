//! `wgpolicyk8s.io`: the report API of the Kubernetes Policy Working Group, as Kyverno ships it.

use super::report::{self, AGE, SCOPE_KIND, SCOPE_NAME, summary_columns};
use super::{CatalogResource, CatalogVersion, Scope, schema};

const GROUP: &str = "wgpolicyk8s.io";

pub fn resources() -> Vec<CatalogResource> {
    vec![
        CatalogResource {
            group: GROUP,
            kind: "PolicyReport",
            list_kind: "PolicyReportList".into(),
            plural: "policyreports",
            singular: "policyreport",
            short_names: &["polr"],
            categories: &[],
            scope: Scope::Namespaced,
            versions: vec![v1alpha2(
                "Results of policy checks on the objects of a namespace.",
            )],
        },
        CatalogResource {
            group: GROUP,
            kind: "ClusterPolicyReport",
            list_kind: "ClusterPolicyReportList".into(),
            plural: "clusterpolicyreports",
            singular: "clusterpolicyreport",
            short_names: &["cpolr"],
            categories: &[],
            scope: Scope::Cluster,
            versions: vec![v1alpha2(
                "Results of policy checks on cluster-scoped objects.",
            )],
        },
    ]
}

fn v1alpha2(description: &str) -> CatalogVersion {
    let fields = [
        report::scope(),
        report::scope_selector(),
        report::summary(),
        report::results(),
    ];
    let mut columns = vec![SCOPE_KIND, SCOPE_NAME];
    columns.extend(summary_columns!(""));
    columns.push(AGE);
    CatalogVersion {
        name: "v1alpha2",
        served: true,
        storage: true,
        schema: schema::resource(description, &[], fields),
        columns,
    }
}
