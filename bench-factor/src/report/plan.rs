//! What was to be asked of the run, as `plan.toml` declares it: the questions that were fixed before there were
//! answers. The study's own part of the file is passed over.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use serde::Deserialize;

use super::{
    error::{ReportError, io_error},
    limits::{MAX_NAME_CHARS, MAX_PLAN_BYTES},
};
use crate::statistics::family::MAX_QUESTIONS;

/// The declared questions.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct Plan {
    /// A heading for the report.
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// Decides what is left to chance.
    #[serde(default)]
    pub(crate) seed: u64,
    /// Differences to be tested, corrected for how many they are.
    #[serde(default, rename = "contrast")]
    pub(crate) contrasts: Vec<Question>,
    /// The same under two names, or what should be the same: they test the study, not a condition.
    #[serde(default, rename = "control")]
    pub(crate) controls: Vec<Question>,
    /// Packed small files beside large ones: shares of what the stack can do, not tested.
    #[serde(default, rename = "fraction")]
    pub(crate) fractions: Vec<Question>,
}

/// How much faster one condition is than another.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) name: String,
    /// The condition whose speed is divided,
    pub(crate) of: String,
    /// and the one that it is divided by.
    pub(crate) against: String,
    /// Ratios closer to 1 than this many percent are no difference worth having; without it none is too small.
    #[serde(default)]
    pub(crate) margin_percent: Option<f64>,
}

impl Plan {
    /// Reads and checks the plan at `path`; `None` where there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ReportError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read the plan", path)(error)),
        };
        let mut text = String::new();
        let read = file.take(MAX_PLAN_BYTES + 1).read_to_string(&mut text);
        if read.map_err(io_error("read the plan", path))? as u64 > MAX_PLAN_BYTES {
            let allowed = format!("a plan's {MAX_PLAN_BYTES} bytes");
            return Err(ReportError::TooLong { path: path.to_owned(), allowed });
        }
        Self::parse(&text, path).map(Some)
    }

    /// Checks the plan that stands in `text`; `path` is where it comes from.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, ReportError> {
        let plan: Self =
            toml::from_str(text).map_err(|source| ReportError::Plan { path: path.to_owned(), source })?;
        match plan.fault() {
            None => Ok(plan),
            Some((asked, reason)) => {
                Err(ReportError::Asked { path: path.to_owned(), asked, reason: reason.to_owned() })
            }
        }
    }

    /// What makes no sense, and why.
    fn fault(&self) -> Option<(String, &'static str)> {
        let count = self.contrasts.len();
        if count > MAX_QUESTIONS {
            let reason = "and more than 12 leave too little for each: declare those that matter";
            return Some((format!("{count} contrasts"), reason));
        }
        let mut names = BTreeSet::new();
        let lists = [&self.contrasts, &self.controls, &self.fractions];
        lists.into_iter().flatten().find_map(|question| question.fault(&mut names))
    }
}

impl Question {
    /// How far a logarithm of a ratio may be from 0 to be no difference.
    pub(crate) fn margin(&self) -> Option<f64> {
        self.margin_percent.map(|percent| (1.0 + percent / 100.0).ln())
    }

    fn fault<'a>(&'a self, names: &mut BTreeSet<&'a str>) -> Option<(String, &'static str)> {
        let Self { name, of, against, margin_percent } = self;
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || name.contains(char::is_control) {
            return Some((format!("a contrast called {name:?}"), "which is no line of 1 to 80 characters"));
        }
        if !names.insert(name) {
            return Some((format!("two contrasts called {name:?}"), "which nobody could tell apart"));
        }
        if of == against {
            return Some((format!("{of:?} against itself"), "which is 1 whatever was measured"));
        }
        let is_margin = |percent: f64| percent.is_finite() && percent > 0.0 && percent <= 100.0;
        let margin = margin_percent.filter(|&percent| !is_margin(percent))?;
        Some((format!("a margin of {margin} percent"), "which is not more than 0 and at most 100"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Plan, ReportError> {
        Plan::parse(text, Path::new("plan.toml"))
    }

    fn contrast(name: &str, more: &str) -> String {
        format!("[[contrast]]\nname = '{name}'\nof = 'a'\nagainst = 'b'\n{more}\n")
    }

    #[test]
    fn the_study_s_own_part_of_a_plan_is_passed_over() {
        let plan = parse(&format!("rounds = 5\nseed = 7\n{}", contrast("packing", "margin_percent = 5.0")));
        let plan = plan.unwrap();
        assert_eq!((plan.seed, plan.contrasts.len(), plan.controls.len()), (7, 1, 0));
        assert!((plan.contrasts[0].margin().unwrap() - 1.05_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        let many: String = (0..13).map(|number| contrast(&number.to_string(), "")).collect();
        let cases = [
            (many, "13 contrasts"),
            (contrast("", ""), "called \"\""),
            (contrast("one", "") + &contrast("one", ""), "two contrasts called \"one\""),
            (contrast("one", "margin_percent = 0.0"), "a margin of 0 percent"),
            (contrast("one", "margin_percent = nan"), "a margin of NaN percent"),
            (contrast("one", "").replace("'b'", "'a'"), "\"a\" against itself"),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse(&contrast("one", "margin = 5.0")).is_err(), "an unknown word");
    }

    #[test]
    fn without_a_plan_nothing_was_declared() {
        assert_eq!(Plan::read(Path::new("/nowhere/plan.toml")).unwrap(), None);
    }

    #[test]
    fn the_document_s_plan_is_one() {
        let document = include_str!("../../../docs/benchmarks/report.md");
        let example = document.split("```toml").nth(1).unwrap().split("```").next().unwrap();
        let plan = parse(example).unwrap();
        assert_eq!((plan.contrasts.len(), plan.controls.len(), plan.fractions.len()), (1, 1, 1));
    }
}
