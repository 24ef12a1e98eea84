//! `docs/sizing.md`: memory, disk and processor time for numbers of reports and writes, as they
//! follow from measured figures.

mod figures;
#[cfg(test)]
mod tests;

pub use self::figures::SizingError;

use self::figures::{Figure, Figures};
use super::page::Page;

/// The beginning of the page, written by hand.
const HEAD: &str = include_str!("head.md");
/// The numbers of reports that the page has sizes for.
const REPORTS: [u32; 6] = [1_000, 10_000, 50_000, 100_000, 250_000, 500_000];
/// The writes a second that the page has sizes for.
const WRITES: [u32; 4] = [10, 50, 200, 1_000];
/// Sizes of volumes to choose from, in GiB.
const VOLUMES: [u32; 5] = [10, 20, 50, 100, 200];
/// The factor from the disk of the reports in PostgreSQL to the volume.
const ROOM_POSTGRES: f64 = 20.0;
/// The factor from the disk of the reports in SQLite to the volume.
const ROOM_SQLITE: f64 = 3.0;
/// The factor from the memory at rest to the limit.
const ROOM_MEMORY: f64 = 2.0;
/// Bytes of a kB.
const KILO: f64 = 1_000.0;
/// Bytes of a GiB.
const GIBI: f64 = 1_073_741_824.0;

/// Returns the page that follows from a record of `hack/bench --json`.
///
/// # Errors
/// If it is none, or lacks a figure.
pub fn sizing(record: &str) -> Result<String, SizingError> {
    let figures = Figures::read(record)?;
    let mut page = Page::generated();
    page.line(HEAD.trim_end());
    servers(&mut page, &figures);
    volumes(&mut page, &figures);
    writes(&mut page, &figures);
    given_back(&mut page, &figures);
    sources(&mut page, &figures);
    Ok(page.finish())
}

fn servers(page: &mut Page, figures: &Figures) {
    page.line("## Memory of a server");
    page.line(
        "A server holds every report compressed, so its memory grows with their number. Each server \
         holds all of them. Between the measured 10,000 and 100,000 it is interpolated, beyond them \
         extrapolated. The limit is a rule: twice what is needed at rest, for lists and many clients. \
         Set it in `server.resources`.",
    );
    page.table(&["Reports", "On PostgreSQL", "Limit", "On SQLite", "Limit"]);
    for reports in REPORTS {
        let postgres = memory(reports, &figures.memory_base, &figures.memory_many);
        let embedded = memory(reports, &figures.embedded_base, &figures.embedded_many);
        page.row(&[
            grouped(reports),
            format!("{postgres:.0} MiB"),
            limit(postgres),
            format!("{embedded:.0} MiB"),
            limit(embedded),
        ]);
    }
    page.end_of_table();
}

fn volumes(page: &mut Page, figures: &Figures) {
    page.line("## Volume of the database");
    page.line(
        "The volume is a rule. In PostgreSQL it is twenty times the disk of the reports and of what SQL \
         reads of them: the log of ten minutes, rows that updates leave until they are vacuumed, and \
         the WAL (a tenth of the volume at most) come on top. In SQLite it is three times. A major \
         upgrade needs a second volume, and a backup one for its dumps \
         ([database.md](database.md#major-versions)); a backup of SQLite also needs room for a copy \
         on the server's node. Memory and connections of PostgreSQL follow \
         from your values: [database.md](database.md#sizing).",
    );
    page.table(&[
        "Reports",
        "Their disk in PostgreSQL",
        "`managed.storage.size`",
        "In SQLite",
        "`embedded.storage.size`",
    ]);
    for reports in REPORTS {
        let postgres = disk(reports, &figures.disk_postgres);
        let sqlite = disk(reports, &figures.disk_sqlite);
        page.row(&[
            grouped(reports),
            gigabytes(postgres),
            volume(postgres * ROOM_POSTGRES),
            gigabytes(sqlite),
            volume(sqlite * ROOM_SQLITE),
        ]);
    }
    page.end_of_table();
}

