//! What a run of the study observes: conditions as data, from a TOML file that is parsed and checked once. The questions
//! that the report answers stand in the same file, before there are answers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs,
    path::Path,
    str::FromStr,
    time::Duration,
};

use ketch_channel::TransportKind;
use ketch_protocol::limits::CONNECTIONS;
use serde::{Deserialize, Deserializer, de::Error as _};

use super::{
    error::{RunError, run_io_error},
    schedule::{Order, square_rounds},
};
use crate::{
    observation::Role,
    report::{
        plan::{Plan as Questions, Question},
        rows::is_name,
    },
    study::{Condition, Controller, Layout, OBSERVATION_LIMIT, Profile},
    tools::{place::PathText, plan::Work, target::FileSystem},
};

/// The program of conditions that name none: this one.
pub(crate) const THIS_PROGRAM: &str = "current";

/// The link of conditions whose ends are joined by nothing but `lo`.
pub(crate) const LOOPBACK: &str = "loopback";

/// Most conditions of one plan: the largest shipped one has a fifth of it.
const MAX_CONDITIONS: usize = 200;

/// Everything that one run observes.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Repetitions of all conditions.
    pub(crate) rounds: u32,
    /// Decides the order, and the content of the data sets.
    pub(crate) seed: u64,
    pub(crate) order: Order,
    /// When an observation is stopped.
    pub(crate) limit: Duration,
    /// Whether something small is fetched, untimed, before each observation.
    pub(crate) warm_up: bool,
    /// Around which observations it is measured what the path carries.
    pub(crate) capacity: Measured,
    /// What sources are kept on, read only.
    pub(crate) source: FileSystem,
    pub(crate) data: BTreeMap<String, Work>,
    /// Paths that the plan describes itself.
    pub(crate) links: BTreeMap<String, PathText>,
    /// Those of every round.
    pub(crate) conditions: Vec<Planned>,
    /// Those that are tried once, before the first round.
    pub(crate) pilots: Vec<Planned>,
}

/// Before and after what the path's capacity is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Measured {
    /// Each round: its first observation has what was measured before it, its last one what was after it.
    #[default]
    Rounds,
    /// Each observation.
    Observations,
    /// Nothing.
    Never,
}

/// One condition with all that it takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Which of [`Plan::data`].
    pub(crate) data: String,
    pub(crate) condition: Condition,
    /// Which program is at both ends: [`THIS_PROGRAM`], or another build's name.
    pub(crate) program: String,
    pub(crate) target: FileSystem,
    /// What joins the ends: [`LOOPBACK`], one of [`Plan::links`], or a profile of the emulator.
    pub(crate) link: String,
    /// Threads that keep processors busy meanwhile.
    pub(crate) load_threads: u32,
    /// Parse what comes and write nothing.
    pub(crate) discard: bool,
}

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    rounds: u32,
    seed: u64,
    #[serde(default)]
    order: Order,
    #[serde(default = "limit_s")]
    limit_s: u64,
    #[serde(default = "yes")]
    warm_up: bool,
    #[serde(default)]
    capacity: Measured,
    #[serde(default = "folder")]
    source: FileSystem,
    #[serde(default = "folder")]
    target: FileSystem,
    #[serde(default = "this_program")]
    program: String,
    #[serde(default = "loopback")]
    link: String,
    data: BTreeMap<String, Work>,
    #[serde(default)]
    links: BTreeMap<String, PathText>,
    #[serde(rename = "conditions")]
    blocks: Vec<Block>,
    // For the report, which checks them.
    #[serde(default, rename = "title")]
    _title: String,
    #[serde(default, rename = "contrast")]
    _contrasts: Vec<Question>,
    #[serde(default, rename = "control")]
    _controls: Vec<Question>,
    #[serde(default, rename = "fraction")]
    _fractions: Vec<Question>,
}

/// Every combination of some levels. A condition's name is its data set, layout, transport and controller, the number of
/// connections where it is not 1, the link where the block names any, and the label, with `-` between them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    data: Vec<String>,
    layout: Vec<Layout>,
    #[serde(deserialize_with = "from_texts")]
    transport: Vec<TransportKind>,
    #[serde(deserialize_with = "from_texts")]
    controller: Vec<Controller>,
    #[serde(default = "one")]
    connections: Vec<u8>,
    #[serde(default = "seed_profile")]
    profile: Profile,
    /// What is asked for UDP sockets instead of what the profile has.
    #[serde(default)]
    udp_buffer_bytes: Option<u32>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    role: Role,
    #[serde(default)]
    program: Option<String>,
    #[serde(default)]
    target: Option<FileSystem>,
    #[serde(default)]
    link: Vec<String>,
    #[serde(default)]
    load_threads: u32,
    #[serde(default)]
    discard: bool,
}

impl Plan {
    /// Reads the plan at `path`; conditions that name no link are joined by `link` where there is one. Returns its text
    /// too.
    pub(crate) fn read(path: &Path, link: Option<&str>) -> Result<(Self, String), RunError> {
        let text = fs::read_to_string(path).map_err(run_io_error("read the plan", path))?;
        Ok((Self::parse(&text, path, link)?, text))
    }

