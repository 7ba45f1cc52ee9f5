//! The rules about what may know what, and about the size of files: taste that a test keeps.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const LINES_MAX: usize = 600;

/// Modules of this crate that a module may import; the first match counts. Those not listed may import what they like.
const MAY_IMPORT: [(&str, &[&str]); 5] = [
    ("lsn", &[]),
    ("error", &["Lsn", "lsn"]),
    ("frame", &["Lsn", "lsn", "error", "frame"]),
    // Bytes, a file and an offset: never frames, never the log.
    ("strategy", &["strategy", "planted"]),
    // Blocks are a matter of disks, and so is the one place where lengths become lengths in memory.
    ("disk", &["frame::BLOCK_BYTES", "frame::memory_bytes", "planted", "strategy::process_mark"]),
];

/// Modules that a module must not import.
const MUST_NOT_IMPORT: [(&str, &[&str]); 2] = [
    // The caller hands it the closure that persists.
    ("recovery", &["strategy", "SyncStrategy", "Extent"]),
    // A state machine: no disk, no threads, no barrier.
    ("commit::ledger", &["strategy", "SyncStrategy", "Extent", "disk", "segment"]),
];

/// Crates other than std that a module may use; those not listed may use every dependency.
const MAY_USE: [(&str, &[&str]); 3] = [("lsn", &[]), ("error", &["thiserror"]), ("frame", &["crc32fast"])];
const DEPENDENCIES: [&str; 4] = ["crc32fast", "log", "rustix", "thiserror"];

/// The library's files by module path, without comments and without their own unit tests.
fn modules() -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    read_modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut modules);
    assert!(modules.len() > 8, "the sources were not found");
    modules
}

fn read_modules(directory: &Path, prefix: &str, into: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let module = if prefix.is_empty() { stem.clone() } else { format!("{prefix}::{stem}") };
        if path.is_dir() {
            read_modules(&path, &module, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = if stem == "mod" { prefix.to_owned() } else { module };
            into.insert(module, code(&fs::read_to_string(&path).unwrap()));
        }
    }
}

fn code(source: &str) -> String {
    let product = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    product.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// What a module names behind `crate::`, wherever it stands: `use crate::{a, b::{C, D}}` gives `a`, `b::C` and `b::D`.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in code.split("crate::").skip(1) {
        expand("", part, &mut found);
    }
    found
}

/// Adds the paths that a use tree stands for; returns what follows it.
fn expand<'a>(prefix: &str, tree: &'a str, found: &mut Vec<String>) -> &'a str {
    let tree = tree.trim_start();
    let in_path = |symbol: char| symbol.is_alphanumeric() || symbol == '_' || symbol == ':';
    let (path, mut rest) = tree.split_at(tree.find(|symbol| !in_path(symbol)).unwrap_or(tree.len()));
    let path = format!("{prefix}{path}");
    if !rest.starts_with('{') {
        found.extend((!path.is_empty()).then_some(path));
        return rest;
    }
    while let Some(list) = rest.strip_prefix(['{', ',']) {
        rest = expand(&path, list, found).trim_start();
    }
    rest.strip_prefix('}').unwrap_or(rest)
}

fn is_in(module: &str, root: &str) -> bool {
    module.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn modules_import_what_they_may_and_no_more() {
    for (module, code) in modules() {
        let allowed = MAY_IMPORT.iter().find(|(root, _)| is_in(&module, root));
        for import in imports(&code) {
            if let Some((root, allowed)) = allowed {
                let may = is_in(&import, root) || allowed.iter().any(|allowed| is_in(&import, allowed));
                assert!(may, "{module} imports crate::{import}");
            }
            for (root, refused) in MUST_NOT_IMPORT {
                let must_not = is_in(&module, root) && refused.iter().any(|refused| is_in(&import, refused));
                assert!(!must_not, "{module} imports crate::{import}");
            }
        }
    }
}

#[test]
fn modules_use_the_dependencies_they_may() {
    for (module, code) in modules() {
        let Some((_, allowed)) = MAY_USE.iter().find(|(root, _)| is_in(&module, root)) else { continue };
        for dependency in DEPENDENCIES.iter().filter(|dependency| !allowed.contains(dependency)) {
            assert!(!code.contains(&format!("{dependency}::")), "{module} uses {dependency}");
        }
    }
}

#[test]
fn unsafe_code_stays_in_the_ring() {
    for (module, code) in modules() {
        let words = code.split(|symbol: char| !(symbol.is_alphanumeric() || symbol == '_'));
        let found = words.into_iter().any(|word| word == "unsafe");
        assert!(!found || module.starts_with("strategy::uring"), "{module} contains unsafe");
    }
}

#[test]
fn a_file_that_outgrows_a_reader_becomes_a_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut long = Vec::new();
    for directory in ["src", "tests", "cli", "benches", "examples"] {
        long_files(&root.join(directory), &mut long);
    }
    assert!(long.is_empty(), "longer than {LINES_MAX} lines: {long:?}");
}

fn long_files(directory: &Path, long: &mut Vec<(String, usize)>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            long_files(&path, long);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > LINES_MAX {
                long.push((path.display().to_string(), lines));
            }
        }
    }
}

#[test]
fn the_rules_find_what_they_forbid() {
    assert_eq!(
        imports("use crate::{Lsn, disk::Disk};\nlet x = crate::frame::pad8(1);"),
        ["Lsn", "disk::Disk", "frame::pad8"]
    );
    assert!(is_in("frame::group", "frame") && is_in("frame", "frame") && !is_in("framework", "frame"));
    assert_eq!(code("use a; // crate::b\n#[cfg(test)]\nmod tests { crate::c }").trim(), "use a;");
}
