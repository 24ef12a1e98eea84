//! Counted quantities: bytes of log, disk, memory and wire, statements, allocations. They depend
//! on the code and not on the machine, so each is held to a narrow bound, in both directions.
//!
//! `COUNTED_PRINT=1` prints the tables of [`table`] as they should be, and holds nothing to them.

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

use std::sync::{Mutex, PoisonError};

use testreports::Input;

use self::book::{Book, Entry};
use self::reports::Reports;

/// The variable of the environment that asks for the tables.
const PRINT: &str = "COUNTED_PRINT";

/// Held by who counts: allocations are counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Counts on both databases, and holds everything to `table`, the constant of this name.
fn check(input: &Input, name: &str, table: &[Entry]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
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
fn generated_reports_cost_what_is_recorded() {
    let input = Input::Generated { seed: 1 };
    check(&input, "GENERATED", table::GENERATED);
}

#[test]
fn recorded_reports_cost_what_is_recorded() {
    let input = Input::detect();
    if input.name() == "recorded" {
        check(&input, "RECORDED", table::RECORDED);
        return;
    }
    assert_ne!(
        std::env::var("CI").as_deref(),
        Ok("true"),
        "CI has the recorded reports"
    );
    eprintln!("skipped: no recorded reports");
}
