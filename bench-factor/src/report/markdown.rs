//! The report as Markdown: the tables and what to make of them.

use std::fmt::Write as _;

use super::{
    analysis::Analysis,
    outline::{Part, outline},
    tables::{Column, Table},
};

/// The whole report.
pub(crate) fn write(analysis: &Analysis<'_>) -> String {
    let outline = outline(analysis);
    let mut text = format!("# {}\n\n{}\n", line(&outline.title), line(&outline.summary));
    // What is only drawn has no place here.
    let is_written = |part: &Part| matches!(part, Part::List(_) | Part::Table(_));
    for section in outline.sections.iter().filter(|section| section.parts.iter().any(is_written)) {
        push(&mut text, format_args!("\n## {}\n", section.heading));
        for part in &section.parts {
            match part {
                Part::Paragraph(paragraph) => push(&mut text, format_args!("\n{}\n", line(paragraph))),
                Part::List(items) => {
                    text.push('\n');
                    items.iter().for_each(|item| push(&mut text, format_args!("- {}\n", line(item))));
                }
                Part::Table(table) => table_of(&mut text, table),
                Part::Plot(_) => (),
            }
        }
    }
    text
}

fn table_of(text: &mut String, table: &Table) {
    let join =
        |cells: &mut dyn Iterator<Item = String>| format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
    let rule = |column: &Column| match column {
        Column::Text(_) | Column::Name(_) => "---".to_owned(),
        Column::Number(_) => "---:".to_owned(),
    };
    text.push('\n');
    text.push_str(&join(&mut table.columns.iter().map(|column| column.name().to_owned())));
    text.push_str(&join(&mut table.columns.iter().map(rule)).replace(' ', ""));
    for row in &table.rows {
        text.push_str(&join(&mut row.iter().map(|cell| line(cell))));
    }
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    text.write_fmt(piece).expect("a string takes any text");
}

/// `text` on one line, with what Markdown would take for its own escaped.
fn line(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' => escaped.push(' '),
            '|' | '*' | '_' | '`' | '\\' | '[' | ']' => escaped.extend(['\\', character]),
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_row_stays_text() {
        assert_eq!(line("a|b\n<script> *x* & [y](z)"), "a\\|b &lt;script> \\*x\\* &amp; \\[y\\](z)");
    }

    #[test]
    fn a_table_has_its_numbers_to_the_right() {
        let columns = vec![Column::Text("name"), Column::Number("MB/s")];
        let mut text = String::new();
        table_of(&mut text, &Table { columns, rows: vec![vec!["a".into(), "1.0".into()]] });
        assert_eq!(text, "\n| name | MB/s |\n|---|---:|\n| a | 1.0 |\n");
    }
}
