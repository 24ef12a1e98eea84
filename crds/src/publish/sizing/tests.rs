//! The page has figures that were measured, and what follows from them.

use super::*;

const PERFORMANCE: &str = include_str!("../../../../docs/performance.md");
const COMMITTED: &str = include_str!("../../../../docs/sizing.md");

/// Returns the cell of the table of a whole run.
fn cell(row: &str, column: &str) -> Option<&'static str> {
    let (_, section) = PERFORMANCE.split_once("\n## A whole run\n")?;
    let mut lines = section.lines().filter(|line| line.starts_with("| "));
    let cells = |line: &'static str| line.split('|').map(str::trim).collect::<Vec<_>>();
    let heads = cells(lines.next()?);
    let at = heads.iter().position(|head| *head == column)?;
    let row = lines.map(cells).find(|cells| cells.get(1) == Some(&row))?;
    row.get(at).copied()
}

#[test]
fn every_figure_is_in_the_cell_that_it_names() {
    for figure in figures::ALL {
        let cell = cell(figure.row, figure.column).unwrap_or_else(|| panic!("{figure:?}"));
        let mut words = cell.split_whitespace();
        let wanted = number(figure.value);
        let is_it = |word: &str| word.trim_end_matches(',') == wanted;
        assert!(words.any(is_it), "{figure:?} is not in {cell:?}");
        assert!(cell.contains(figure.unit), "{figure:?}: {cell:?}");
    }
}

#[test]
fn the_measured_sizes_come_out_as_they_were_measured() {
    let at = |reports| memory(reports, figures::MEMORY_BASE, figures::MEMORY_MANY);
    assert_eq!(format!("{:.0} {:.0}", at(10_000), at(100_000)), "84 266");
    assert_eq!(format!("{:.0}", at(1_000)), "84");
    assert_eq!(limit(at(100_000)), "1Gi");
    assert_eq!(limit(3_000.0), "more than 4Gi");
    assert_eq!(gigabytes(disk(10_000, figures::DISK_POSTGRES)), "39 MB");
    assert_eq!(volume(11.0 * GIBI), "20Gi");
    assert_eq!(volume(300.0 * GIBI), "more than 200Gi");
    assert_eq!(
        (number(1206.0), number(0.55)),
        ("1,206".into(), "0.55".into())
    );
}

#[test]
fn the_committed_page_is_what_is_generated() {
    assert!(
        COMMITTED == sizing(),
        "run hack/gen and commit docs/sizing.md"
    );
}
