//! What the documents say is what the program does.

use std::{fs, path::PathBuf, process::Command};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn ketch(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ketch")).args(arguments).env_clear().output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// All documents, by their path below the root.
fn documents() -> Vec<String> {
    let mut found = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn the_readme_shows_the_help_of_the_program() {
    let readme = read("README.md");
    let help = ketch(&["--help"]);
    let (commands, exits) = help.split_once("Exit codes").unwrap();
    let commands = commands.split_once("Commands:\n").unwrap().1.split("\n\n").next().unwrap();
    assert!(readme.contains(commands.trim_end()), "the README lacks these commands:\n{commands}");
    let exits: Vec<_> = exits.lines().skip(1).map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!(readme.contains(&exits.join("\n")), "the README lacks these exit codes:\n{}", exits.join("\n"));
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in documents() {
        let folder = root().join(&document).parent().unwrap().to_owned();
        for link in read(&document).split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(folder.join(target).exists(), "{document} links to {target}, which is not there");
        }
    }
}

#[test]
fn every_event_of_the_interface_is_described() {
    let described = read("docs/events.md");
    let source = read("node/src/cli/json.rs");
    for name in source.split("\"event\": \"").skip(1).chain(source.split("with(\"").skip(1)) {
        let name = name.split('"').next().unwrap();
        assert!(described.contains(&format!("| `{name}` |")), "docs/events.md lacks {name}");
    }
}
