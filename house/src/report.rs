//! The report of everything that is measured, as text and as JSON.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::circles::{self, Circle, Circles};
use crate::documents::{self, Dangling, DocumentsError};
use crate::modules::{Modules, ModulesError, SourceFile};
use crate::style::{Style, StyleError};
use crate::workspace::{self, WorkspaceError};

/// The most files of a circle that is allowed.
pub const CIRCLE: usize = 4;
/// The most lines of a file that is not named.
pub const LINES: usize = 400;

/// The reason why the workspace cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The crates are not known.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A crate cannot be read.
    #[error(transparent)]
    Modules(#[from] ModulesError),
    /// The documents cannot be read.
    #[error(transparent)]
    Documents(#[from] DocumentsError),
    /// The source files cannot be read.
    #[error(transparent)]
    Style(#[from] StyleError),
}

/// A crate as it was measured.
#[derive(Clone, Debug, Default)]
pub struct CrateReport {
    /// Name of the crate.
    pub name: String,
    /// Files of the crate, with paths from the root of the workspace.
    pub files: Vec<SourceFile>,
    /// Circles of the crate.
    pub circles: Circles,
}

/// The workspace as it was measured.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The crates.
    pub crates: Vec<CrateReport>,
    /// Dependencies that no line uses, each as `CRATE: DEPENDENCY`.
    pub unused_dependencies: Vec<String>,
    /// Names in documents that do not exist.
    pub dangling: Vec<Dangling>,
    /// Places that break a rule of style.
    pub style: Style,
}

impl CrateReport {
    fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }
}

impl Report {
    /// Measures the workspace at `root`; the caller finds unused dependencies.
    ///
    /// # Errors
    /// See [`ReportError`].
    pub fn measure(root: &Path) -> Result<Self, ReportError> {
        let mut crates = Vec::new();
        for found in workspace::crates(root)? {
            let mut report = CrateReport {
                name: found.name,
                ..CrateReport::default()
            };
            for path in &found.roots {
                add_root(&mut report, root, path)?;
            }
            crates.push(report);
        }
        Ok(Self {
            crates,
            unused_dependencies: Vec::new(),
            dangling: documents::dangling(root)?,
            style: Style::check(root)?,
        })
    }

    /// Returns the number of circles among the modules right below the roots of crates.
    #[must_use]
    pub fn module_circles(&self) -> usize {
        self.crates
            .iter()
            .map(|one| one.circles.modules.len())
            .sum()
    }

    /// Returns the number of files of the largest circle of files.
    #[must_use]
    pub fn largest_file_circle(&self) -> usize {
        let circles = self.crates.iter().flat_map(|one| &one.circles.files);
        circles
            .map(|circle| circle.members.len())
            .max()
            .unwrap_or_default()
    }

    /// Returns whether everything is within its bounds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.module_circles() == 0
            && self.largest_file_circle() <= CIRCLE
            && self.unused_dependencies.is_empty()
            && self.dangling.is_empty()
            && self.style == Style::default()
    }

    /// Returns the figures under the names that scripts rely on.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let members = |circles: &[Circle]| -> Vec<Vec<String>> {
            circles
                .iter()
                .map(|circle| circle.members.clone())
                .collect()
        };
        let crates = self.crates.iter().map(|one| {
            json!({"name": one.name, "lines": one.lines(),
                "module_circles": members(&one.circles.modules),
                "file_circles": members(&one.circles.files)})
        });
        let dangling = self.dangling.iter().map(ToString::to_string);
        let doc_openings = self.style.doc_openings.iter().map(ToString::to_string);
        json!({
            "crates": crates.collect::<Vec<_>>(),
            "large_files": self.large_files().len(),
            "module_circles": self.module_circles(),
            "largest_file_circle": self.largest_file_circle(),
            "unused_dependencies": self.unused_dependencies.len(),
            "unused_dependency_names": self.unused_dependencies,
            "dangling_names": self.dangling.len(),
            "dangling": dangling.collect::<Vec<_>>(),
            "nested_imports": self.style.nested_imports,
            "flat_modules": self.style.flat_modules,
            "doc_openings": doc_openings.collect::<Vec<_>>(),
        })
    }

    fn circles<'a>(
        &'a self,
        of: impl Fn(&'a Circles) -> &'a Vec<Circle>,
    ) -> impl Iterator<Item = &'a Circle> {
        self.crates.iter().flat_map(move |one| of(&one.circles))
    }

    fn large_files(&self) -> Vec<&SourceFile> {
        let files = self.crates.iter().flat_map(|one| &one.files);
        let mut large: Vec<&SourceFile> = files.filter(|file| file.lines > LINES).collect();
        large.sort_by_key(|file| std::cmp::Reverse(file.lines));
        large
    }
}

