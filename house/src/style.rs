//! Three rules of style that rustfmt cannot hold yet: an import names one module, a module with
//! others below it is the `mod.rs` of its folder, and a doc comment begins with the item that it is
//! about.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{ItemUse, UseTree};

use crate::files::{File, files};
use crate::modules::ModulesError;
use crate::openings::{self, Opening};

/// Files whose names do not stand for a module of their folder.
const ROOTS: [&str; 4] = ["build.rs", "lib.rs", "main.rs", "mod.rs"];

/// The reason why the rules cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum StyleError {
    /// A folder cannot be listed.
    #[error(transparent)]
    List(#[from] walkdir::Error),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] ModulesError),
}

/// Places that break a rule, with paths from the root of the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Files with an import of more than one module.
    pub nested_imports: Vec<PathBuf>,
    /// Modules beside the folder of those below them.
    pub flat_modules: Vec<PathBuf>,
    /// Doc comments that begin with a forbidden word.
    pub doc_openings: Vec<Opening>,
}

impl Style {
    /// Checks every source file below `root`.
    ///
    /// # Errors
    /// See [`StyleError`].
    pub fn check(root: &Path) -> Result<Self, StyleError> {
        let files = files(root)?;
        let mut style = Self {
            flat_modules: flat_modules(&files),
            ..Self::default()
        };
        for File { path, .. } in files.into_iter().filter(|file| is_rust(&file.path)) {
            let full = root.join(&path);
            let text = fs::read_to_string(&full).map_err(|source| ModulesError::Read {
                path: full.clone(),
                source,
            })?;
            let openings = openings::forbidden(&path, &text);
            style.doc_openings.extend(openings);
            let syntax = syn::parse_file(&text);
            let syntax = syntax.map_err(|source| ModulesError::Parse { path: full, source })?;
            if has_nested_import(&syntax) {
                style.nested_imports.push(path);
            }
        }
        Ok(style)
    }
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

/// Returns the modules that have a folder of their name beside them. Root files have none.
fn flat_modules(files: &[File]) -> Vec<PathBuf> {
    let rust = || {
        files
            .iter()
            .map(|file| &file.path)
            .filter(|path| is_rust(path))
    };
    let folders: BTreeSet<&Path> = rust().flat_map(|path| path.ancestors().skip(1)).collect();
    let flat = rust().filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        !ROOTS.contains(&name.unwrap_or_default())
            && folders.contains(path.with_extension("").as_path())
    });
    flat.cloned().collect()
}

fn has_nested_import(syntax: &syn::File) -> bool {
    let mut imports = Imports { nested: false };
    imports.visit_file(syntax);
    imports.nested
}

struct Imports {
    nested: bool,
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        self.nested |= is_nested(&import.tree, false);
        visit::visit_item_use(self, import);
    }
}

/// Returns whether a group has a path in it. `inside` says that the tree is part of one.
fn is_nested(tree: &UseTree, inside: bool) -> bool {
    match tree {
        UseTree::Path(path) => inside || is_nested(&path.tree, false),
        UseTree::Group(group) => group.items.iter().any(|item| is_nested(item, true)),
        UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_of_two_modules_is_found() {
        let nested = |text: &str| has_nested_import(&syn::parse_file(text).unwrap());
        assert!(nested("use std::{fs::File, io};"));
        assert!(nested("fn f() { use a::b::{c, d::{e}}; }"));
        assert!(!nested(
            "use std::fs::{self, File};\nuse std::{io, net};\nuse a::*;"
        ));
    }

    #[test]
    fn a_module_beside_its_folder_is_found() {
        let file = |path: &str| File {
            path: path.into(),
            bytes: 0,
        };
        let files = [
            "a/src/b.rs",
            "a/src/b/c.rs",
            "a/src/d/mod.rs",
            "a/src/main.rs",
            "a/src/main/e.rs",
            "a/src/f.rs",
            "a/src/f/text.md",
        ];
        let flat = flat_modules(&files.map(file));
        assert_eq!(flat, [PathBuf::from("a/src/b.rs")]);
    }
}
