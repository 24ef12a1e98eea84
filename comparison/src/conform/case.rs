//! Case files: the requests to both sides. `docs/development/conform.md` has their format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ConformError;
use super::releases::Releases;
use super::step::Step;
use super::variables::{self, Variables};

/// One file of cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// Heading in the documentation.
    pub title: String,
    /// The subject that the cases have in common, in a sentence.
    pub about: String,
    /// The cases.
    pub cases: Vec<Case>,
}

/// Requests that both sides have to answer alike.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique name in kebab case.
    pub name: String,
    /// The behaviour that it shows, in a sentence.
    pub says: String,
    /// The scopes for which it runs.
    #[serde(default = "both_scopes")]
    pub kinds: BTreeSet<Scope>,
    /// The groups for which it runs.
    #[serde(default)]
    pub groups: Groups,
    /// The encodings of structured bodies.
    #[serde(default = "json_only")]
    pub encodings: BTreeSet<Encoding>,
    /// The releases of Kubernetes on which it runs.
    #[serde(default)]
    pub kubernetes: Releases,
    /// Runs once for each row, with the row's values as variables.
    #[serde(default)]
    with: Vec<Map<String, Value>>,
    /// The steps, before the rows' values are put in.
    steps: Vec<Value>,
}

/// The scope of a kind: in namespaces or in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// In namespaces.
    Namespaced,
    /// In the whole cluster.
    Cluster,
}

/// The groups for which a case runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Groups {
    /// The kinds of `wgpolicyk8s.io`.
    #[default]
    Standard,
    /// Every kind that has no rules.
    All,
    /// The kinds with properties that reports do not have.
    Rich,
    /// The kind with rules in CEL.
    Ruled,
}

/// The encoding of a structured body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
}

/// A case with the values of one row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case's name, and the row's behind a slash where there are rows.
    pub name: String,
    /// The steps of the row.
    pub steps: Vec<Step>,
    /// All words of the steps, to find their variables.
    pub text: String,
    /// Values that are there from the start.
    pub values: Variables,
}

fn both_scopes() -> BTreeSet<Scope> {
    [Scope::Namespaced, Scope::Cluster].into()
}

fn json_only() -> BTreeSet<Encoding> {
    [Encoding::Json].into()
}

impl Case {
    /// Returns the rows of the case; one where it has no table.
    ///
    /// # Errors
    /// If a step is not understood, or two rows have the same name.
    pub fn rows(&self) -> Result<Vec<Row>, ConformError> {
        if self.with.is_empty() {
            return Ok(vec![self.row(self.name.clone(), &BTreeMap::new())?]);
        }
        let mut names = BTreeSet::new();
        let rows = self.with.iter().enumerate().map(|(index, row)| {
            let name = match row.get("row") {
                Some(Value::String(name)) => name.clone(),
                Some(other) => other.to_string(),
                None => (index + 1).to_string(),
            };
            if !names.insert(name.clone()) {
                return Err(self.error(format!("two rows are called '{name}'")));
            }
            let value = |(name, value): (&String, &Value)| {
                let mut value = value.clone();
                variables::expand(&mut value);
                (name.clone(), value)
            };
            let values = row.iter().map(value).collect();
            self.row(format!("{}/{name}", self.name), &values)
        });
        rows.collect()
    }

    fn row(&self, name: String, values: &BTreeMap<String, Value>) -> Result<Row, ConformError> {
        let mut steps = Vec::new();
        let mut text = String::new();
        for (index, step) in self.steps.iter().enumerate() {
            let mut step = step.clone();
            variables::fill(&mut step, values);
            text.push_str(&step.to_string());
            variables::expand(&mut step);
            let step = Step::parse(step)
                .map_err(|why| self.error(format!("step {}: {why}", index + 1)))?;
            steps.push(step);
        }
        Ok(Row {
            name,
            steps,
            text,
            values: Variables::new(),
        })
    }

    fn error(&self, why: String) -> ConformError {
        ConformError::Case {
            case: self.name.clone(),
            why,
        }
    }
}

/// Returns the folder of the case files of this repository.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Returns all case files of a folder in the order of their names, checked.
///
/// # Errors
/// If one cannot be read or understood, or two cases have the same name.
pub fn load(folder: &Path) -> Result<Vec<CaseFile>, ConformError> {
    let read = |source| ConformError::Read {
        path: folder.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(read)? {
        paths.push(entry.map_err(read)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    let mut names = BTreeSet::new();
    let mut files = Vec::new();
    for path in paths {
        let file: CaseFile = read_yaml(&path)?;
        let wrong = |why| ConformError::Format {
            path: path.clone(),
            why,
        };
        for case in &file.cases {
            if !names.insert(case.name.clone()) {
                return Err(wrong(format!("a second case is called '{}'", case.name)));
            }
            case.rows().map_err(|error| wrong(error.to_string()))?;
        }
        files.push(file);
    }
    Ok(files)
}

/// Returns a YAML file of this type.
pub(super) fn read_yaml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ConformError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConformError::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_yaml::from_str(&text).map_err(|error| ConformError::Format {
        path: path.to_owned(),
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn case(text: &str) -> Case {
        serde_yaml::from_str(text).unwrap()
    }

    #[test]
    fn the_repositorys_cases_are_understood() {
        let files = load(&folder()).unwrap();
        assert!(!files.is_empty());
    }

    #[test]
    fn rows_fill_in_their_values() {
        let case = case(
            "name: a\nsays: s\nwith: [{q: limit=1}, {row: many, q: limit=9}]\n\
             steps: [{do: 'GET ${collection}?${q}'}]",
        );
        let rows = case.rows().unwrap();
        assert_eq!(rows[0].name, "a/1");
        assert_eq!(rows[1].name, "a/many");
        assert!(
            rows[1].text.contains("${collection}?limit=9"),
            "{}",
            rows[1].text
        );
    }

    #[test]
    fn a_value_that_is_no_text_keeps_its_type() {
        let case = case(
            "name: a\nsays: s\nwith: [{v: 7}]\n\
             steps: [{do: 'POST /x', body: {a: '${v}', b: 'n${v}'}}]",
        );
        let rows = case.rows().unwrap();
        let text: Value = serde_json::from_str(&rows[0].text).unwrap();
        assert_eq!(text["body"], json!({"a": 7, "b": "n7"}));
    }

    #[rstest::rstest]
    #[case("steps: [{do: GET /x, heders: {}}]", "heders")]
    #[case("steps: [{get: /x}]", "get")]
    #[case("steps: [{do: /x}]", "METHOD URI")]
    #[case("steps: [{do: GET /x, watch: w}]", "one of")]
    #[case("with: [{row: a}, {row: a}]\nsteps: []", "two rows")]
    fn what_is_not_understood_is_named(#[case] text: &str, #[case] expected: &str) {
        let case = case(&format!("name: a\nsays: s\n{text}"));
        let error = case.rows().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
