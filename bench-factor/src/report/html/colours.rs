//! What colours and fillings mean, and the legends that say so. No meaning is carried by a colour alone: names and tables
//! say the same.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::report::analysis::{Analysis, comparison::Verdict, condition::Condition};

/// Hues that the style sheet has.
const HUES: usize = 4;

/// How marks look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour {
    hue: usize,
    hollow: bool,
}

impl Colour {
    pub(super) const EQUIVALENT: Self = Self { hue: 0, hollow: false };
    const SLOWER: Self = Self { hue: 1, hollow: false };
    const FASTER: Self = Self { hue: 2, hollow: false };
    pub(super) const NO_FINDING: Self = Self { hue: 3, hollow: false };

    /// The colour of a finding.
    pub(super) fn of(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Differs { faster: true, .. } => Self::FASTER,
            Verdict::Differs { faster: false, .. } => Self::SLOWER,
            Verdict::Equivalent => Self::EQUIVALENT,
            Verdict::Open | Verdict::TooFewRounds => Self::NO_FINDING,
        }
    }

    /// Its class in the style sheet.
    pub(super) fn class(self) -> String {
        let fill = if self.hollow { "hollow" } else { "full" };
        format!("hue{} {fill}", self.hue % HUES)
    }
}

/// Hues for transports, fillings for controllers.
pub(super) struct Colours {
    transports: Vec<String>,
    controllers: Vec<String>,
}

impl Colours {
    /// Of the transports and controllers of a run.
    pub(super) fn of(analysis: &Analysis<'_>) -> Self {
        let all = |level: fn(&Condition<'_>) -> String| {
            analysis.conditions.iter().map(level).collect::<BTreeSet<_>>().into_iter().collect()
        };
        Self {
            transports: all(|condition| condition.factors.transport.clone()),
            controllers: all(|condition| condition.factors.controller.clone()),
        }
    }

    /// The colour of a condition.
    pub(super) fn colour(&self, condition: &Condition<'_>) -> Colour {
        let place = |levels: &[String], level: &str| levels.iter().position(|one| one == level).unwrap_or(0);
        Colour {
            hue: place(&self.transports, &condition.factors.transport),
            hollow: place(&self.controllers, &condition.factors.controller) > 0,
        }
    }

    pub(super) fn legend(&self) -> Markup {
        let transports = self.transports.iter().enumerate();
        let transports = transports.map(|(hue, name)| (Colour { hue, hollow: false }, name.as_str()));
        let controllers = self.controllers.iter().enumerate();
        let controllers = controllers
            .map(|(place, name)| (Colour { hollow: place > 0, ..Colour::NO_FINDING }, name.as_str()));
        legend(&transports.chain(controllers).collect::<Vec<_>>())
    }
}

/// What the colours of findings mean.
pub(super) fn legend_of_findings() -> Markup {
    legend(&[
        (Colour::FASTER, "faster"),
        (Colour::SLOWER, "slower"),
        (Colour::EQUIVALENT, "no difference of the margin, which is shaded"),
        (Colour::NO_FINDING, "no finding"),
    ])
}

fn legend(entries: &[(Colour, &str)]) -> Markup {
    html! {
        p.legend {
            @for (colour, meaning) in entries {
                span.entry {
                    svg.(colour.class()) viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" {
                        circle.mark cx="6" cy="6" r="4" {}
                    }
                    " " (meaning)
                }
            }
        }
    }
}
