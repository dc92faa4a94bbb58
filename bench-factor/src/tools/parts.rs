//! A tree's top entries, dealt out to several processes of a tool that has no parallelism of its own.

use std::{ffi::OsString, fs, path::Path};

use super::error::{ToolsError, io_error};

/// The names at the top of `tree`, sorted and dealt round, into at most `count` parts, none of them empty.
pub(crate) fn parts(tree: &Path, count: usize) -> Result<Vec<Vec<OsString>>, ToolsError> {
    let entries =
        fs::read_dir(tree).and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
    let mut names: Vec<OsString> = entries.map_err(io_error("list", tree))?;
    names.sort();
    Ok(dealt(names, count))
}

fn dealt(names: Vec<OsString>, count: usize) -> Vec<Vec<OsString>> {
    let mut parts = vec![Vec::new(); count.min(names.len())];
    for (index, name) in names.into_iter().enumerate() {
        parts[index % count].push(name);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dealt_round_and_no_part_is_empty() {
        let lengths = |names: usize, count| {
            let names = (0..names).map(|name| name.to_string().into()).collect();
            dealt(names, count).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(10, 4), [3, 3, 2, 2]);
        assert_eq!(lengths(2, 8), [1, 1]);
        assert!(lengths(0, 8).is_empty());
    }
}
