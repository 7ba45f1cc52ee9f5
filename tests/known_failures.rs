//! `docs/known-failures.md` names tests; they must be there, or the table would say what is not so.

#![allow(clippy::unwrap_used, reason = "a failure is the test's answer")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Each case with what the last column says about it.
fn cases() -> Vec<(String, String)> {
    let document = fs::read_to_string(root().join("docs/known-failures.md")).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").map(str::to_owned).collect::<Vec<_>>());
    let cells =
        cells.filter(|cells| cells[0] != "Case").inspect(|cells| assert_eq!(cells.len(), 4, "{cells:?}"));
    cells.map(|cells| (cells[0].clone(), cells[3].clone())).collect()
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn sources_in(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources_in(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The names of all tests of this crate and of its command line.
fn tests() -> BTreeSet<String> {
    let mut sources = Vec::new();
    for directory in ["src", "tests", "cli/src", "cli/tests"] {
        sources_in(&root().join(directory), &mut sources);
    }
    sources.iter().flat_map(|path| tests_of(&fs::read_to_string(path).unwrap())).collect()
}

fn tests_of(source: &str) -> Vec<String> {
    let behind_attribute = source.split("#[test]\n").skip(1);
    let names = behind_attribute.map(|rest| rest.split_once("fn ").unwrap().1.split('(').next().unwrap());
    names.map(str::to_owned).collect()
}

/// The number of the case that a test's name starts with.
fn case_of(test: &str) -> Option<String> {
    let (case, _) = test.split_once('_')?;
    let (letter, digits) = case.split_at_checked(1)?;
    let is_case = ("a"..="j").contains(&letter) && digits.len() == 2 && digits.parse::<u8>().is_ok();
    is_case.then(|| case.to_uppercase())
}

#[test]
fn every_case_names_tests_that_are_there_or_says_why_none() {
    let tests = tests();
    let cases = cases();
    assert!(cases.len() > 80 && cases.is_sorted(), "{} cases", cases.len());
    for (case, here) in cases {
        let named: Vec<_> = quoted(&here).collect();
        assert!(!named.is_empty() || here.split(' ').count() > 1, "{case} has neither a test nor a reason");
        for name in named {
            let is_there = match name {
                path if path.contains('.') => root().join(path).exists(),
                "append" | "wait" | "sync" | "Wal::strategy" => true,
                test => tests.contains(test),
            };
            assert!(is_there, "{case}: there is no {name}");
        }
    }
}

#[test]
fn every_test_that_carries_a_case_is_named_there() {
    let cases = cases();
    for test in tests() {
        let Some(case) = case_of(&test) else { continue };
        let row = cases.iter().find(|(number, _)| *number == case);
        let (_, here) = row.unwrap_or_else(|| panic!("{test}: there is no case {case}"));
        let names_it = quoted(here).any(|named| case_of(named).as_ref() == Some(&case));
        assert!(names_it, "{case} names neither {test} nor another test of its number");
    }
}

#[test]
fn what_is_missing_is_noticed() {
    assert!(!tests().contains("a_test_that_nobody_wrote"));
    assert_eq!(case_of("f07_a_length"), Some("F07".to_owned()));
    assert_eq!(case_of("p09_a_promise"), None);
    assert_eq!(quoted("`one`, or `two`").collect::<Vec<_>>(), ["one", "two"]);
}