    /// The same from its text.
    pub(crate) fn parse(text: &str, path: &Path, link: Option<&str>) -> Result<Self, RunError> {
        let questions = Questions::parse(text, path)?;
        let mut written: Written = toml::from_str(text)
            .map_err(|source| RunError::Plan { path: path.to_owned(), source: Box::new(source) })?;
        if let Some(link) = link {
            written.link = link.to_owned();
        }
        let planned = written.blocks.iter().flat_map(|block| block.conditions(&written)).collect::<Vec<_>>();
        if let Some(wrong) = fault(&written, &planned, &questions) {
            return Err(RunError::Asked { path: path.to_owned(), wrong });
        }
        let (pilots, conditions) = planned.into_iter().partition(|planned| planned.role == Role::Pilot);
        let Written { rounds, seed, order, limit_s, warm_up, capacity, source, data, links, .. } = written;
        let limit = Duration::from_secs(limit_s);
        Ok(Self { rounds, seed, order, limit, warm_up, capacity, source, data, links, conditions, pilots })
    }
}

impl Block {
    /// Every combination, in the order of the factors.
    fn conditions(&self, written: &Written) -> Vec<Planned> {
        let mut planned = Vec::new();
        let links = if self.link.is_empty() { vec![None] } else { self.link.iter().map(Some).collect() };
        for data in &self.data {
            for &layout in &self.layout {
                for &transport in &self.transport {
                    for &controller in &self.controller {
                        for &connections in &self.connections {
                            let (profile, udp_buffer_bytes) = (self.profile, self.udp_buffer_bytes);
                            let condition = Condition {
                                layout,
                                transport,
                                controller,
                                connections,
                                profile,
                                udp_buffer_bytes,
                            };
                            let of = |link: &Option<&String>| self.planned(data, condition, *link, written);
                            planned.extend(links.iter().map(of));
                        }
                    }
                }
            }
        }
        planned
    }

    fn planned(&self, data: &str, condition: Condition, link: Option<&String>, written: &Written) -> Planned {
        let Condition { layout, transport, controller, connections, .. } = condition;
        let mut name = format!("{data}-{layout}-{transport}-{controller}");
        if connections != 1 {
            name += &format!("-{connections}");
        }
        for more in [link, self.label.as_ref()].into_iter().flatten() {
            name += &format!("-{more}");
        }
        Planned {
            name,
            role: self.role,
            data: data.to_owned(),
            condition,
            program: self.program.as_ref().unwrap_or(&written.program).clone(),
            target: self.target.unwrap_or(written.target),
            link: link.unwrap_or(&written.link).clone(),
            load_threads: self.load_threads,
            discard: self.discard,
        }
    }
}

/// What of a plan cannot be done.
fn fault(written: &Written, planned: &[Planned], questions: &Questions) -> Option<String> {
    if written.rounds == 0 || written.limit_s == 0 || planned.is_empty() {
        return Some("no condition, no round or no time, so that nothing is observed".into());
    }
    if planned.len() > MAX_CONDITIONS {
        return Some(format!("{} conditions, and {MAX_CONDITIONS} are allowed", planned.len()));
    }
    let conditions = planned.iter().filter(|planned| planned.role != Role::Pilot).count();
    let square = square_rounds(conditions);
    if written.order == Order::Williams && (square == 0 || !(written.rounds as usize).is_multiple_of(square))
    {
        return Some(format!(
            "{} rounds of {conditions} conditions, and their design is balanced in {square} or a multiple",
            written.rounds
        ));
    }
    let mut names = BTreeSet::new();
    planned
        .iter()
        .find_map(|planned| {
            let Planned { name, data, condition, .. } = planned;
            if !names.insert(name.as_str()) {
                return Some(format!("two conditions called {name}: a label tells them apart"));
            }
            if !is_name(name) {
                return Some(format!(
                    "a condition called {name:?}: names are letters, digits, '.', '_', '+' and '-', 80 at most"
                ));
            }
            if !written.data.contains_key(data) {
                return Some(format!("a data set {data:?} that it does not describe"));
            }
            let connections = condition.connections;
            let is_possible = (1..=CONNECTIONS).contains(&connections);
            if !is_possible {
                return Some(format!("{connections} connections, and 1 to {CONNECTIONS} are possible"));
            }
            (condition.transport == TransportKind::Tcp && condition.controller == Controller::Bbr3)
                .then(|| "bbr3 over tcp, and ketch has it for QUIC alone".into())
        })
        .or_else(|| {
            let asked = [&questions.contrasts, &questions.controls, &questions.fractions];
            let mut sides = asked.into_iter().flatten().flat_map(|question| [&question.of, &question.against]);
            let unknown = sides.find(|side| !names.contains(side.as_str()))?;
            Some(format!("a comparison with {unknown:?}, which is none of its conditions"))
        })
}

fn from_texts<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
}

fn limit_s() -> u64 {
    OBSERVATION_LIMIT.as_secs()
}

fn yes() -> bool {
    true
}

fn folder() -> FileSystem {
    FileSystem::Folder
}

