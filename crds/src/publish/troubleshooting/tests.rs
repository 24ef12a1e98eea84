//! The page has everything that the code tells, and leads to what there is.

use std::path::Path;

use regex::Regex;

use super::*;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

#[test]
fn every_reason_has_a_meaning_and_a_remedy() {
    let page = troubleshooting().unwrap();
    for reason in reasons::ALL {
        let start = format!("| `{}` |", reason.name);
        // A condition may have the name of a reason.
        let tells = |line: &&str| line.starts_with(&start) && line.contains(&reason.meaning());
        let mut rows = page.lines().filter(tells);
        let row = rows.next().unwrap_or_else(|| panic!("{}", reason.name));
        assert!(!row.ends_with("|  |"), "{row}");
        assert_eq!(rows.next(), None);
    }
    for condition in conditions::ALL {
        let start = format!("| `{}` |", condition.name);
        let row = page.lines().find(|line| line.starts_with(&start)).unwrap();
        assert!(row.contains("](#"), "{row}");
    }
}

#[test]
fn a_reason_is_told_where_it_is_met_and_nowhere_else() {
    assert!(tells(conditions::READY, "True", reasons::SERVING));
    assert!(!tells(conditions::READY, "False", reasons::SERVING));
    assert!(!tells(conditions::DATABASE_READY, "True", reasons::SERVING));
    assert!(tells(conditions::STALLED, "True", reasons::INVALID_SPEC));
    assert!(tells(conditions::READY, "False", reasons::INVALID_SPEC));
    assert!(tells(conditions::UPGRADEABLE, "Unknown", reasons::UNKNOWN));
}

#[test]
fn the_conditions_that_are_always_present_are_known() {
    let known = |name: &&str| conditions::ALL.iter().any(|listed| listed.name == *name);
    let present = [
        conditions::ALWAYS_PRESENT,
        conditions::PRESENT_ONLY_WHEN_TRUE,
    ]
    .concat();
    assert!(present.iter().all(known));
}

/// Returns the anchors of a page of `docs`.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

#[test]
fn links_lead_to_headings_that_exist() {
    let page = troubleshooting().unwrap();
    let link = Regex::new(r"\]\(([^)#]*)(?:#([^)]*))?\)").unwrap();
    let mut links = 0;
    for found in link.captures_iter(&page) {
        let text = match &found[1] {
            "" => page.clone(),
            file => std::fs::read_to_string(Path::new(DOCS).join(file)).unwrap(),
        };
        if let Some(wanted) = found.get(2) {
            let anchors = anchors(&text);
            assert!(
                anchors.iter().any(|a| a == wanted.as_str()),
                "{}",
                &found[0]
            );
        }
        links += 1;
    }
    assert!(links > 50, "{links}");
}

#[test]
fn the_committed_page_is_what_is_generated() {
    let committed = std::fs::read_to_string(Path::new(DOCS).join("troubleshooting.md")).unwrap();
    assert!(
        committed == troubleshooting().unwrap(),
        "run hack/gen and commit docs/troubleshooting.md"
    );
}
