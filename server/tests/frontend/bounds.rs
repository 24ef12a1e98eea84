//! The page about security names a test for every bound: each is there.

use std::fs;
use std::path::Path;

#[test]
fn every_bound_of_the_page_is_shown() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let page = tests.join("../../docs/security.md");
    let page = fs::read_to_string(page).unwrap();
    let table = page.split_once("## Bounds").unwrap().1;
    let rows: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with("| "))
        .collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in &rows[1..] {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let mut named = 0;
        for name in shown_by.split('`').skip(1).step_by(2) {
            named += 1;
            let Some((file, test)) = name.split_once(": ") else {
                assert!(tests.join(name).exists(), "{name}");
                continue;
            };
            let source = fs::read_to_string(tests.join(file)).unwrap_or_default();
            assert!(source.contains(&format!("fn {test}(")), "{name}");
        }
        assert!(named > 0, "nothing shows {row}");
    }
}