fn this_program() -> String {
    THIS_PROGRAM.into()
}

fn loopback() -> String {
    LOOPBACK.into()
}

fn one() -> Vec<u8> {
    vec![1]
}

fn seed_profile() -> Profile {
    Profile::Seed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Plan, RunError> {
        Plan::parse(text, Path::new("plan.toml"), None)
    }

    const HEAD: &str = "rounds = 2\nseed = 7\n[data]\nsmall = { shape = 'small' }\n";
    const BLOCK: &str = "[[conditions]]\ndata = ['small']\nlayout = ['files', 'bundle']\n\
        transport = ['tcp', 'quic']\ncontroller = ['cubic', 'bbr']\n";

    #[test]
    fn a_block_is_every_combination_of_its_levels() {
        let plan = parse(&format!("{HEAD}{BLOCK}connections = [1, 8]")).unwrap();
        assert_eq!(plan.conditions.len(), 16);
        let names: Vec<_> = plan.conditions[..3].iter().map(|planned| planned.name.as_str()).collect();
        assert_eq!(names, ["small-files-tcp-cubic", "small-files-tcp-cubic-8", "small-files-tcp-bbr"]);
        assert_eq!(plan.limit, Duration::from_secs(900));
    }

    #[test]
    fn a_link_that_is_asked_for_joins_what_names_none() {
        let second = BLOCK.to_owned() + "link = ['loopback']";
        let text = format!("link = 'lan'\n{HEAD}{BLOCK}{second}");
        let plan = Plan::parse(&text, Path::new("plan.toml"), Some("de-us-200")).unwrap();
        assert_eq!(plan.conditions[0].link, "de-us-200");
        assert_eq!(plan.conditions[8].link, "loopback");
        assert_eq!(plan.conditions[8].name, "small-files-tcp-cubic-loopback");
        assert_eq!(parse(&text).unwrap().conditions[0].link, "lan");
    }

    #[test]
    fn the_shipped_plans_are_plans() {
        for (text, conditions, pilots) in [
            (include_str!("../../plans/study/seed.toml"), 16, 2),
            (include_str!("../../plans/study/seed-quick.toml"), 22, 2),
            (include_str!("../../plans/study/seed-lossy.toml"), 16, 2),
            (include_str!("../../plans/study/current.toml"), 22, 2),
            (include_str!("../../plans/study/williams.toml"), 16, 0),
            (include_str!("../../plans/study/filesystem.toml"), 20, 0),
            (include_str!("../../plans/study/udp-buffers.toml"), 16, 0),
            (include_str!("../../plans/study/library.toml"), 12, 0),
            (include_str!("../../plans/study/connections.toml"), 128, 0),
            (include_str!("../../plans/study/bbr.toml"), 6, 0),
        ] {
            let plan = parse(text).unwrap();
            assert_eq!((plan.conditions.len(), plan.pilots.len()), (conditions, pilots));
        }
    }

    #[test]
    fn the_first_study_has_80_observations_of_as_many_bytes() {
        let plan = parse(include_str!("../../plans/study/seed.toml")).unwrap();
        assert_eq!(plan.conditions.len() * plan.rounds as usize, 80);
        assert!(plan.conditions.iter().all(|planned| planned.program == "replica"));
        assert!(plan.conditions.iter().all(|planned| planned.target == FileSystem::Btrfs));
        for data in ["small", "large", "large8"] {
            let bytes = match plan.data[data] {
                Work::Small { files, bytes } | Work::Large { files, bytes } => files * bytes,
                Work::Tree { .. } | Work::Million { .. } | Work::Source { .. } => 0,
            };
            assert_eq!(bytes, 268_435_456, "{data}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused_and_named() {
        let question =
            |name| format!("[[contrast]]\nname = 'n'\nof = '{name}'\nagainst = 'small-files-tcp-bbr'\n");
        let cases = [
            (format!("{HEAD}{BLOCK}{BLOCK}"), "two conditions called small-files-tcp-cubic"),
            (format!("{HEAD}{BLOCK}connections = [17]"), "17 connections"),
            (format!("{HEAD}{BLOCK}connections = []"), "nothing is observed"),
            (format!("{HEAD}{}", BLOCK.replace("'bbr'", "'bbr3'")), "bbr3 over tcp"),
            (format!("{HEAD}{BLOCK}label = 'a b'"), "a condition called"),
            (format!("{HEAD}{}", BLOCK.replace("'small'", "'large'")), "a data set \"large\""),
            (format!("{HEAD}{BLOCK}{}", question("small")), "a comparison with \"small\""),
            (format!("{HEAD}{BLOCK}").replace("rounds = 2", "rounds = 0"), "nothing is observed"),
            (format!("order = 'williams'\n{HEAD}{BLOCK}"), "balanced in 8"),
        ];
        for (text, expected) in cases {
            let error = parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for text in
            ["", &format!("{HEAD}{BLOCK}colour = 'red'"), &format!("{HEAD}{}", BLOCK.replace("bbr", "reno"))]
        {
            assert!(matches!(parse(text), Err(RunError::Plan { .. })), "{text}");
        }
    }
}
