//! What the report consists of, in order; each form writes of it what it can show.

use std::collections::BTreeSet;

use super::{
    analysis::{
        Analysis,
        condition::{Condition, Counts},
        noise::noises,
    },
    rows::progress,
    tables::{self, Table},
    wording,
};
use crate::{
    observation::{Observation, Samplers},
    statistics::Bounds,
};

/// Pairs that are drawn below each other; more nobody compares by eye, and the table has them all.
const MAX_DRAWN: usize = 40;

/// The report without its form.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) sections: Vec<Section>,
}

/// A heading and what stands below it.
#[derive(Debug)]
pub(crate) struct Section {
    /// For links within the page.
    pub(crate) anchor: &'static str,
    pub(crate) heading: &'static str,
    pub(crate) parts: Vec<Part>,
}

/// One thing below a heading.
#[derive(Debug)]
pub(crate) enum Part {
    Paragraph(String),
    List(Vec<String>),
    Table(Table),
    Plot(Plot),
}

/// What can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plot {
    /// Every observation of every condition.
    Speeds,
    Contrasts,
    Controls,
    Fractions,
    Exploratory,
    Efficiency,
    /// What was there by when, in cells that were stopped.
    Progress,
    /// Which share had finished by when, in conditions with such cells.
    Finished,
    /// What hosts and path did over time.
    Traces,
    /// Every observation in the order in which it was made.
    Order,
}

/// What the report of `analysis` consists of. A section without anything in it is left out.
pub(crate) fn outline(analysis: &Analysis<'_>) -> Outline {
    let run = &analysis.rows.rows[0].run;
    let title = analysis.plan.and_then(|plan| plan.title.clone()).unwrap_or_else(|| "Factor study".into());
    let sections = [
        scope(),
        rounds(analysis),
        speeds(analysis),
        contrasts(analysis),
        controls(analysis),
        fractions(analysis),
        efficiency(analysis),
        ended_early(analysis),
        flags(analysis),
        exploratory(analysis),
        hosts(analysis),
        order(analysis),
        made_of(analysis),
        rows(analysis),
    ];
    let sections =
        sections.into_iter().filter(|section| section.parts.iter().any(Part::has_content)).collect();
    Outline { title: format!("{title}: {run}"), summary: summary(analysis), sections }
}

impl Part {
    fn has_content(&self) -> bool {
        match self {
            Self::Paragraph(_) => false,
            Self::List(items) => !items.is_empty(),
            Self::Table(table) => !table.rows.is_empty(),
            Self::Plot(_) => true,
        }
    }
}

fn summary(analysis: &Analysis<'_>) -> String {
    let rows = &analysis.rows.rows;
    let paths: BTreeSet<&str> = rows.iter().map(|row| row.factors.path.as_str()).collect();
    let paths = paths.into_iter().collect::<Vec<_>>().join(", ");
    let counts = Counts::of(rows.iter());
    let Counts { complete, censored, aborted, failed } = counts;
    let (conditions, rounds, all) = (analysis.conditions.len(), analysis.rounds, rows.len());
    let cut = if analysis.rows.cut { " The last line of the rows was cut and is none." } else { "" };
    format!(
        "{all} observations of {conditions} conditions in {rounds} rounds over {paths}: {complete} verified, {censored} \
         stopped at their limit, {aborted} aborted, {failed} failed.{cut}"
    )
}

fn scope() -> Section {
    let list = wording::SCOPE.map(str::to_owned).to_vec();
    Section { anchor: "scope", heading: "What the figures are of", parts: vec![Part::List(list)] }
}

fn rounds(analysis: &Analysis<'_>) -> Section {
    let mut list = wording::what_rounds_can_show(analysis);
    if analysis.plan.is_none() {
        list.push(
            "There is no plan beside the rows, so nothing was declared: all ratios are exploratory.".into(),
        );
    }
    list.extend(analysis.conditions.iter().filter_map(wording::mixture));
    Section { anchor: "rounds", heading: "What so many rounds can show", parts: vec![Part::List(list)] }
}

fn speeds(analysis: &Analysis<'_>) -> Section {
    let note = "Each mark is one observation, rounds from top to bottom; a triangle points to where the speed of a cell lies that was stopped at its limit. The upright line is a condition's median, the bar its exact interval.";
    let parts = vec![
        Part::Paragraph(note.into()),
        Part::Plot(Plot::Speeds),
        Part::Table(tables::conditions(analysis)),
    ];
    Section { anchor: "speeds", heading: "Every observation", parts }
}

fn contrasts(analysis: &Analysis<'_>) -> Section {
    let note = "Declared before the run. The median of the ratios inside each round, with its exact interval; the chance \
                is that of rounds as lopsided if there were no difference (sign test), corrected for the number of \
                contrasts (Holm). A finding is of this path and these builds.";
    Section {
        anchor: "contrasts",
        heading: "Declared contrasts",
        parts: compared(note, Plot::Contrasts, tables::contrasts(analysis)),
    }
}

fn controls(analysis: &Analysis<'_>) -> Section {
    let note = "What should come out as no difference, or tells what the measurement itself costs. They are not part of \
                the correction.";
    let mut parts = compared(note, Plot::Controls, tables::controls(analysis));
    let noises: Vec<String> = noises(&analysis.conditions).iter().map(wording::noise).collect();
    if !noises.is_empty() {
        parts.push(Part::List(noises));
    }
    Section { anchor: "controls", heading: "Controls", parts }
}

