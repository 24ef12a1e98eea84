//! The inputs that the fuzzer starts from, and those that it has found before, run as a test of
//! their own.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::TARGETS;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let programs: BTreeSet<String> = names(&folder("fuzz_targets"))
        .iter()
        .map(|file| file.trim_end_matches(".rs").to_owned())
        .collect();
    assert_eq!(programs, targets);
    assert_eq!(names(&folder("corpus")), targets);
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for name in &targets {
        let path = format!("path = \"fuzz_targets/{name}.rs\"");
        assert!(manifest.contains(&path), "{path} is not in Cargo.toml");
        let program =
            fs::read_to_string(folder("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(program.contains(&format!("fuzz::{name}(data)")), "{name}");
    }
}

/// The targets share a server, which some of them empty.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_corpora_hold() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    for (name, run) in TARGETS {
        let corpus = folder("corpus").join(name);
        let files = names(&corpus);
        assert!(files.len() >= 3, "the corpus of {name} has {}", files.len());
        for file in files {
            // Says which input it was when the target panics.
            eprintln!("corpus/{name}/{file}");
            run(&fs::read(corpus.join(file)).unwrap());
        }
    }
}

#[test]
fn nothing_and_nonsense_hold() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    for (name, run) in TARGETS {
        eprintln!("{name}");
        run(b"");
        run(b"\n%%\n%%\n");
        run(&[0xff; 64]);
        run("\u{0}\u{7f}\u{2028}🦀%".as_bytes());
    }
}
