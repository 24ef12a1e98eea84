//! The vendors' CRDs and the reports that were recorded with them, where that data is present:
//! `$REPORTS_DATA`, else `../shared/data` beside the workspace. In CI it has to be.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy takes helpers outside #[test] functions for production code"
)]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use apimachinery::definition::ResourceDefinition;
use apimachinery::schema::{Encoding, Malformed, decode};
use apimachinery::table::{IncludeObject, MetaVersion, RowOptions};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use reports_server::http::gzip::{Deflater, Joiner};
use serde_json::Value;

/// The recordings whose lists are joined from pieces: of the others, objects are small.
const JOINED: [&str; 3] = [
    "ephemeralreports.reports.kyverno.io",
    "policyreports.wgpolicyk8s.io",
    "reports.openreports.io",
];
/// Most bytes of a list that is joined from pieces, by those of the list that is compressed as a
/// whole, in percent. A piece does not refer to the reports before it.
const MOST_JOINED: usize = 250;

/// The folder of the data; none with a note on the standard error where it is not there.
fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("REPORTS_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"),
        PathBuf::from,
    );
    if folder.is_dir() {
        return Some(folder);
    }
    assert_ne!(
        std::env::var("CI").as_deref(),
        Ok("true"),
        "no data in {}",
        folder.display()
    );
    eprintln!("skipped: no recorded reports in {}", folder.display());
    None
}

fn definitions(data: &Path) -> BTreeMap<String, ResourceDefinition> {
    let mut definitions = BTreeMap::new();
    for entry in data.join("crds").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let crd = serde_yaml::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let definition = ResourceDefinition::from_crd(&crd)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        definitions.insert(definition.name(), definition);
    }
    assert_eq!(definitions.len(), 6);
    definitions
}

/// Each file of recorded reports, with the name of its resource.
fn recordings(data: &Path) -> Vec<(String, PathBuf)> {
    let files = data
        .join("reports")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let (resource, _version) = name.strip_suffix(".jsonl.gz")?.rsplit_once('-')?;
            let recorded = resource.contains('.') && !resource.starts_with("events-");
            recorded.then(|| (resource.to_owned(), path.clone()))
        })
        .collect()
}

fn each_report(path: &Path, mut judge: impl FnMut(usize, Value)) -> usize {
    let lines = BufReader::new(GzDecoder::new(File::open(path).unwrap())).lines();
    let mut count = 0;
    for line in lines {
        let decoded = decode(line.unwrap().as_bytes(), Encoding::Json).unwrap();
        assert_eq!(decoded.duplicates, Vec::<String>::new());
        judge(count, decoded.value);
        count += 1;
    }
    count
}

#[test]
fn recorded_reports_are_right_and_nothing_of_them_is_pruned() {
    let Some(data) = data() else { return };
    let definitions = definitions(&data);
    let recordings = recordings(&data);
    assert_eq!(recordings.len(), 6);
    for (resource, path) in recordings {
        let definition = &definitions[&resource];
        let schema = &definition.storage_version().unwrap().schema;
        let count = each_report(&path, |index, report| {
            let mut coerced = report.clone();
            let unknown = schema.coerce(&mut coerced, Malformed::Refuse).unwrap();
            schema.default_values(&mut coerced);
            assert_eq!(unknown, Vec::<String>::new(), "{resource} {index}");
            assert_eq!(coerced, report, "{resource} {index}");
            assert_eq!(schema.validate(&report), [], "{resource} {index}");
            assert_eq!(
                schema.validate_update(&report, &report),
                [],
                "{resource} {index}"
            );
        });
        assert!(count > 0, "{resource}: no reports");
    }
}

#[test]
fn recorded_reports_fill_their_columns() {
    let Some(data) = data() else { return };
    let definitions = definitions(&data);
    let options = RowOptions {
        include: IncludeObject::None,
        version: MetaVersion::V1,
        now: "2026-11-21T05:00:00Z".parse::<Timestamp>().unwrap(),
    };
    for (resource, path) in recordings(&data) {
        let version = definitions[&resource].storage_version().unwrap();
        let headings: Vec<&str> = version.columns.iter().map(|c| c.name.as_str()).collect();
        let pass = headings.iter().position(|name| *name == "Pass").unwrap() + 1;
        let age = headings.iter().position(|name| *name == "Age").unwrap() + 1;
        each_report(&path, |index, report| {
            let summary = report
                .pointer("/summary/pass")
                .or(report.pointer("/spec/summary/pass"));
            let summary = summary.cloned().unwrap_or_default();
            let name = report["metadata"]["name"].clone();
            let row = version.printer.row(report, &options);
            let cells = row["cells"].as_array().unwrap();
            assert_eq!(cells.len(), headings.len() + 1);
            assert_eq!(cells[0], name);
            assert_eq!(cells[pass], summary, "{resource} {index}");
            assert!(
                cells[age].as_str().is_some_and(|age| age.ends_with('m')),
                "{resource} {index}"
            );
        });
    }
}

#[test]
fn a_joined_list_is_not_much_larger_than_one_that_is_compressed_as_a_whole() {
    let Some(data) = data() else { return };
    let mut judged = Vec::new();
    for (resource, path) in recordings(&data) {
        if !JOINED.contains(&resource.as_str()) {
            continue;
        }
        let (mut text, mut parts) = (Vec::new(), Vec::new());
        let mut whole = GzEncoder::new(Vec::new(), Compression::fast());
        let mut joiner = Joiner::begin(&mut parts, b"");
        let mut deflater = Deflater::default();
        each_report(&path, |_, report| {
            let report = report.to_string();
            let piece = deflater.piece(report.as_bytes()).unwrap();
            joiner.append(&mut parts, &piece, b",");
            text.extend_from_slice(report.as_bytes());
            text.push(b',');
        });
        joiner.end(&mut parts);
        whole.write_all(&text).unwrap();
        let whole = whole.finish().unwrap().len();
        let percent = parts.len() * 100 / whole;
        assert!(percent <= MOST_JOINED, "{resource}: {percent} %");
        let mut inflated = Vec::new();
        let mut decoder = GzDecoder::new(parts.as_slice());
        decoder.read_to_end(&mut inflated).unwrap();
        assert!(inflated == text, "{resource}");
        judged.push(resource);
    }
    judged.sort();
    assert_eq!(judged, JOINED);
}
