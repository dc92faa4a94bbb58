//! Turns `--exclude`, `--include` and `--filter-from` into the rules of a selection.

use std::{fs::File, io::Read as _, path::Path};

use anyhow::Context as _;
use ketch::tree::{excluding, including, rules_in};
use ketch_protocol::{limits::RULES_BYTES, message::Rules, path::escape};

use super::{
    args::{RuleOption, RuleOptions},
    exit::Usage,
};

/// The rules in their order.
pub(super) fn read(options: &RuleOptions) -> anyhow::Result<Rules> {
    let mut lines = Vec::new();
    for option in &options.0 {
        match option {
            RuleOption::Exclude(rule) => lines.push(excluding(rule.as_bytes())),
            RuleOption::Include(rule) => lines.push(including(rule.as_bytes())),
            RuleOption::From(file) => lines.extend(read_file(file)?),
        }
    }
    let hint = Some("--filter-from FILE takes many rules");
    Rules::new(lines).map_err(|error| Usage { message: error.to_string(), hint }.into())
}

fn read_file(file: &Path) -> anyhow::Result<Vec<Box<[u8]>>> {
    let reading = || format!("reading the rules in {}", escape(file.as_os_str().as_encoded_bytes()));
    let mut bytes = Vec::new();
    // Comments are not counted against the limit of rules, but a file of nothing else has an end too.
    let limit = 16 * RULES_BYTES as u64;
    let read = File::open(file).and_then(|opened| opened.take(limit + 1).read_to_end(&mut bytes));
    read.with_context(reading)?;
    anyhow::ensure!(bytes.len() as u64 <= limit, "{}: it has more than {limit} bytes", reading());
    Ok(rules_in(&bytes).map(Box::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rules: &Rules) -> Vec<String> {
        rules.iter().map(|line| escape(line).to_string()).collect()
    }

    #[test]
    fn options_and_files_become_lines_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules");
        std::fs::write(&file, b"# what is built\r\n*.o\r\n\n!keep.o\n\\#x").unwrap();
        let options = RuleOptions(vec![
            RuleOption::Exclude("#a#".into()),
            RuleOption::From(file),
            RuleOption::Include("b".into()),
        ]);
        assert_eq!(shown(&read(&options).unwrap()), ["\\\\#a#", "*.o", "!keep.o", "\\\\#x", "!b"]);
    }

    #[test]
    fn a_rule_that_is_no_line_and_a_missing_file_are_refused() {
        let empty = read(&RuleOptions(vec![RuleOption::Exclude(String::new())])).unwrap_err();
        assert!(empty.is::<Usage>(), "{empty}");
        let missing = read(&RuleOptions(vec![RuleOption::From("/missing\u{1b}".into())])).unwrap_err();
        assert!(missing.to_string().contains("/missing\\u{1b}"), "{missing}");
    }
}
