//! The page about API compatibility, made of cases and deviations.

use std::fmt::Write as _;
use std::path::Path;

use super::case::{Case, CaseFile, Groups};
use super::deviations::Deviation;
use super::{ConformError, random};
use crate::serving::ServingError;
use testcluster::Release;

/// Returns the page.
///
/// # Errors
/// If its head cannot be read, or a case is not understood.
pub fn page(files: &[CaseFile], deviations: &[Deviation]) -> Result<String, ConformError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("head.md");
    let head = std::fs::read_to_string(&path).map_err(|source| ConformError::Read {
        path: path.clone(),
        source,
    })?;
    let mut page = with_releases(head.trim_end())?;
    page.push_str("\n\n## What differs\n\n");
    page.push_str("Each is asserted: `hack/conform` fails when one is gone, too.\n\n");
    page.push_str("| Deviation | Seen by |\n|---|---|\n");
    for deviation in deviations {
        let reason = deviation
            .reason
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        let reason = if deviation.kubernetes.are_all() {
            reason
        } else {
            format!("{}: {reason}", deviation.kubernetes)
        };
        let cases: Vec<_> = deviation
            .cases
            .iter()
            .map(|name| match name.as_str() {
                random::NAME => "generated operations".to_owned(),
                name => format!("`{name}`"),
            })
            .collect();
        let _ = writeln!(page, "| {} | {} |", cell(&reason), cases.join(", "));
    }
    let count = count(files)?;
    let _ = write!(page, "\n## What is compared\n\n{count} cases.\n");
    for file in files {
        let _ = write!(page, "\n### {}\n\n{}\n\n", file.title, file.about.trim());
        for case in &file.cases {
            page.push_str(&line(case)?);
        }
    }
    Ok(page)
}

/// Returns the head of the page with the releases of Kubernetes that tests run on.
fn with_releases(head: &str) -> Result<String, ConformError> {
    let oldest = Release::oldest().map_err(ServingError::from)?;
    let newest = Release::newest().map_err(ServingError::from)?;
    let head = head.replace("${oldest}", &oldest.to_string());
    Ok(head.replace("${newest}", &newest.to_string()))
}

/// Returns the number of cases, each row counted.
fn count(files: &[CaseFile]) -> Result<usize, ConformError> {
    let mut count = 0;
    for case in files.iter().flat_map(|file| &file.cases) {
        count += case.rows()?.len();
    }
    Ok(count)
}

fn line(case: &Case) -> Result<String, ConformError> {
    let rows = case.rows()?.len();
    let mut notes = vec![format!("`{}`", case.name)];
    if rows > 1 {
        notes.push(format!("{rows} cases"));
    }
    if case.groups == Groups::All {
        notes.push("every kind".to_owned());
    }
    if !case.kubernetes.are_all() {
        notes.push(case.kubernetes.to_string());
    }
    let says = case.says.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(format!("- {says} ({})\n", notes.join(", ")))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_deviations_are_named() {
        let text = "{title: Lists, about: Of lists., cases: [{name: a-list, says: It is one.,
            groups: all, with: [{row: x}, {row: y}], kubernetes: {since: '1.36'}, steps: []}]}";
        let files = [serde_yaml::from_str(text).unwrap()];
        let text = "[{name: n, reason: 'Because a | b.', cases: [a-list]},
            {name: o, reason: Once., cases: [a-list], kubernetes: {until: '1.34'}}]";
        let deviations: Vec<Deviation> = serde_yaml::from_str(text).unwrap();
        let page = page(&files, &deviations).unwrap();
        for words in [
            "| Because a \\| b. | `a-list` |",
            "| Kubernetes 1.34 and older: Once. | `a-list` |",
            "### Lists\n\nOf lists.\n\n- It is one. (`a-list`, 2 cases, every kind, Kubernetes 1.36 and newer)",
            "\n2 cases.\n",
        ] {
            assert!(page.contains(words), "{page}");
        }
    }

    #[test]
    fn the_head_names_the_releases_of_the_tests() {
        let newest = Release::newest().unwrap();
        let head = with_releases("from ${oldest} to ${newest}").unwrap();
        assert!(head.ends_with(&format!(" to {newest}")), "{head}");
        assert!(!head.contains('$'), "{head}");
    }
}
