//! `docs/examples.md`: the index of the examples, by what each says of itself.

use serde::Deserialize as _;
use serde_json::Value;

use super::page::Page;

/// The mode of a database that an example does not speak of.
const DEFAULT_MODE: &str = "Embedded";

/// An example of `manifests/examples`.
#[derive(Clone, Debug)]
pub struct Example {
    /// The name of its file.
    pub file: String,
    /// The content of its file.
    pub text: String,
}

/// The reason why there is no index.
#[derive(Debug, thiserror::Error)]
pub enum ExamplesError {
    /// An example does not say what it is for.
    #[error("{0} does not begin with a comment that says what it shows")]
    NoComment(String),
    /// An example has no `ReportsServer`.
    #[error("{0} has no ReportsServer")]
    NoServer(String),
    /// An example is not what it should be.
    #[error("{file}: {source}")]
    Yaml {
        /// The name of its file.
        file: String,
        /// The error of the parser.
        source: serde_yaml::Error,
    },
}

/// Returns the index.
///
/// # Errors
/// If an example says nothing about itself, or has no `ReportsServer`.
pub fn examples(examples: &[Example]) -> Result<String, ExamplesError> {
    let mut page = Page::generated();
    page.line("# Examples");
    page.line(
        "Complete examples in `manifests/examples`: each with its namespace, and with Secrets whose \
         values you change. They are called `policy-reports`, so that they stand beside what other \
         programs call `reports-server`. A test applies each to a real kube-apiserver, another \
         builds what the operator makes of it. Begin with `minimal.yaml`, or with `managed.yaml` if \
         you have more than some thousand reports; `full.yaml` explains every field.",
    );
    page.line(
        "```console\n$ kubectl apply -f manifests/install.yaml\n$ kubectl apply -f \
         manifests/examples/minimal.yaml\n```",
    );
    page.table(&["Example", "Shows", "Database"]);
    for example in examples {
        let server = server(example)?;
        let mode = server["spec"]["database"]["mode"].as_str();
        page.row(&[
            format!("[{0}](../manifests/examples/{0})", example.file),
            comment(example)?,
            format!("`{}`", mode.unwrap_or(DEFAULT_MODE)),
        ]);
    }
    Ok(page.finish())
}

/// Returns the comment with which an example begins, as one paragraph.
fn comment(example: &Example) -> Result<String, ExamplesError> {
    let lines = example.text.lines();
    let comment = lines.map_while(|line| line.strip_prefix("# "));
    let comment = comment.collect::<Vec<_>>().join(" ");
    if comment.is_empty() {
        return Err(ExamplesError::NoComment(example.file.clone()));
    }
    Ok(comment)
}

/// Returns the `ReportsServer` of an example.
fn server(example: &Example) -> Result<Value, ExamplesError> {
    let failed = |source| ExamplesError::Yaml {
        file: example.file.clone(),
        source,
    };
    for document in serde_yaml::Deserializer::from_str(&example.text) {
        let object = Value::deserialize(document).map_err(failed)?;
        if object["kind"] == "ReportsServer" {
            return Ok(object);
        }
    }
    Err(ExamplesError::NoServer(example.file.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

    fn read() -> Vec<Example> {
        let mut read: Vec<Example> = std::fs::read_dir(format!("{ROOT}/manifests/examples"))
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                Example {
                    file: path.file_name().unwrap().to_str().unwrap().to_owned(),
                    text: std::fs::read_to_string(&path).unwrap(),
                }
            })
            .collect();
        read.sort_by(|a, b| a.file.cmp(&b.file));
        read
    }

    #[test]
    fn the_committed_index_is_what_is_generated() {
        let all = read();
        assert!(all.len() >= 20, "{}", all.len());
        let committed = std::fs::read_to_string(format!("{ROOT}/docs/examples.md")).unwrap();
        assert!(
            committed == examples(&all).unwrap(),
            "run hack/gen and commit docs/examples.md"
        );
    }

    #[test]
    fn an_example_has_to_say_what_it_shows() {
        let of = |text: &str| {
            let example = Example {
                file: "a.yaml".to_owned(),
                text: text.to_owned(),
            };
            examples(&[example])
        };
        let server = "apiVersion: reports-server.io/v1alpha1\nkind: ReportsServer\nmetadata:\n  \
                      name: a\nspec:\n  targetNamespace: a\n";
        assert!(matches!(of(server), Err(ExamplesError::NoComment(_))));
        let alone = of("# A namespace.\nkind: Namespace\n");
        assert!(matches!(alone, Err(ExamplesError::NoServer(_))));
        let page = of(&format!("# One,\n# for a test.\n{server}")).unwrap();
        let row = "| [a.yaml](../manifests/examples/a.yaml) | One, for a test. | `Embedded` |";
        assert!(page.contains(row), "{page}");
    }
}
