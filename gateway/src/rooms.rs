//! Which room may import which: the plan of the house, and the test that holds the code to it.
//!
//! A room is a top-level module of a crate, with the files below it. [`GATEWAY`] lists the rooms of this crate from top
//! to bottom. The test parses every file, resolves each path that begins with `crate`, `self`, `super` or a child
//! module to the file that it names, and wants three things: no import from a lower room to a higher one, no circle of
//! files that crosses a room, and no circle of more than [`CIRCLE_FILES_MAX`] files. The same is held for the crates
//! [below](CRATES), whose own order Cargo keeps. Tests may import what they like.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::{Path, PathBuf},
};
use syn::visit::{self, Visit};

/// The rooms of the gateway, from top to bottom; rooms of one line are on one floor, and do not import each other.
const GATEWAY: &[&[&str]] = &[
    &["demo", "server"],
    &["execute", "http"],
    &["copy", "ddl"],
    &["load"],
    &["session", "purge"],
    &["point"],
    &["dml"],
    &["query"],
    &["provider", "pg_catalog"],
    &["context", "view", "view_binding"],
    &["lookup", "auth", "metrics", "console"],
    &["advice", "instance", "system_relations", "shield", "write_set"],
    &[
        "activity",
        "advisory_locks",
        "audit",
        "certificates",
        "heat",
        "notifications",
        "purges",
        "resources",
        "rights",
        "row_locks",
        "row_numbers",
        "sequences",
        "settings",
        "statistics",
        "table_locks",
        "traces",
    ],
    &["shares"],
    &["identity", "lock"],
];

/// The crates below. Whether each is one room, or its top-level modules are rooms, among which only circles are looked
/// for.
const CRATES: &[(&str, Rooms)] = &[("pg", Rooms::Modules), ("sql", Rooms::One), ("wire", Rooms::One)];

/// How a crate is divided into rooms.
#[derive(Clone, Copy)]
enum Rooms {
    One,
    Modules,
}

/// Files that may import each other in one circle.
const CIRCLE_FILES_MAX: usize = 20;

/// A module's path below its crate; empty for the crate's root.
type Module = Vec<String>;
/// The files that a file imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

#[test]
fn rooms_import_downwards() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut faults = String::new();
    faults += &faults_of("gateway", &imports(&here.join("src")), GATEWAY);
    for (name, rooms) in CRATES {
        let mut imports = imports(&here.join(name).join("src"));
        if let Rooms::One = rooms {
            let within = |module: Module| [vec![(*name).to_owned()], module].concat();
            let of = |(file, imported): (Module, BTreeSet<Module>)| {
                (within(file), imported.into_iter().map(within).collect())
            };
            imports = imports.into_iter().map(of).collect();
        }
        faults += &faults_of(name, &imports, &[]);
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn every_room_has_a_floor() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let rooms: BTreeSet<String> = imports(&source).into_keys().filter_map(|module| module.first().cloned()).collect();
    let listed: BTreeSet<String> =
        GATEWAY.iter().flat_map(|floor| floor.iter()).map(|room| (*room).to_owned()).collect();
    assert_eq!(rooms, listed);
}

#[test]
fn faults_are_found() {
    let module = |path: &str| path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Module>();
    let graph = |arrows: &[(&str, &str)]| {
        let mut imports = Imports::new();
        for (from, to) in arrows {
            imports.entry(module(from)).or_default().insert(module(to));
            imports.entry(module(to)).or_default();
        }
        imports
    };
    let floors: &[&[&str]] = &[&["a"], &["b", "c"]];
    let check = |arrows: &[(&str, &str)]| faults_of("x", &graph(arrows), floors);
    assert_eq!(check(&[("a", "b"), ("a::one", "a"), ("a", "a::one"), ("", "a")]), "");
    assert_eq!(check(&[("b", "")]), "x: b imports the crate's root, not the room that defines\n");
    assert_eq!(check(&[("b::deep", "a")]), "x: b::deep imports a, which is above it\n");
    assert_eq!(check(&[("b", "c")]), "x: b imports c, on the same floor\n");
    let circle = faults_of("x", &graph(&[("a", "b"), ("b", "a")]), &[]);
    assert_eq!(circle, "x: a circle crosses rooms: a b\n");
    let files: Vec<String> = (0..=CIRCLE_FILES_MAX).map(|file| format!("a::f{file:02}")).collect();
    let arrows: Vec<_> =
        files.iter().zip(files.iter().cycle().skip(1)).map(|(a, b)| (a.as_str(), b.as_str())).collect();
    assert!(check(&arrows).starts_with("x: a circle of 21 files: a::f00"), "{}", check(&arrows));
}

fn faults_of(name: &str, imports: &Imports, floors: &[&[&str]]) -> String {
    let floor = |room: &str| floors.iter().position(|floor| floor.contains(&room));
    let mut faults = String::new();
    for (file, imported) in imports {
        let Some(room) = file.first() else { continue };
        if imported.contains(&Module::new()) {
            let _ = writeln!(faults, "{name}: {} imports the crate's root, not the room that defines", file.join("::"));
        }
        for other in imported.iter().filter(|other| other.first().is_some_and(|other| other != room)) {
            let what = match (floor(room), floor(&other[0])) {
                (Some(from), Some(to)) if from > to => "which is above it",
                (Some(from), Some(to)) if from == to => "on the same floor",
                _ => continue,
            };
            let _ = writeln!(faults, "{name}: {} imports {}, {what}", file.join("::"), other.join("::"));
        }
    }
    for circle in circles(imports) {
        let files = circle.iter().map(|file| file.join("::")).collect::<Vec<_>>().join(" ");
        let rooms: BTreeSet<_> = circle.iter().filter_map(|file| file.first()).collect();
        if rooms.len() > 1 {
            let _ = writeln!(faults, "{name}: a circle crosses rooms: {files}");
        }
        if circle.len() > CIRCLE_FILES_MAX {
            let _ = writeln!(faults, "{name}: a circle of {} files: {files}", circle.len());
        }
    }
    faults
}

