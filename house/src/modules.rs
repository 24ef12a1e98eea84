//! The modules of a crate as its source files declare them, without what is compiled for tests
//! alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Macro, Meta, UseTree, Visibility};

/// The reason why a source file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ModulesError {
    /// The file cannot be opened.
    #[error("{path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not Rust.
    #[error("{path}: {source}")]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// The error of the parser.
        source: syn::Error,
    },
    /// A module is declared whose file does not exist.
    #[error("{path} declares the module {name}, which has no file")]
    Missing {
        /// Path of the declaring file.
        path: PathBuf,
        /// Name of the module.
        name: String,
    },
}

/// A source file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of lines, without those of tests.
    pub lines: usize,
}

/// The meaning of a name in a module.
#[derive(Clone, Debug)]
pub enum Name {
    /// An import, by the path that it was imported with.
    Import(Vec<String>),
    /// Something that the module defines.
    Item,
}

/// A module.
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// Names from the root down; empty for the root.
    pub path: Vec<String>,
    /// The file that holds it, by its place in [`Modules::files`].
    pub file: usize,
    /// The module that declares it.
    pub parent: Option<usize>,
    /// The modules that it declares, by their places in [`Modules::all`]. A function may have the
    /// name of one.
    pub children: BTreeMap<String, usize>,
    /// The other names that it declares and imports.
    pub names: BTreeMap<String, Name>,
    /// Paths of imports that end in `*`.
    pub globs: Vec<Vec<String>>,
    /// Every path that its code uses.
    pub paths: Vec<Vec<String>>,
}

/// The modules of one root.
#[derive(Clone, Debug, Default)]
pub struct Modules {
    /// All of them; the root is the first.
    pub all: Vec<Module>,
    /// The files that they are in.
    pub files: Vec<SourceFile>,
}

impl Module {
    /// Returns whether it declares or imports `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.children.contains_key(name) || self.names.contains_key(name)
    }
}

impl Modules {
    /// Reads the modules below the root file of a crate.
    ///
    /// # Errors
    /// See [`ModulesError`].
    pub fn read(root: &Path) -> Result<Self, ModulesError> {
        let mut modules = Self::default();
        let folder = root.parent().unwrap_or(root).to_owned();
        modules.add_file(root, &folder, Vec::new(), None)?;
        Ok(modules)
    }

    fn add_file(
        &mut self,
        path: &Path,
        folder: &Path,
        module_path: Vec<String>,
        parent: Option<usize>,
    ) -> Result<usize, ModulesError> {
        let text = fs::read_to_string(path).map_err(|source| ModulesError::Read {
            path: path.to_owned(),
            source,
        })?;
        let syntax = syn::parse_file(&text).map_err(|source| ModulesError::Parse {
            path: path.to_owned(),
            source,
        })?;
        self.files.push(SourceFile {
            path: path.to_owned(),
            lines: text.lines().count(),
        });
        let file = self.files.len() - 1;
        self.add_module(&syntax.items, file, folder, module_path, parent)
    }

    /// Adds a module with the items of its body. `folder` holds the files of its children.
    fn add_module(
        &mut self,
        items: &[Item],
        file: usize,
        folder: &Path,
        path: Vec<String>,
        parent: Option<usize>,
    ) -> Result<usize, ModulesError> {
        let this = self.all.len();
        self.all.push(Module {
            path,
            file,
            parent,
            ..Module::default()
        });
        for item in items {
            if attributes(item).iter().any(is_for_tests) {
                if let Some(file) = self.files.get_mut(file) {
                    file.lines = file.lines.saturating_sub(lines_of(item));
                }
                continue;
            }
            match item {
                Item::Mod(module) => self.add_child(this, module, file, folder)?,
                Item::Use(import) => self.add_import(this, import),
                other => self.add_item(this, other),
            }
        }
        Ok(this)
    }

