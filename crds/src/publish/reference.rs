//! The field reference in Markdown, made from the schemas that the cluster gets.

use std::fmt::Write as _;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::page::Page;
use crate::catalog;
use crate::v1alpha1::support;

/// Fields whose shape is that of a Pod's field of the same name; the reference does not repeat it.
const AS_IN_A_POD: &[&str] = &[
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "resources",
    "conditions",
];

/// Returns the page about `ReportsServer`.
///
/// # Errors
/// If the CRD cannot be serialized.
pub fn reports_server(crd: &CustomResourceDefinition) -> Result<String, serde_json::Error> {
    let crd = serde_json::to_value(crd)?;
    let version = &crd["spec"]["versions"][0];
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut page = Page::generated();
    page.line("# ReportsServer");
    page.line(text(schema, "description"));
    page.line(
        "`apiVersion: reports-server.io/v1alpha1`, `kind: ReportsServer`, cluster-scoped, short \
         name `rsrv`. Durations are written as `90s`, `30m` or `24h`.",
    );
    page.rules(schema);
    page.columns(&version["additionalPrinterColumns"]);
    page.object(&schema["properties"]["spec"], "spec");
    page.object(&schema["properties"]["status"], "status");
    Ok(page.finish())
}

/// Returns the page about the catalog of report APIs.
#[must_use]
pub fn report_apis() -> String {
    let mut page = Page::generated();
    page.line("# Report APIs");
    page.line(
        "The report APIs that the server knows without being told. Where the cluster has a CRD of \
         one, the CRD's own schema, names and columns are used instead.",
    );
    page.table(&[
        "Group",
        "Version",
        "Kind",
        "Resource",
        "Short names",
        "Categories",
        "Scope",
    ]);
    for resource in catalog::resources() {
        for version in &resource.versions {
            page.row(&[
                resource.group.to_owned(),
                version.name.to_owned(),
                resource.kind.to_owned(),
                resource.plural.to_owned(),
                resource.short_names.join(", "),
                resource.categories.join(", "),
                resource.scope.as_str().to_owned(),
            ]);
        }
    }
    for resource in catalog::resources() {
        for version in &resource.versions {
            page.line(&format!(
                "\n## {} ({}/{})",
                resource.kind, resource.group, version.name
            ));
            page.line(text(&version.schema, "description"));
            let shown: Vec<&str> = version.columns.iter().map(|column| column.name).collect();
            page.line(&format!("Columns: {}.", shown.join(", ")));
            page.fields_below(&version.schema, "");
        }
    }
    page.finish()
}

impl Page {
    fn columns(&mut self, columns: &Value) {
        self.table(&["Column", "Shows", "Wide only"]);
        for column in columns.as_array().into_iter().flatten() {
            let wide = if column["priority"].as_i64().unwrap_or_default() > 0 {
                "yes"
            } else {
                ""
            };
            let shows = match text(column, "description") {
                "" => format!("`{}`", text(column, "jsonPath")),
                description => description.to_owned(),
            };
            self.row(&[text(column, "name").to_owned(), shows, wide.to_owned()]);
        }
        self.end_of_table();
    }

    /// Adds the rules that a schema states beyond the single fields.
    fn rules(&mut self, schema: &Value) {
        let rules: Vec<&str> = schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|rule| text(rule, "message"))
            .collect();
        for rule in &rules {
            self.item(rule);
        }
        if !rules.is_empty() {
            self.end_of_table();
        }
    }

    /// Adds a section for an object, then one for each object in it.
    fn object(&mut self, schema: &Value, path: &str) {
        self.line(&format!("## {path}"));
        self.line(text(schema, "description"));
        self.rules(schema);
        self.table(&["Field", "Type", "Meaning"]);
        for (name, field) in fields(schema) {
            self.field(schema, path, name, name, field);
        }
        self.end_of_table();
        for (name, field) in fields(schema) {
            if let Some((below, suffix)) = inner(name, field) {
                self.object(below, &format!("{path}.{name}{suffix}"));
            }
        }
    }

    /// Adds one table with everything below a schema; paths instead of sections.
    fn fields_below(&mut self, schema: &Value, prefix: &str) {
        self.table(&["Field", "Type", "Meaning"]);
        self.rows_below(schema, prefix);
        self.end_of_table();
    }

    fn rows_below(&mut self, schema: &Value, prefix: &str) {
        for (name, field) in fields(schema) {
            if prefix.is_empty() && ["apiVersion", "kind", "metadata"].contains(&name) {
                continue;
            }
            let path = format!("{prefix}{name}");
            self.field(schema, prefix, name, &path, field);
            if let Some((below, suffix)) = inner(name, field) {
                self.rows_below(below, &format!("{path}{suffix}."));
            }
        }
    }

    fn field(&mut self, owner: &Value, path: &str, name: &str, shown: &str, field: &Value) {
        let required = owner["required"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|r| r == name);
        let mut meaning = text(field, "description").to_owned();
        if required {
            meaning.push_str(" **Required.**");
        }
        if support::UNSUPPORTED_PATHS.contains(&format!("{path}.{name}").as_str()) {
            meaning.push_str(match name {
                "mode" | "verification" | "replicas" => " *Only the default is supported yet.*",
                _ => " *Not supported in this version.*",
            });
        }
        for rule in field["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if field["type"] != "object" {
                let _ = write!(meaning, " Rule: {}.", text(rule, "message"));
            }
        }
        self.row(&[
            format!("`{shown}`"),
            type_name(field),
            meaning.trim().to_owned(),
        ]);
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn fields(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| (name.as_str(), field))
}

/// Returns the object that a field is or is a list of, where the reference goes into it.
fn inner<'a>(name: &str, field: &'a Value) -> Option<(&'a Value, &'static str)> {
    let (schema, suffix) = match field.get("items") {
        Some(items) => (items, "[]"),
        None => (field, ""),
    };
    let described = schema["properties"].is_object() && !AS_IN_A_POD.contains(&name);
    described.then_some((schema, suffix))
}

fn type_name(field: &Value) -> String {
    if let Some(values) = field["enum"].as_array() {
        let values: Vec<String> = values
            .iter()
            .filter_map(Value::as_str)
            .map(|value| format!("`{value}`"))
            .collect();
        return values.join(" | ");
    }
    if field["x-kubernetes-int-or-string"] == true {
        return "integer or string".to_owned();
    }
    match (text(field, "type"), text(field, "format")) {
        ("array", _) => format!("list of {}", type_name(&field["items"])),
        ("object", _) if field["additionalProperties"].is_object() => {
            format!("map to {}", type_name(&field["additionalProperties"]))
        }
        ("string", "date-time") => "time".to_owned(),
        (other, _) => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1alpha1::reports_server_crd;

    #[test]
    fn every_unsupported_path_is_a_field_and_is_marked() {
        let page = reports_server(&reports_server_crd().unwrap()).unwrap();
        let marked = page.matches("*Not supported in this version.*").count()
            + page.matches("*Only the default is supported yet.*").count();
        assert_eq!(marked, support::UNSUPPORTED_PATHS.len());
    }

    #[test]
    fn every_field_of_reports_server_is_explained() {
        let page = reports_server(&reports_server_crd().unwrap()).unwrap();
        let unexplained: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("| `") && line.ends_with("|  |"))
            .collect();
        assert_eq!(unexplained, Vec::<&str>::new());
    }

    #[test]
    fn the_catalog_page_names_every_kind() {
        let page = report_apis();
        for resource in catalog::resources() {
            assert!(
                page.contains(&format!("## {} (", resource.kind)),
                "{}",
                resource.kind
            );
        }
    }
}
