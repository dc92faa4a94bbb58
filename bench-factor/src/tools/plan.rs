//! What to run: a TOML file, parsed once into values that make sense.

use std::{fmt, fs, path::Path};

use ketch_fixtures::{
    diverge::Divergence,
    tree::{LARGE_BYTES, MILLION_FILES, SMALL_BYTES, SMALL_FILES, SOURCE_FILES, Shape, TREE_UNIT_BYTES},
};
use serde::{Deserialize, Serialize};

use super::{
    adapter::Tool,
    error::{ToolsError, io_error},
    target::FileSystem,
};

/// Conditions as data. Every tool does every work in every scenario on every file system, once a round.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// What is copied.
    pub(crate) work: Vec<Work>,
    /// By which programs.
    pub(crate) tools: Vec<Tool>,
    /// Repetitions of all conditions.
    pub(crate) rounds: u32,
    /// Decides the order, and the content of the trees.
    pub(crate) seed: u64,
    /// What the target is made of, anew for each run.
    #[serde(default = "default_targets")]
    pub(crate) targets: Vec<FileSystem>,
    /// What the target holds at the start.
    #[serde(default = "default_scenarios")]
    pub(crate) scenarios: Vec<Scenario>,
    /// The tool that the summary's ratios refer to; the first where none is named.
    pub(crate) reference: Option<Tool>,
    /// The emulated path between the two ends; loopback where none is named.
    pub(crate) link: Option<String>,
    /// The limit of the TCP buffers of both hosts of the path, like `64M`; as a new host has it where none is named.
    pub(crate) tcp_mem: Option<String>,
    /// A session that takes longer has failed.
    #[serde(default = "default_limit_s")]
    pub(crate) limit_s: u64,
}

/// What is copied: a seeded tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "shape", deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) enum Work {
    /// Equal files that do not compress.
    Small {
        #[serde(default = "small_files")]
        files: u64,
        #[serde(default = "small_bytes")]
        bytes: u64,
    },
    /// Few files that do not compress.
    Large {
        #[serde(default = "one")]
        files: u64,
        #[serde(default = "large_bytes")]
        bytes: u64,
    },
    /// A hundred files of very different lengths.
    Tree {
        #[serde(default = "tree_unit_bytes")]
        unit_bytes: u64,
    },
    /// A great many tiny files.
    Million {
        #[serde(default = "million_files")]
        files: u64,
    },
    /// A tree like source code.
    Source {
        #[serde(default = "source_files")]
        files: u64,
    },
}

/// What the target holds when the clock starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Scenario {
    /// Nothing.
    Fresh,
    /// A copy that the same tool made earlier.
    Unchanged,
    /// Such a copy, after every fourth file has changed and new ones have come on the source's side, and the
    /// target has got files of its own.
    Diverged,
    /// Such a copy, after the largest file has got one byte more near its start on the source's side.
    Inserted,
}

impl Plan {
    /// Reads and checks the plan at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self, ToolsError> {
        let text = fs::read_to_string(path).map_err(io_error("read the plan", path))?;
        Self::parse(&text, path)
    }

    /// The tool that the summary's ratios refer to.
    pub(crate) fn reference(&self) -> Tool {
        self.reference.unwrap_or(self.tools[0])
    }

    fn parse(text: &str, path: &Path) -> Result<Self, ToolsError> {
        let plan: Self =
            toml::from_str(text).map_err(|source| ToolsError::Plan { path: path.to_owned(), source })?;
        let lists = [
            ("work", plan.work.is_empty()),
            ("tools", plan.tools.is_empty()),
            ("targets", plan.targets.is_empty()),
            ("scenarios", plan.scenarios.is_empty()),
            ("rounds", plan.rounds == 0),
        ];
        match lists.into_iter().find(|(_, empty)| *empty) {
            Some((list, _)) => Err(ToolsError::Asked {
                asked: format!("no {list}"),
                reason: "so nothing is left to run".into(),
            }),
            None => Ok(plan),
        }
    }
}

