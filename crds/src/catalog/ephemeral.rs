//! `reports.kyverno.io`: what Kyverno's controllers hand to each other before a policy report is
//! made of it.

use super::report::{self, AGE, summary_columns};
use super::schema::{self, object};
use super::{CatalogResource, CatalogVersion, Column, Scope};

const GROUP: &str = "reports.kyverno.io";

const UID: Column = Column::new(
    "Uid",
    "string",
    r".metadata.labels['audit\.kyverno\.io/resource\.uid']",
);
const HASH: Column = Column::new(
    "Hash",
    "string",
    r".metadata.labels['audit\.kyverno\.io/resource\.hash']",
);

pub fn resources() -> Vec<CatalogResource> {
    vec![
        CatalogResource {
            group: GROUP,
            kind: "EphemeralReport",
            list_kind: "EphemeralReportList".into(),
            plural: "ephemeralreports",
            singular: "ephemeralreport",
            short_names: &["ephr"],
            categories: &["kyverno"],
            scope: Scope::Namespaced,
            versions: vec![v1(
                "Intermediate results of one object's checks, on their way into a policy report.",
                UID.wide(),
            )],
        },
        CatalogResource {
            group: GROUP,
            kind: "ClusterEphemeralReport",
            list_kind: "ClusterEphemeralReportList".into(),
            plural: "clusterephemeralreports",
            singular: "clusterephemeralreport",
            short_names: &["cephr"],
            categories: &["kyverno"],
            scope: Scope::Cluster,
            // Kyverno shows the uid of this kind in narrow output, too.
            versions: vec![v1(
                "Intermediate results of one cluster-scoped object's checks, on their way into a \
                 cluster policy report.",
                UID,
            )],
        },
    ]
}

fn v1(description: &str, uid: Column) -> CatalogVersion {
    let spec = object(
        "The results and the object they are about.",
        &["owner"],
        [report::owner(), report::summary(), report::results()],
    );
    let mut columns = vec![
        Column::new(
            "Source",
            "string",
            r".metadata.labels['audit\.kyverno\.io/source']",
        ),
        Column::new(
            "Group",
            "string",
            r".metadata.labels['audit\.kyverno\.io/resource\.group']",
        ),
        Column::new(
            "Kind",
            "string",
            r".metadata.labels['audit\.kyverno\.io/resource\.kind']",
        ),
        Column::new(
            "Owner",
            "string",
            r".metadata.annotations['audit\.kyverno\.io/resource\.name']",
        ),
    ];
    columns.extend(summary_columns!(".spec"));
    columns.extend([AGE, uid, HASH.wide()]);
    CatalogVersion {
        name: "v1",
        served: true,
        storage: true,
        schema: schema::resource(description, &["spec"], [("spec", spec)]),
        columns,
    }
}
