//! The resolution of the names that one module takes from another, to the module that defines them.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Module, Modules, Name};

/// The most imports that are followed for one name.
const IMPORTS: usize = 16;

/// Uses of one module by another, by their places in [`Modules::all`], each with the names that the
/// first takes from the second.
pub type Uses = BTreeMap<(usize, usize), BTreeSet<String>>;

/// Returns every use of a module by another one of the same crate.
#[must_use]
pub fn uses(modules: &Modules) -> Uses {
    let mut found = Uses::new();
    for (user, module) in modules.all.iter().enumerate() {
        for path in &module.paths {
            let used = target(modules, user, path, IMPORTS).filter(|used| *used != user);
            if let (Some(used), Some(name)) = (used, path.last()) {
                found.entry((user, used)).or_default().insert(name.clone());
            }
        }
    }
    found
}

/// Returns the module that defines what `path` stands for in the module `at`; none for what another
/// crate defines.
fn target(modules: &Modules, at: usize, path: &[String], imports: usize) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let module = modules.all.get(at)?;
    match first.as_str() {
        "crate" => walk(modules, 0, rest, imports),
        "self" => walk(modules, at, rest, imports),
        "super" => walk(modules, module.parent?, rest, imports),
        _ if module.has(first) => walk(modules, at, path, imports),
        _ => through_globs(modules, module, at, path, imports),
    }
}

/// Follows `path` from the module `at` down.
fn walk(modules: &Modules, at: usize, path: &[String], imports: usize) -> Option<usize> {
    let Some((first, rest)) = path.split_first() else {
        return Some(at);
    };
    let module = modules.all.get(at)?;
    if first == "super" {
        return walk(modules, module.parent?, rest, imports);
    }
    // A path goes on through the module, whatever else has its name.
    if let Some(child) = module.children.get(first)
        && (!rest.is_empty() || !module.names.contains_key(first))
    {
        return walk(modules, *child, rest, imports);
    }
    match module.names.get(first) {
        Some(Name::Import(import)) => {
            let whole: Vec<String> = import.iter().chain(rest).cloned().collect();
            // An import of its own name would be followed for ever.
            let imports = imports.checked_sub(1)?;
            imported(modules, at, &whole, imports)
        }
        Some(Name::Item) => Some(at),
        None => through_globs(modules, module, at, path, imports).or(Some(at)),
    }
}

/// Returns the same as [`target`] for the path of an import, whose first name is never another
/// import of its module.
fn imported(modules: &Modules, at: usize, path: &[String], imports: usize) -> Option<usize> {
    let (first, _) = path.split_first()?;
    let relative = matches!(first.as_str(), "crate" | "self" | "super");
    let child = modules.all.get(at)?.children.contains_key(first);
    (relative || child)
        .then(|| target(modules, at, path, imports))
        .flatten()
}

fn through_globs(
    modules: &Modules,
    module: &Module,
    at: usize,
    path: &[String],
    imports: usize,
) -> Option<usize> {
    let (first, _) = path.split_first()?;
    let imports = imports.checked_sub(1)?;
    module.globs.iter().find_map(|glob| {
        let from = imported(modules, at, glob, imports)?;
        let has = modules.all.get(from)?.has(first);
        has.then(|| walk(modules, from, path, imports)).flatten()
    })
}
