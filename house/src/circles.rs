//! Modules and files that need each other.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::modules::Modules;
use crate::resolve::{self, Uses};

/// A circle: each of its members needs each other one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Circle {
    /// Modules or files.
    pub members: Vec<String>,
    /// The ties of the circle: user, used, and the names.
    pub ties: Vec<(String, String, Vec<String>)>,
}

/// The circles of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circles {
    /// The circles of modules right below the root.
    pub modules: Vec<Circle>,
    /// The circles of files.
    pub files: Vec<Circle>,
}

/// Uses by the names of modules or files.
type Named = BTreeMap<(String, String), BTreeSet<String>>;

/// Returns the circles of a crate.
#[must_use]
pub fn find(modules: &Modules) -> Circles {
    let uses = resolve::uses(modules);
    let top = |at: usize| modules.all.get(at).and_then(|m| m.path.first().cloned());
    let file = |at: usize| {
        let file = modules.files.get(modules.all.get(at)?.file)?;
        Some(file.path.display().to_string())
    };
    Circles {
        modules: circles(&named(&uses, top)),
        files: circles(&named(&uses, file)),
    }
}

/// Returns the uses among what `name` gives a name to.
fn named(uses: &Uses, name: impl Fn(usize) -> Option<String>) -> Named {
    let mut named = Named::new();
    for ((user, used), names) in uses {
        if let (Some(user), Some(used)) = (name(*user), name(*used))
            && user != used
        {
            let taken = named.entry((user, used)).or_default();
            taken.extend(names.iter().cloned());
        }
    }
    named
}

fn circles(named: &Named) -> Vec<Circle> {
    let edges = named
        .keys()
        .map(|(user, used)| (user.as_str(), used.as_str()));
    let graph: DiGraphMap<&str, ()> = DiGraphMap::from_edges(edges);
    let mut circles: Vec<Circle> = tarjan_scc(&graph)
        .into_iter()
        .filter(|members| members.len() > 1)
        .map(|members| circle(&members, named))
        .collect();
    circles.sort();
    circles
}

fn circle(members: &[&str], named: &Named) -> Circle {
    let within = |name: &String| members.contains(&name.as_str());
    let ties = named
        .iter()
        .filter(|((user, used), _)| within(user) && within(used))
        .map(|((user, used), names)| (user.clone(), used.clone(), names.iter().cloned().collect()));
    let mut members: Vec<String> = members.iter().map(|member| (*member).to_owned()).collect();
    members.sort();
    Circle {
        members,
        ties: ties.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the circles of a crate with these files: those of modules, and those of files.
    fn circles_of(files: &[(&str, &str)]) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = find(&Modules::read(&folder.path().join("lib.rs")).unwrap());
        let root = format!("{}/", folder.path().display());
        let members = |circles: Vec<Circle>| -> Vec<Vec<String>> {
            let names = circles.into_iter().map(|circle| circle.members);
            names
                .map(|names| names.iter().map(|n| n.replace(&root, "")).collect())
                .collect()
        };
        (members(found.modules), members(found.files))
    }

    #[test]
    fn modules_that_import_from_each_other_are_a_circle() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "use super::a; pub struct B; fn f(_: a::A) {}"),
            ("c.rs", "use crate::{a::A, b::B}; struct C(A, B);"),
        ]);
        assert_eq!(found.0, [["a", "b"]]);
        assert_eq!(found.1, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn an_import_leads_to_the_file_that_defines_and_not_to_the_one_that_passes_it_on() {
        let found = circles_of(&[
            ("lib.rs", "mod a;"),
            (
                "a/mod.rs",
                "mod one; mod two; pub use one::One; pub use two::*;",
            ),
            ("a/one.rs", "pub struct One;"),
            ("a/two.rs", "use super::One; pub struct Two(One);"),
        ]);
        assert_eq!(found, (vec![], vec![]));
    }

    #[test]
    fn a_function_may_have_the_name_of_its_module() {
        let found = circles_of(&[
            (
                "lib.rs",
                "mod a; mod run; pub use run::run; pub use a::{self, A};",
            ),
            ("a.rs", "use crate::run; pub struct A; fn f() { run(); }"),
            (
                "run.rs",
                "use super::run::Run as R; use crate::a::A; pub struct Run(A, R); pub fn run() {}",
            ),
        ]);
        assert_eq!(found.0, [["a", "run"]]);
    }

    #[test]
    fn a_path_in_a_macro_is_a_use() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "pub fn a() { println!(\"{}\", crate::b::b()); }"),
            ("b.rs", "pub fn b() -> u8 { crate::a::a(); 1 }"),
        ]);
        assert_eq!(found.0, [["a", "b"]]);
    }

    #[test]
    fn what_is_for_tests_alone_makes_no_circle() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            (
                "b.rs",
                "pub struct B;\n#[cfg(test)]\nmod tests {\n use crate::a::A;\n}",
            ),
        ]);
        assert_eq!(found, (vec![], vec![]));
    }

    #[test]
    fn names_of_other_crates_and_imports_of_the_same_name_end() {
        let found = circles_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use tokio::b; use b::Thing; pub struct A(Thing);"),
            (
                "b.rs",
                "use crate::a::A; use std::fmt as a; pub struct B(A);",
            ),
        ]);
        assert_eq!(found, (vec![], vec![]));
    }
}
