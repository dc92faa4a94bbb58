//! The report as one page that needs nothing else: no script, no font, no picture from anywhere. Plots are SVG, each
//! with a title and a description, and every mark in them with what it stands for; the tables say the same in text.

mod colours;
mod lanes;
mod line;
mod order;
mod panels;
mod plots;
mod scale;
mod traces;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    analysis::{Analysis, condition::Counts},
    outline::{Outline, Part, Plot, Section, outline},
    tables::{Column, Table},
};

/// Tables with more rows are folded until somebody opens them.
const MAX_OPEN_ROWS: usize = 40;

/// Nothing may be fetched and nothing run, whatever a row holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
pub(crate) fn write(analysis: &Analysis<'_>) -> String {
    let outline = outline(analysis);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (outline.title) }
                style { (PreEscaped(include_str!("html/style.css"))) }
            }
            body {
                (head_of(&outline, analysis))
                main {
                    @for section in &outline.sections { (section_of(section, analysis)) }
                }
            }
        }
    };
    page.into_string() + "\n"
}

fn head_of(outline: &Outline, analysis: &Analysis<'_>) -> Markup {
    html! {
        header {
            h1 { (outline.title) }
            p.summary { (outline.summary) }
            (tiles(analysis))
            nav aria-label="Sections" {
                @for section in &outline.sections { a href={ "#" (section.anchor) } { (section.heading) } " " }
            }
        }
    }
}

fn tiles(analysis: &Analysis<'_>) -> Markup {
    let Counts { complete, censored, aborted, failed } = Counts::of(analysis.rows.rows.iter());
    let tiles = [
        (analysis.conditions.len(), "conditions", ""),
        (analysis.rounds as usize, "rounds", ""),
        (complete, "verified", "good"),
        (censored, "stopped", "warn"),
        (aborted, "aborted", "warn"),
        (failed, "failed", "bad"),
    ];
    html! {
        div.tiles aria-hidden="true" {
            @for (count, what, kind) in tiles {
                div.tile.(if count > 0 { kind } else { "" }) { strong { (count) } span { (what) } }
            }
        }
    }
}

fn section_of(section: &Section, analysis: &Analysis<'_>) -> Markup {
    html! {
        section id=(section.anchor) {
            h2 { (section.heading) }
            @for part in &section.parts {
                @match part {
                    Part::Paragraph(paragraph) => { p { (paragraph) } }
                    Part::List(items) => { ul { @for item in items { li { (item) } } } }
                    Part::Table(table) => (table_of(table)),
                    Part::Plot(plot) => (plot_of(*plot, analysis)),
                }
            }
        }
    }
}

fn plot_of(plot: Plot, analysis: &Analysis<'_>) -> Markup {
    match plot {
        Plot::Speeds => plots::speeds(analysis),
        Plot::Contrasts => plots::findings("contrasts", "Declared contrasts", &analysis.contrasts),
        Plot::Controls => plots::findings("controls", "Controls", &analysis.controls),
        Plot::Fractions => plots::fractions(analysis),
        Plot::Exploratory => plots::exploratory(analysis),
        Plot::Efficiency => plots::efficiency(analysis),
        Plot::Progress => panels::progress(analysis),
        Plot::Finished => panels::finished(analysis),
        Plot::Traces => traces::traces(analysis),
        Plot::Order => order::order(analysis),
    }
}

fn table_of(table: &Table) -> Markup {
    let rows = html! {
        div.scroll tabindex="0" role="region" aria-label="Table" {
            table {
                thead { tr { @for column in &table.columns { th.(class(*column)) scope="col" { (column.name()) } } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for (cell, column) in row.iter().zip(&table.columns) { (cell_of(cell, *column)) } }
                    }
                }
            }
        }
    };
    if table.rows.len() <= MAX_OPEN_ROWS {
        return rows;
    }
    html! { details { summary { "Table of " (table.rows.len()) " rows" } (rows) } }
}

fn cell_of(cell: &str, column: Column) -> Markup {
    match column {
        Column::Text(_) | Column::Number(_) => html! { td.(class(column)) { (cell) } },
        Column::Name(_) => {
            let mut names = cell.split(" ÷ ");
            html! { td.name { span { (names.next().unwrap_or_default()) } @for name in names { " " span { "÷ " (name) } } } }
        }
    }
}

fn class(column: Column) -> &'static str {
    match column {
        Column::Text(_) => "text",
        Column::Name(_) => "name",
        Column::Number(_) => "number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: usize) -> String {
        let columns = vec![Column::Name("speeds divided"), Column::Text("reason")];
        let row = || vec!["a ÷ b".to_owned(), "<b>&".to_owned()];
        table_of(&Table { columns, rows: (0..rows).map(|_| row()).collect() }).into_string()
    }

    #[test]
    fn text_of_a_row_stays_text_and_names_are_not_broken() {
        let table = table(1);
        assert!(table.contains("<td class=\"text\">&lt;b&gt;&amp;</td>"), "{table}");
        assert!(table.contains("<span>a</span> <span>÷ b</span>"), "{table}");
    }

    #[test]
    fn a_long_table_is_folded() {
        assert!(!table(MAX_OPEN_ROWS).contains("<details>"));
        assert!(table(MAX_OPEN_ROWS + 1).starts_with("<details><summary>Table of 41 rows</summary>"));
    }
}