/// The strongly connected components of more than one file: in each, every file reaches every other.
fn circles(imports: &Imports) -> Vec<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = imports
        .keys()
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(file) = open.pop() {
                open.extend(imports.get(file).into_iter().flatten().filter(|next| seen.insert(*next)));
            }
            (from, seen)
        })
        .collect();
    let circle = |file: &Module| -> BTreeSet<Module> {
        let others = reached[file].iter().filter(|other| reached[**other].contains(file));
        others.map(|other| (*other).clone()).collect()
    };
    let all: BTreeSet<BTreeSet<Module>> = imports.keys().map(circle).filter(|circle| circle.len() > 1).collect();
    all.into_iter().collect()
}

/// The imports of all files of a crate but those of tests.
fn imports(source: &Path) -> Imports {
    let mut files = BTreeMap::new();
    collect(source, &mut Vec::new(), &mut files);
    assert!(!files.is_empty(), "{} has no files", source.display());
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let read = |(module, path): (&Module, &PathBuf)| {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut paths = Paths { module, modules: &modules, found: BTreeSet::new(), exported: BTreeSet::new() };
        paths.visit_file(&file);
        (module.clone(), paths.found)
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        if matches!(stem, "tests" | "testing" | "fuzz" | "rooms") {
            continue;
        }
        if path.is_dir() {
            module.push(stem.to_owned());
            collect(&path, module, files);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = module.is_empty() && matches!(stem, "lib" | "main");
            let own = (!is_root).then(|| stem.to_owned());
            files.insert(module.iter().cloned().chain(own).collect(), path);
        }
    }
}

/// Collects the files that the paths of one file name.
struct Paths<'a> {
    module: &'a Module,
    modules: &'a BTreeSet<Module>,
    found: BTreeSet<Module>,
    /// Macros of this file that `#[macro_export]` puts at the crate's root.
    exported: BTreeSet<String>,
}

impl Paths<'_> {
    /// A path by its segments, as far as they are known.
    fn add(&mut self, segments: &[String]) {
        let (mut base, mut rest) = match segments {
            [first, rest @ ..] if first == "crate" && !rest.is_empty() => (Vec::new(), rest),
            [first, ..] if first == "super" || first == "self" => (self.module.clone(), segments),
            [first, ..] if self.modules.contains(&[self.module.as_slice(), std::slice::from_ref(first)].concat()) => {
                (self.module.clone(), segments)
            }
            _ => return,
        };
        while let [first, behind @ ..] = rest {
            match first.as_str() {
                "self" => {}
                "super" => {
                    base.pop();
                }
                _ => break,
            }
            rest = behind;
        }
        let elsewhere = |first: &String| self.exported.contains(first) || CRATES.iter().any(|(name, _)| name == first);
        if base.is_empty() && rest.first().is_some_and(elsewhere) {
            return;
        }
        for segment in rest {
            base.push(segment.clone());
            if !self.modules.contains(&base) {
                base.pop();
                break;
            }
        }
        if base != *self.module {
            self.found.insert(base);
        }
    }

    fn add_tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_tree(&path.tree, before);
                before.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(tree, before)),
            syn::UseTree::Name(name) => self.add_with(before, Some(&name.ident)),
            syn::UseTree::Rename(name) => self.add_with(before, Some(&name.ident)),
            syn::UseTree::Glob(_) => self.add_with(before, None),
        }
    }

    fn add_with(&mut self, before: &[String], last: Option<&syn::Ident>) {
        let all: Vec<String> = before.iter().cloned().chain(last.map(ToString::to_string)).collect();
        self.add(&all);
    }

    /// Paths among the tokens of a macro's call.
    fn add_tokens(&mut self, tokens: proc_macro2::TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut joined = false;
        for token in tokens {
            match token {
                proc_macro2::TokenTree::Ident(ident) if joined || path.is_empty() => {
                    path.push(ident.to_string());
                    joined = false;
                }
                proc_macro2::TokenTree::Ident(ident) => {
                    self.add(&std::mem::replace(&mut path, vec![ident.to_string()]));
                }
                proc_macro2::TokenTree::Punct(punct) if punct.as_char() == ':' => joined = true,
                other => {
                    self.add(&std::mem::take(&mut path));
                    joined = false;
                    if let proc_macro2::TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add(&path);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    let of_tests = |attribute: &syn::Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string().starts_with("test"))
    };
    attributes.iter().any(of_tests)
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.add_tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if segments.len() > 1 {
            self.add(&segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        if item.attrs.iter().any(|attribute| attribute.path().is_ident("macro_export")) {
            self.exported.extend(item.ident.as_ref().map(ToString::to_string));
        }
        visit::visit_item_macro(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(call.tokens.clone());
    }
}