fn writes(page: &mut Page, figures: &Figures) {
    page.line("## Processor time and WAL");
    page.line(&format!(
        "For updates through all servers and PostgreSQL together, without the kube-apiserver's own \
         part. Policy engines write most at a rescan of everything; \
         `rate(reports_server_store_writes_total[5m])` shows how much yours do. Two cores took {} \
         updates a second at most. The WAL is what a replica or an archive has to take.",
        number(figures.updates.value)
    ));
    page.table(&[
        "Updates a second",
        "Cores",
        "WAL an hour, verdicts change",
        "WAL an hour, a rescan",
    ]);
    for rate in WRITES {
        let an_hour = |figure: &Figure| f64::from(rate) * 3_600.0 * figure.value * KILO;
        page.row(&[
            grouped(rate),
            format!(
                "{:.2}",
                f64::from(rate) * figures.cpu_update.value / 1_000.0
            ),
            gigabytes(an_hour(&figures.wal_update)),
            gigabytes(an_hour(&figures.wal_rescan)),
        ]);
    }
    page.end_of_table();
}

fn given_back(page: &mut Page, figures: &Figures) {
    page.line("## What the control plane gets back");
    page.line(&format!(
        "A kube-apiserver grew by {} MiB with {} reports of a CRD and 20,000 events; how much it is \
         with more depends on how many events its caches hold. Etcd's disk is in proportion to the \
         reports; etcd keeps it for itself until it is defragmented.",
        number(figures.kube_apiserver.value),
        grouped(figures::BASE)
    ));
    page.table(&["Reports", "Etcd's disk"]);
    for reports in REPORTS {
        let etcd = gigabytes(disk(reports, &figures.disk_etcd));
        page.row(&[grouped(reports), etcd]);
    }
    page.end_of_table();
}

fn sources(page: &mut Page, figures: &Figures) {
    page.line("## Figures");
    page.line(
        "Each is a median in the table of [every figure](performance.md#every-figure); how it was \
         measured is said [there](performance.md#method).",
    );
    page.table(&["Figure", "Value", "Row", "System"]);
    for figure in figures.all() {
        page.row(&[
            figure.what.to_owned(),
            format!("{} {}", number(figure.value), figure.unit),
            figure.row.to_owned(),
            figure.peer.unwrap_or("ours").to_owned(),
        ]);
    }
    page.end_of_table();
}

/// Returns the memory of a server, in MiB. Fewer reports than were measured are counted as those.
fn memory(reports: u32, base: &Figure, many: &Figure) -> f64 {
    let more = f64::from(reports.saturating_sub(figures::BASE));
    let span = f64::from(figures::MANY - figures::BASE);
    base.value + (many.value - base.value) * more / span
}

/// Returns the limit for a server that needs `memory` MiB at rest: the next of the doubled sizes.
fn limit(memory: f64) -> String {
    const SIZES: [(f64, &str); 5] = [
        (256.0, "256Mi"),
        (512.0, "512Mi"),
        (1_024.0, "1Gi"),
        (2_048.0, "2Gi"),
        (4_096.0, "4Gi"),
    ];
    let fits = |(size, _): &&(f64, &str)| memory * ROOM_MEMORY <= *size;
    let found = SIZES.iter().find(fits);
    found.map_or("more than 4Gi", |(_, name)| *name).to_owned()
}

/// Returns the disk of reports, in bytes.
fn disk(reports: u32, figure: &Figure) -> f64 {
    f64::from(reports) * figure.value * KILO
}

/// Returns the next larger volume.
fn volume(bytes: f64) -> String {
    let fits = |size: &&u32| bytes <= f64::from(**size) * GIBI;
    let found = VOLUMES.iter().find(fits);
    found.map_or("more than 200Gi".to_owned(), |size| format!("{size}Gi"))
}

/// Returns bytes in the unit that suits them.
fn gigabytes(bytes: f64) -> String {
    let kilo = bytes / KILO;
    let mega = kilo / KILO;
    let giga = mega / KILO;
    if giga >= 1.0 {
        format!("{giga:.1} GB")
    } else if mega >= 10.0 {
        format!("{mega:.0} MB")
    } else {
        format!("{mega:.1} MB")
    }
}

/// Returns a number with its thousands set apart.
fn grouped(number: u32) -> String {
    if number < 1_000 {
        return number.to_string();
    }
    format!("{},{:03}", grouped(number / 1_000), number % 1_000)
}

/// Returns a figure as the tables write it.
fn number(value: f64) -> String {
    let plain = value.to_string();
    match plain.parse::<u32>() {
        Ok(whole) => grouped(whole),
        Err(_) => plain,
    }
}
