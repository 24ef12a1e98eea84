//! Counted quantities: bytes of log, disk, memory and wire, statements, allocations. They depend
//! on the code and not on the machine, so each is held to a narrow bound, in both directions.
//!
//! `COUNTED_PRINT=1` prints the tables of [`table`] as they should be, and holds nothing to them;
//! both with `COUNTED_ALL=1`, else the one of recorded reports where they are.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "as in unit tests; helpers too"
)]

mod book;
mod count;
mod database;
mod ground;
#[path = "../frontend/support/kube_api.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the frontend, which need all of it"
)]
mod kube_api;
mod meter;
#[path = "../api/namespaces.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the API, which need all of it"
)]
mod namespaces;
#[path = "../frontend/support/pki.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of the frontend, which need all of it"
)]
mod pki;
mod reports;
mod requests;
mod table;

use testreports::Input;

use self::book::{Book, Entry};
use self::reports::Reports;

/// The variable of the environment that asks for the tables.
const PRINT: &str = "COUNTED_PRINT";

/// The variable that asks for generated reports where there are recorded ones, too.
const ALL: &str = "COUNTED_ALL";

/// Counts on both databases, and holds everything to `table`, the constant of this name.
fn check(input: &Input, name: &str, table: &[Entry]) {
    let reports = Reports::of(input);
    let mut book = Book::default();
    count::on_sqlite(&reports, &mut book);
    count::on_postgres(&reports, &mut book);
    println!("\n{}", book.table(name));
    if std::env::var_os(PRINT).is_some() {
        return;
    }
    let faults = book.faults(table).join("\n");
    assert!(
        faults.is_empty(),
        "{faults}\nwhere that is meant to be so, {PRINT}=1 prints the table to record"
    );
}

#[test]
fn requests_cost_what_is_recorded() {
    let found = Input::detect();
    let is_recorded = found.name() == "recorded";
    if is_recorded {
        check(&found, "RECORDED", table::RECORDED);
    }
    if !is_recorded || std::env::var_os(ALL).is_some() {
        let generated = Input::Generated { seed: 1 };
        check(&generated, "GENERATED", table::GENERATED);
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(is_recorded || !in_ci, "CI has the recorded reports");
}
