//! The generated files: whole, and as they are committed.

use serde::Deserialize as _;
use serde_json::Value;

use super::installation::Files;
use super::{chart, gitops, install, kustomize, olm, verify_page};

/// Returns the examples, by the names of their files.
pub(super) fn examples() -> Files {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests/examples");
    let entries = std::fs::read_dir(root).unwrap().map(Result::unwrap);
    let named = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read_to_string(entry.path()).unwrap())
    });
    named.collect()
}

/// Each rule of RBAC is said once, in the source; what only the chart has is no place for one.
#[test]
fn no_rule_is_typed_in_the_files_of_a_way() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src/manifests");
    let mut found = 0;
    for folder in [
        "chart/files/templates",
        "chart/files",
        "kustomize/files",
        "olm/files",
    ] {
        for entry in std::fs::read_dir(format!("{root}/{folder}")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("verbs:"), "{}", path.display());
                found += 1;
            }
        }
    }
    assert!(found > 17, "{found}");
}

/// A mark that nobody filled in would be installed as it is.
#[test]
fn every_mark_is_filled_in() {
    let all = chart().unwrap().into_iter();
    for (path, text) in all.chain(kustomize().unwrap()).chain(gitops()) {
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_' || c == '@'));
        for word in words.filter(|word| word.len() > 2) {
            let mark = word.starts_with('@') && word.ends_with('@');
            assert!(!mark, "{path}: {word}");
        }
    }
}

#[test]
fn the_committed_folders_are_what_is_generated() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../manifests");
    for (folder, files) in [
        ("helm/reports-server-operator", chart().unwrap()),
        ("kustomize", kustomize().unwrap()),
        ("gitops", gitops()),
        ("olm", olm(&examples(), None).unwrap()),
    ] {
        for (path, text) in files {
            let committed = std::fs::read_to_string(format!("{root}/{folder}/{path}"));
            assert!(
                committed.is_ok_and(|committed| committed == text),
                "run hack/gen and commit manifests/{folder}/{path}"
            );
        }
    }
}

#[test]
fn the_committed_file_is_what_is_generated() {
    let committed = include_str!("../../../manifests/install.yaml");
    assert!(
        committed == install().unwrap(),
        "run hack/gen and commit manifests/install.yaml"
    );
}

#[test]
fn the_committed_page_is_what_is_generated() {
    let committed = include_str!("../../../docs/verify.md");
    assert!(
        committed == verify_page(),
        "run hack/gen and commit docs/verify.md"
    );
}

/// `docs/quickstart.md` adds the line of a dry run, for a rehearsal.
#[test]
fn the_example_for_kyverno_can_be_rehearsed() {
    let page = include_str!("../../../docs/quickstart.md");
    let command = r#"{print} /^  migration:$/ {print "    dryRun: true"}"#;
    assert!(page.contains(command));
    let (line, more) = ("\n  migration:\n", "\n  migration:\n    dryRun: true\n");
    let examples = examples();
    let example = &examples["kyverno.yaml"];
    assert_eq!(example.matches(line).count(), 1);
    let mut asked = Vec::new();
    for document in serde_yaml::Deserializer::from_str(&example.replace(line, more)) {
        let object = Value::deserialize(document).unwrap();
        if object["kind"] == "ReportsServer" {
            asked.push(object["spec"]["migration"]["dryRun"].clone());
        }
    }
    assert_eq!(asked, [true]);
}

/// A reader copies the commands of these pages.
#[test]
fn every_manifest_that_a_page_names_is_there() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut found = 0;
    let pages = ["gitops", "install", "quickstart", "uninstall", "upgrade"];
    let pages = pages.map(|page| format!("docs/{page}.md"));
    for page in pages.iter().map(String::as_str).chain(["README.md"]) {
        let text = std::fs::read_to_string(format!("{root}/{page}")).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "./_-".contains(c)));
        for word in words.filter(|word| word.starts_with("manifests/")) {
            let path = word.trim_end_matches('.');
            let is_there = std::path::Path::new(root).join(path).exists();
            assert!(is_there, "{page} names {path}");
            found += 1;
        }
    }
    assert!(found > 10, "{found}");
}