fn fractions(analysis: &Analysis<'_>) -> Section {
    let parts = compared(wording::FRACTION_NOTE, Plot::Fractions, tables::fractions(analysis));
    Section { anchor: "fractions", heading: "Packed small files beside large files", parts }
}

fn exploratory(analysis: &Analysis<'_>) -> Section {
    let table = tables::exploratory(analysis);
    let note = "Pairs of conditions that differ in one factor and were not declared. So many ratios have some that look \
                like findings by chance, so none is made: they are hints for a plan of another run.";
    let mut parts = compared(note, Plot::Exploratory, table);
    if analysis.exploratory.len() > MAX_DRAWN {
        parts.retain(|part| !matches!(part, Part::Plot(_)));
    }
    Section { anchor: "exploratory", heading: "Exploratory ratios", parts }
}

/// A note, a plot and a table; nothing where the table is empty.
fn compared(note: &str, plot: Plot, table: Table) -> Vec<Part> {
    if table.rows.is_empty() {
        return vec![];
    }
    vec![Part::Paragraph(note.into()), Part::Plot(plot), Part::Table(table)]
}

fn efficiency(analysis: &Analysis<'_>) -> Section {
    let note = "What a perfect program takes over the same cold path (it dials, starts slowly, loses nothing and does \
                nothing else), divided by what was taken. It uses one connection: several start faster, and may pass it where slow start is most of the time.";
    let known = analysis.conditions.iter().any(|condition| condition.efficiency.is_some());
    let parts = if known { vec![Part::Paragraph(note.into()), Part::Plot(Plot::Efficiency)] } else { vec![] };
    Section { anchor: "efficiency", heading: "Beside the cold ideal", parts }
}

fn ended_early(analysis: &Analysis<'_>) -> Section {
    let note = "Cells that were stopped at their limit, aborted by a lost connection, or failed. A failed cell that has \
                a later attempt is replaced by that in the figures and kept here.";
    let table = tables::ended_early(analysis);
    let mut parts = vec![];
    if !table.rows.is_empty() {
        parts.push(Part::Paragraph(note.into()));
        if analysis.rows.rows.iter().any(|row| !progress(&row.outcome).is_empty()) {
            parts.push(Part::Plot(Plot::Progress));
        }
        if analysis.conditions.iter().any(|condition| condition.is_censored()) {
            parts.push(Part::Plot(Plot::Finished));
        }
        parts.push(Part::Table(table));
    }
    Section { anchor: "ended", heading: "Cells that did not finish", parts }
}

fn flags(analysis: &Analysis<'_>) -> Section {
    let note = "Cells that met a rule which the method fixed before the run. A flag excludes nothing.";
    let parts = vec![Part::Paragraph(note.into()), Part::Table(tables::flags(analysis))];
    Section { anchor: "flags", heading: "Flagged cells", parts }
}

fn hosts(analysis: &Analysis<'_>) -> Section {
    let sampled = |row: &Observation| row.samplers != Samplers::default();
    if !analysis.rows.rows.iter().any(sampled) {
        return Section { anchor: "hosts", heading: "Hosts and path", parts: vec![] };
    }
    let note = "Medians over the rounds of a condition, of steal the most. Counters are both hosts' together, of \
                everything that ran on them.";
    let mut parts = vec![Part::Paragraph(note.into())];
    if analysis.rows.rows.iter().any(|row| !row.samplers.trace.is_empty()) {
        parts.push(Part::Plot(Plot::Traces));
    }
    parts.push(Part::Table(tables::hosts(analysis)));
    let capacity = tables::capacity(analysis);
    if !capacity.rows.is_empty() {
        let note = "What the path carried, in IP packets that arrived, while eight plain TCP connections filled it and \
                    nothing else used it, before and after the observation that is named.";
        parts.extend([Part::Paragraph(note.into()), Part::Table(capacity)]);
    }
    Section { anchor: "hosts", heading: "Hosts and path", parts }
}

fn order(analysis: &Analysis<'_>) -> Section {
    let note = "Each speed divided by its condition's median, in the order in which the cells ran: a drift of the path or \
                of a host would show as a slope, and is in the ratios only as far as it happens within a round. Cells without a speed have no mark.";
    let is_placed = |condition: &Condition<'_>| condition.median.and_then(Bounds::exact).is_some();
    let any = analysis.conditions.iter().any(is_placed);
    let parts = if any { vec![Part::Paragraph(note.into()), Part::Plot(Plot::Order)] } else { vec![] };
    Section { anchor: "order", heading: "In the order of the run", parts }
}

fn made_of(analysis: &Analysis<'_>) -> Section {
    let parts = vec![Part::Table(tables::made_of(analysis)), Part::Table(tables::settings(analysis))];
    let parts = parts.into_iter().filter(Part::has_content).collect();
    Section { anchor: "made-of", heading: "What was run", parts }
}

fn rows(analysis: &Analysis<'_>) -> Section {
    Section { anchor: "rows", heading: "All rows", parts: vec![Part::Table(tables::rows(analysis))] }
}
