//! The cases that are run, with their kinds and encodings.

use super::ConformError;
use super::case::{Case, CaseFile, Groups, Row};
use super::deviations::matches;
use super::run::Variant;
use super::target::{RICH, RULED, STANDARD, Target};
use testcluster::Release;

/// Returns the rows of all cases that were asked for; of all cases where none was named. Those that
/// are not for this release of Kubernetes are left out.
///
/// # Errors
/// If a name stands for no case, or a case is not understood.
pub fn rows<'a>(
    files: &'a [CaseFile],
    asked: &[String],
    release: Release,
) -> Result<Vec<(&'a Case, Row)>, ConformError> {
    let mut rows = Vec::new();
    for case in files.iter().flat_map(|file| &file.cases) {
        for row in case.rows()? {
            if asked.is_empty() || asked.iter().any(|name| matches(name, &row.name)) {
                rows.push((case, row));
            }
        }
    }
    for name in asked {
        if !rows.iter().any(|(_, row)| matches(name, &row.name)) {
            return Err(ConformError::Unknown(name.clone()));
        }
    }
    rows.retain(|(case, _)| case.kubernetes.contain(release));
    Ok(rows)
}

/// Returns every way in which the rows are run on these kinds; unless `all`, those for every kind
/// run on the standard ones alone.
#[must_use]
pub fn variants<'a>(
    rows: &'a [(&Case, Row)],
    targets: &'a [Target],
    all: bool,
) -> Vec<Variant<'a>> {
    let mut variants = Vec::new();
    for (case, row) in rows {
        for target in targets {
            let meant = match case.groups {
                Groups::Standard => target.group == STANDARD,
                Groups::All => target.group != RULED && (all || target.group == STANDARD),
                Groups::Rich => target.group == RICH,
                Groups::Ruled => target.group == RULED,
            };
            if !meant || !case.kinds.contains(&target.scope) {
                continue;
            }
            for encoding in &case.encodings {
                variants.push(Variant {
                    row,
                    target,
                    encoding: *encoding,
                });
            }
        }
    }
    variants
}

/// Returns one variant of each row: the first of the first row, the second of the second, and so
/// on.
#[must_use]
pub fn thinned<'a>(variants: &[Variant<'a>]) -> Vec<Variant<'a>> {
    let of_a_row = variants.chunk_by(|a, b| a.row.name == b.row.name);
    let chosen = of_a_row.enumerate();
    chosen
        .map(|(index, variants)| variants[index % variants.len()].clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conform::target;

    fn file() -> Vec<CaseFile> {
        let text = "{title: t, about: a, cases: [
            {name: a, says: s, with: [{row: x}, {row: y}], encodings: [json, yaml], steps: []},
            {name: b, says: s, kinds: [cluster], groups: all, steps: []},
            {name: c, says: s, kinds: [cluster], kubernetes: {since: '1.36'}, steps: []}]}";
        vec![serde_yaml::from_str(text).unwrap()]
    }

    fn count_on(release: &str, asked: &[&str]) -> usize {
        let files = file();
        let asked: Vec<_> = asked.iter().map(|name| (*name).to_owned()).collect();
        let rows = rows(&files, &asked, release.parse().unwrap()).unwrap();
        let targets = target::targets(&target::crds(false).unwrap());
        variants(&rows, &targets, true).len()
    }

    fn count(asked: &[&str]) -> usize {
        count_on("1.35", asked)
    }

    #[test]
    fn rows_times_kinds_times_encodings() {
        assert_eq!(count(&["a"]), 2 * 2 * 2);
        assert_eq!(count(&["a/x"]), 2 * 2);
        assert_eq!(count(&["b"]), 2);
        assert_eq!(count(&[]), 10);
    }

    #[test]
    fn cases_for_a_newer_kubernetes_wait_for_it() {
        assert_eq!(count_on("1.35", &["c"]), 0);
        assert_eq!(count_on("1.36", &["c"]), 1);
        assert_eq!(count_on("1.36", &[]), 11);
    }

    #[test]
    fn a_share_has_each_row_once_and_every_kind() {
        let files = file();
        let rows = rows(&files, &[], "1.35".parse().unwrap()).unwrap();
        let targets = target::targets(&target::crds(false).unwrap());
        let share = thinned(&variants(&rows, &targets, true));
        let names: Vec<_> = share.iter().map(|v| v.row.name.as_str()).collect();
        assert_eq!(names, ["a/x", "a/y", "b"]);
        assert_ne!(share[0].name(), share[1].name());
    }

    #[test]
    fn unknown_names_are_refused() {
        let error = rows(&file(), &["d".to_owned()], "1.35".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("'d'"), "{error}");
    }
}
