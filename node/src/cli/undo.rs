//! `ketch undo`.

use ketch::tree::{self, UndoError, Undone};
use ketch_protocol::path::escape;

use super::{
    args,
    exit::{Exit, Usage},
    format, json,
    output::{print_json, print_line, print_result},
};

pub(super) fn run(command: &args::Undo) -> anyhow::Result<Exit> {
    let undone = tree::undo(&command.trash).map_err(told)?;
    if command.json {
        undone.problems.iter().for_each(|problem| print_json(&json::problem(problem)));
        print_json(&json::undone(&undone));
    } else {
        undone.problems.iter().for_each(|problem| print_line(&problem.to_string()));
        print_result(&summary(&undone));
    }
    Ok(if undone.problems.is_empty() { Exit::Stored } else { Exit::Partial })
}

fn told(error: UndoError) -> anyhow::Error {
    match &error {
        UndoError::Nothing { .. } => {
            let hint = Some("TRASH is what `ketch sync --trash` or the configuration of `ketch serve` names");
            Usage { message: error.to_string(), hint }.into()
        }
        UndoError::Read { .. }
        | UndoError::Damaged { .. }
        | UndoError::Gone { .. }
        | UndoError::Target(_) => error.into(),
    }
}

fn summary(undone: &Undone) -> String {
    let Undone { session, target, restored, removed, described, problems } = undone;
    let target = escape(target.as_os_str().as_encoded_bytes()).to_string();
    let mut line = format!("undid {session} in {target}: {} brought back", format::count(*restored));
    for (number, what) in
        [(*removed, "removed"), (*described, "described"), (problems.len() as u64, "left as they are")]
    {
        if number > 0 {
            line.push_str(&format!(", {} {what}", format::count(number)));
        }
    }
    line
}