    fn add_child(
        &mut self,
        parent: usize,
        module: &syn::ItemMod,
        file: usize,
        folder: &Path,
    ) -> Result<(), ModulesError> {
        let name = module.ident.to_string();
        let mut path = self
            .all
            .get(parent)
            .map_or_else(Vec::new, |m| m.path.clone());
        path.push(name.clone());
        let below = folder.join(&name);
        let child = if let Some((_, items)) = &module.content {
            self.add_module(items, file, &below, path, Some(parent))?
        } else {
            let places = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
            let found = places.iter().find(|place| place.is_file());
            let found = found.ok_or_else(|| ModulesError::Missing {
                path: self.path_of(file),
                name: name.clone(),
            })?;
            self.add_file(found, &below, path, Some(parent))?
        };
        if let Some(parent) = self.all.get_mut(parent) {
            parent.children.insert(name, child);
        }
        Ok(())
    }

    fn path_of(&self, file: usize) -> PathBuf {
        self.files
            .get(file)
            .map_or_else(PathBuf::new, |f| f.path.clone())
    }

    fn add_import(&mut self, this: usize, import: &ItemUse) {
        let Some(module) = self.all.get_mut(this) else {
            return;
        };
        for (path, name) in imports(&import.tree) {
            match name {
                None => module.globs.push(path.clone()),
                Some(name) => {
                    module.names.insert(name, Name::Import(path.clone()));
                }
            }
            module.paths.push(path);
        }
    }

    fn add_item(&mut self, this: usize, item: &Item) {
        let Some(module) = self.all.get_mut(this) else {
            return;
        };
        if let Some(name) = name_of(item) {
            module.names.insert(name, Name::Item);
        }
        let mut paths = Paths(Vec::new());
        paths.visit_item(item);
        module.paths.append(&mut paths.0);
    }
}

/// The path of an import, and its name in the module; none for a `*`.
type Import = (Vec<String>, Option<String>);

/// Returns the imports that a tree stands for.
fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    add_imports(tree, &[], &mut found);
    found
}

/// Adds the imports of a tree that stands behind `path`.
fn add_imports(tree: &UseTree, path: &[String], found: &mut Vec<Import>) {
    // `a::b::{self}` is `a::b`.
    let to = |ident: &Ident| {
        let last = (ident != "self").then(|| ident.to_string());
        path.iter().cloned().chain(last).collect::<Vec<_>>()
    };
    match tree {
        UseTree::Path(below) => {
            let path: Vec<_> = path
                .iter()
                .cloned()
                .chain([below.ident.to_string()])
                .collect();
            add_imports(&below.tree, &path, found);
        }
        UseTree::Name(name) => {
            let path = to(&name.ident);
            let last = path.last().cloned();
            found.push((path, last));
        }
        UseTree::Rename(rename) => {
            found.push((to(&rename.ident), Some(rename.rename.to_string())));
        }
        UseTree::Glob(_) => found.push((path.to_vec(), None)),
        UseTree::Group(group) => {
            for tree in &group.items {
                add_imports(tree, path, found);
            }
        }
    }
}

/// A visitor that collects every path of more than one name, those in macros as well.
struct Paths(Vec<Vec<String>>);

impl Paths {
    fn add(&mut self, segments: Vec<String>) {
        if segments.len() > 1 {
            self.0.push(segments);
        }
    }

    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add(std::mem::take(&mut segments));
                    }
                    segments.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.add(std::mem::take(&mut segments));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add(segments);
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|s| s.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.add_tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }

    /// Ignores visibilities: `pub(super)` takes nothing from the module that it names.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_item_use(&mut self, import: &'ast ItemUse) {
        let imports = imports(&import.tree).into_iter();
        self.0.extend(imports.map(|(path, _)| path));
    }
}

/// Returns how many lines an item takes.
fn lines_of(item: &Item) -> usize {
    let span = item.span();
    span.end().line + 1 - span.start().line
}

/// Returns whether an attribute compiles what it is on for tests alone.
fn is_for_tests(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("cfg") && names_test(list.tokens.clone())
}

fn names_test(tokens: TokenStream) -> bool {
    let mut negated = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => {
            negated = ident == "not";
            ident == "test"
        }
        TokenTree::Group(group) => !negated && names_test(group.stream()),
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}
