//! Names in documents that exist nowhere.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use pulldown_cmark::{Event, Parser};

use crate::files::files;

/// The largest file whose words are read, in bytes.
const LARGEST: u64 = 4 << 20;

/// The prefix of our metrics. The code has it once, and names each metric without it.
const METRICS: &str = "reports_server_";
/// Endings that the registry of metrics adds.
const ENDINGS: [&str; 2] = ["_total", "_info"];
/// Names of other people's programs, libraries and metrics.
const FOREIGN: [&str; 4] = [
    "kyverno_controller_drop_total",
    "kyverno_controller_requeue_total",
    "object_store",
    "pg_upgrade",
];

/// The reason why the documents cannot be held against the code.
#[derive(Debug, thiserror::Error)]
pub enum DocumentsError {
    /// A folder cannot be listed.
    #[error(transparent)]
    List(#[from] walkdir::Error),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// A name in a document that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dangling {
    /// Path of the document from the root of the workspace.
    pub document: PathBuf,
    /// The name.
    pub name: String,
}

/// The names that exist: the files of the workspace, and every word in those that are no documents.
#[derive(Clone, Debug, Default)]
pub struct Known {
    files: Vec<PathBuf>,
    words: HashSet<String>,
}

/// Returns the names in documents below `root` that do not exist.
///
/// # Errors
/// See [`DocumentsError`].
pub fn dangling(root: &Path) -> Result<Vec<Dangling>, DocumentsError> {
    let known = Known::read(root)?;
    let mut found = Vec::new();
    for document in known.files.iter().filter(|path| is_document(path)) {
        let text = read(&root.join(document))?;
        let folder = document.parent().unwrap_or(Path::new(""));
        for span in code_spans(&text) {
            for name in known.missing(folder, &span) {
                found.push(Dangling {
                    document: document.clone(),
                    name,
                });
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn code_spans(text: &str) -> Vec<String> {
    let spans = Parser::new(text).filter_map(|event| match event {
        Event::Code(span) => Some(span.into_string()),
        _ => None,
    });
    spans.collect()
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn read(path: &Path) -> Result<String, DocumentsError> {
    let bytes = fs::read(path).map_err(|source| DocumentsError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Known {
    fn read(root: &Path) -> Result<Self, DocumentsError> {
        let mut known = Self::default();
        for file in files(root)? {
            if !is_document(&file.path) && file.bytes <= LARGEST {
                known.add_words(&read(&root.join(&file.path))?);
            }
            known.files.push(file.path);
        }
        Ok(known)
    }

    fn add_words(&mut self, text: &str) {
        let words = text.split(|c: char| !is_of_word(c));
        for word in words.filter(|word| !word.is_empty()) {
            if !self.words.contains(word) {
                self.words.insert(word.to_owned());
            }
        }
    }

    /// Returns the names in a span of code that do not exist. Only paths and names in the form of
    /// Rust are looked at.
    fn missing(&self, folder: &Path, span: &str) -> Vec<String> {
        match span.split_once(": ") {
            Some((file, name)) if is_path(file) => {
                let mut missing = self.missing(folder, file);
                missing.extend(self.missing(folder, name));
                missing
            }
            _ if is_path(span) && !self.has_file(folder, span) => vec![span.to_owned()],
            _ => names(span)
                .filter(|name| !self.has_name(name))
                .map(str::to_owned)
                .collect(),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        FOREIGN.contains(&name) || self.words.contains(name) || self.has_metric(name)
    }

    /// Returns whether `name` is that of a metric, whole or from a `_` on, whose last part the code
    /// names.
    fn has_metric(&self, name: &str) -> bool {
        let parts = name.strip_prefix(METRICS).or(name.strip_prefix('_'));
        let Some(parts) = parts else { return false };
        let plain = ENDINGS.iter().find_map(|ending| parts.strip_suffix(ending));
        let plain = plain.unwrap_or(parts);
        let starts = plain.match_indices('_').map(|(at, _)| at + 1);
        let mut ends = [0]
            .into_iter()
            .chain(starts)
            .filter_map(|at| plain.get(at..));
        ends.any(|end| self.words.contains(end))
    }

    fn has_file(&self, folder: &Path, path: &str) -> bool {
        let path = Path::new(path.trim_end_matches('/'));
        let from_folder = folder.join(path);
        let is_it = |place: &Path| place.ends_with(path) || place == from_folder;
        self.files.iter().any(|file| file.ancestors().any(is_it))
    }
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns whether a span of code is the path of a source file.
fn is_path(span: &str) -> bool {
    const ENDINGS: [&str; 7] = [".rs", ".md", ".sql", ".sh", ".toml", ".go", ".proto"];
    let plain = span.chars().all(|c| is_of_word(c) || "./-".contains(c));
    plain && (ENDINGS.iter().any(|ending| span.ends_with(ending)) || span.starts_with("hack/"))
}

/// Returns the names in a span of code that is a function, a constant or a path of such.
fn names(span: &str) -> impl Iterator<Item = &str> {
    let name = span.strip_suffix("()").unwrap_or(span);
    let is_word = |word: &str| !word.is_empty() && word.chars().all(is_of_word);
    let code = name.contains("::") || name.contains('_') || name.len() < span.len();
    let code = code && name.split("::").all(is_word);
    name.split("::").filter(move |_| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        let mut known = Known {
            files: vec!["server/src/http/limits.rs".into(), "docs/a.md".into()],
            ..Known::default()
        };
        known.add_words("fn held(&self) -> u32 { MOST_HELD }");
        known
    }

    #[test]
    fn paths_are_found_by_their_end() {
        let missing = |span| known().missing(Path::new("docs"), span);
        assert!(missing("http/limits.rs").is_empty());
        assert!(missing("a.md").is_empty());
        assert_eq!(missing("http/bounds.rs"), ["http/bounds.rs"]);
    }

    #[test]
    fn functions_and_constants_are_found_as_words() {
        let missing = |span| known().missing(Path::new(""), span);
        assert!(missing("held()").is_empty());
        assert!(missing("MOST_HELD").is_empty());
        assert_eq!(missing("limits::MOST_KEPT"), ["limits", "MOST_KEPT"]);
        assert_eq!(missing("limits.rs: kept()"), ["kept"]);
    }

    #[test]
    fn metrics_are_found_without_their_prefix() {
        let mut known = known();
        known.add_words("registry.register(\"copied_objects\", HELP, metric)");
        let missing = |span| known.missing(Path::new(""), span);
        assert!(missing("reports_server_store_copied_objects_total").is_empty());
        assert!(missing("_copied_objects").is_empty());
        assert_eq!(
            missing("reports_server_lost_total"),
            ["reports_server_lost_total"]
        );
    }

    #[test]
    fn other_code_is_not_looked_at() {
        for span in [
            "kubectl get pods",
            "spec.replicas",
            "Retry-After: 1",
            "legacy",
        ] {
            assert!(known().missing(Path::new(""), span).is_empty(), "{span}");
        }
    }

    #[test]
    fn spans_are_those_outside_blocks() {
        let text = "`a_b` and\n\n```\n`c_d`\n```\n";
        assert_eq!(code_spans(text), ["a_b"]);
    }
}
