//! Rows for a person, for a document and for another program.

use std::{fmt::Write as _, time::Duration};

/// One table: every row has a cell for each column.
#[derive(Debug)]
pub(super) struct Table {
    columns: &'static [&'static str],
    rows: Vec<Vec<Cell>>,
}

/// A value and how it is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    /// Of letters that neither CSV nor Markdown takes for its own.
    Word(String),
    Count(u64),
    Seconds(Duration),
    Ratio(f64),
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Count(count) => count.to_string(),
            Self::Seconds(time) => format!("{:.3}", time.as_secs_f64()),
            Self::Ratio(ratio) => format!("{ratio:.2}"),
        }
    }
}

impl Table {
    pub(super) fn new(columns: &'static [&'static str]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    /// In columns.
    pub(super) fn text(&self) -> String {
        let lines = self.lines();
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let padded = |line: &Vec<String>| {
            let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
            cells.collect::<Vec<_>>().join("  ")
        };
        joined(lines.iter().map(padded))
    }

    /// As CSV (RFC 4180).
    pub(super) fn csv(&self) -> String {
        joined(self.lines().iter().map(|line| line.join(",")))
    }

    /// As a table of Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut lines = self.lines();
        lines.insert(1, vec!["---:".to_owned(); self.columns.len()]);
        joined(lines.iter().map(|line| format!("| {} |", line.join(" | "))))
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let names = self.columns.iter().map(|&name| name.to_owned()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::text).collect());
        [names].into_iter().chain(rows).collect()
    }
}

fn joined(lines: impl Iterator<Item = String>) -> String {
    lines.fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").expect("a string takes any text");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_forms_say_the_same() {
        let mut table = Table::new(&["work", "files", "s", "x"]);
        let time = Duration::from_millis(1_500);
        table.push(vec![Cell::Word("tree".into()), Cell::Count(100), Cell::Seconds(time), Cell::Ratio(1.0)]);
        assert_eq!(table.text(), "work  files      s     x\ntree    100  1.500  1.00\n");
        assert_eq!(table.csv(), "work,files,s,x\ntree,100,1.500,1.00\n");
        let markdown =
            "| work | files | s | x |\n| ---: | ---: | ---: | ---: |\n| tree | 100 | 1.500 | 1.00 |\n";
        assert_eq!(table.markdown(), markdown);
    }
}