impl Work {
    /// The tree to write.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Small { files, bytes } => Shape::Small { files, bytes },
            Self::Large { files, bytes } => Shape::Large { files, bytes },
            Self::Tree { unit_bytes } => Shape::Tree { unit_bytes },
            Self::Million { files } => Shape::Million { files },
            Self::Source { files } => Shape::Source { files },
        }
    }
}

impl Scenario {
    /// Whether the tool has copied the tree before.
    pub(crate) fn has_copy(self) -> bool {
        match self {
            Self::Fresh => false,
            Self::Unchanged | Self::Diverged | Self::Inserted => true,
        }
    }

    /// How source and earlier copy come apart.
    pub(crate) fn divergence(self) -> Option<Divergence> {
        match self {
            Self::Fresh | Self::Unchanged => None,
            Self::Diverged => Some(Divergence::Edit),
            Self::Inserted => Some(Divergence::Insert),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small { files, bytes } => write!(f, "small-{files}x{bytes}"),
            Self::Large { files, bytes } => write!(f, "large-{files}x{bytes}"),
            Self::Tree { unit_bytes } => write!(f, "tree-{unit_bytes}"),
            Self::Million { files } => write!(f, "million-{files}"),
            Self::Source { files } => write!(f, "source-{files}"),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Unchanged => "unchanged",
            Self::Diverged => "diverged",
            Self::Inserted => "inserted",
        })
    }
}

fn default_targets() -> Vec<FileSystem> {
    vec![FileSystem::Ext4]
}

fn default_scenarios() -> Vec<Scenario> {
    vec![Scenario::Fresh]
}

/// Ten minutes: sftp takes less than one for 65,536 files on loopback, the slowest of all tools here less
/// than two.
fn default_limit_s() -> u64 {
    600
}

fn small_files() -> u64 {
    SMALL_FILES
}

fn small_bytes() -> u64 {
    SMALL_BYTES
}

fn one() -> u64 {
    1
}

fn large_bytes() -> u64 {
    LARGE_BYTES
}

fn tree_unit_bytes() -> u64 {
    TREE_UNIT_BYTES
}

fn million_files() -> u64 {
    MILLION_FILES
}

fn source_files() -> u64 {
    SOURCE_FILES
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    const LEAST: &str = "rounds = 1\nseed = 7\ntools = ['rsync-ssh', 'tar-ssh']\n[[work]]\nshape = 'small'\n";

    fn parse(text: &str) -> Result<Plan, ToolsError> {
        Plan::parse(text, Path::new("tools.toml"))
    }

    #[test]
    fn what_a_plan_leaves_out_has_a_default() {
        let plan = parse(LEAST).unwrap();
        assert_eq!(plan.work, [Work::Small { files: 65_536, bytes: 4_096 }]);
        assert_eq!(plan.targets, [FileSystem::Ext4]);
        assert_eq!(plan.scenarios, [Scenario::Fresh]);
        assert_eq!(plan.reference(), plan.tools[0]);
        assert_eq!((plan.link, plan.limit_s), (None, 600));
    }

    #[test]
    fn an_unknown_word_is_refused_and_named() {
        for (known, unknown) in [("rounds", "runds"), ("rsync-ssh", "rsink"), ("'small'", "'smal'")] {
            let error = parse(&LEAST.replace(known, unknown)).unwrap_err();
            let cause = error.source().unwrap().to_string();
            assert!(cause.contains(unknown.trim_matches('\'')), "{cause}");
        }
    }

    #[test]
    fn a_plan_that_asks_for_nothing_is_refused() {
        let empty = ["rounds = 0", "tools = []", "work = []"];
        for (line, expected) in empty.into_iter().zip(["no rounds", "no tools", "no work"]) {
            let name = line.split(' ').next().unwrap();
            let kept: String = LEAST
                .lines()
                .filter(|kept| {
                    !kept.starts_with(name)
                        && (name != "work" || !kept.contains("work") && !kept.contains("shape"))
                })
                .fold(String::new(), |text, kept| text + kept + "\n");
            let error = parse(&format!("{line}\n{kept}")).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn the_shipped_plans_are_plans() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
        let mut plans = 0;
        // Those of the study are in a folder of their own.
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.path().is_file() {
                Plan::read(&entry.path()).unwrap();
                plans += 1;
            }
        }
        assert!(plans > 0);
    }
}