fn add_root(report: &mut CrateReport, root: &Path, path: &Path) -> Result<(), ReportError> {
    let mut modules = Modules::read(path)?;
    for file in &mut modules.files {
        if let Ok(relative) = file.path.strip_prefix(root).map(PathBuf::from) {
            file.path = relative;
        }
    }
    let circles = circles::find(&modules);
    report.circles.modules.extend(circles.modules);
    report.circles.files.extend(circles.files);
    report.files.append(&mut modules.files);
    Ok(())
}

impl fmt::Display for Dangling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.document.display(), self.name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "crates, in lines without tests:")?;
        for one in &self.crates {
            writeln!(f, "  {:<28}{:>8}", one.name, one.lines())?;
        }
        list(
            f,
            &format!("files of more than {LINES} lines"),
            &self.large_files(),
            |file| format!("{:>5} {}", file.lines, file.path.display()),
        )?;
        let modules: Vec<_> = self.circles(|circles| &circles.modules).collect();
        list(f, "circles of modules", &modules, |circle| ties(circle))?;
        let files = self.circles(|circles| &circles.files);
        let large: Vec<_> = files
            .filter(|circle| circle.members.len() > CIRCLE)
            .collect();
        list(
            f,
            &format!("circles of more than {CIRCLE} files"),
            &large,
            |circle| ties(circle),
        )?;
        list(
            f,
            "dependencies that no line uses",
            &self.unused_dependencies,
            Clone::clone,
        )?;
        list(
            f,
            "names in documents that do not exist",
            &self.dangling,
            ToString::to_string,
        )?;
        list(
            f,
            "files with an import of more than one module",
            &self.style.nested_imports,
            |path| path.display().to_string(),
        )?;
        list(
            f,
            "modules beside the folder of those below them",
            &self.style.flat_modules,
            |path| path.display().to_string(),
        )?;
        list(
            f,
            "doc comments that do not begin with their item",
            &self.style.doc_openings,
            ToString::to_string,
        )
    }
}

/// Returns the members of a circle, and below them which takes what from which.
fn ties(circle: &Circle) -> String {
    let mut lines = vec![circle.members.join(", ")];
    let ties = circle.ties.iter();
    lines.extend(
        ties.map(|(user, used, names)| format!("    {user} -> {used}: {}", names.join(", "))),
    );
    lines.join("\n")
}

fn list<T>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    entries: &[T],
    line: impl Fn(&T) -> String,
) -> fmt::Result {
    writeln!(f, "{title}: {}", entries.len())?;
    entries
        .iter()
        .try_for_each(|entry| writeln!(f, "  {}", line(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openings;

    #[test]
    fn an_opening_is_counted_and_printed() {
        let mut report = Report::default();
        assert!(report.holds());
        report.style.doc_openings = openings::forbidden(Path::new("a.rs"), "/// What it is.");
        assert!(!report.holds());
        assert_eq!(report.to_json()["doc_openings"], json!(["a.rs:1: What"]));
        let text = report.to_string();
        let printed = "doc comments that do not begin with their item: 1\n  a.rs:1: What\n";
        assert!(text.contains(printed), "{text}");
    }
}
