//! The options of `ketch sync`.

use std::{ffi::OsString, num::NonZeroU64, path::PathBuf, time::Duration};

use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};
use ketch::{
    swarm::{Multiaddr, TransportKind},
    transfer::ConnectionWish,
    trust::{Lifetime, lifetime::LifetimeError},
};
use ketch_protocol::{message::RemovalLimit, path::escape};

use super::{ChannelOptions, DurabilityName, ReachOptions, connection_wish};

#[derive(Debug, Args)]
pub(crate) struct Sync {
    /// The tree to read: a directory, or PEER:SHARE[/PATH]
    #[arg(value_name = "SOURCE")]
    pub(crate) source: OsString,

    /// The tree to write: a directory, made if missing, or PEER:SHARE[/PATH]
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,

    /// Write nothing; print what would be done
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Print a line for each entry that is changed
    #[arg(long, short)]
    pub(crate) itemize: bool,

    /// Remove from the target what the source does not have
    #[arg(long)]
    pub(crate) delete: bool,

    /// Remove nothing if more would go than this [default: 50% of a tree of more than 20 entries]
    #[arg(long, value_name = "N|P%", requires = "delete", value_parser = removal_limit)]
    pub(crate) max_delete: Option<RemovalLimit>,

    /// Remove everything if the source is empty
    #[arg(long, requires = "delete")]
    pub(crate) force_empty: bool,

    #[command(flatten)]
    pub(crate) rules: RuleOptions,

    /// Compare files by their content, whatever their times say
    #[arg(long)]
    pub(crate) checksum: bool,

    /// Take files of the same length for equal
    #[arg(long, conflicts_with = "checksum")]
    pub(crate) size_only: bool,

    /// Leave out what the target does not have
    #[arg(long)]
    pub(crate) existing: bool,

    /// Leave out what the target has
    #[arg(long)]
    pub(crate) ignore_existing: bool,

    /// Leave out files that are newer at the target
    #[arg(long, short)]
    pub(crate) update: bool,

    /// Find files that moved, by their content
    #[arg(long)]
    pub(crate) find_moves: bool,

    /// Send changed files as a whole
    #[arg(long)]
    pub(crate) no_delta: bool,

    /// Keep the owner too; takes root at the target
    #[arg(long)]
    pub(crate) owner: bool,

    /// Keep extended attributes too
    #[arg(long)]
    pub(crate) xattrs: bool,

    /// How content crosses: compressed on slow paths (a round trip of 5 ms or more), wherever that makes it shorter,
    /// or as it is
    #[arg(long, value_enum, default_value_t = CompressionName::Auto)]
    pub(crate) compress: CompressionName,

    /// Carry at most so much content a second: such as 500K, 1.5M or 2G, in units of 1024 as in rsync
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) bwlimit: Option<NonZeroU64>,

    /// What must survive a power cut when it exits
    #[arg(long, value_enum, default_value_t = DurabilityName::Session)]
    pub(crate) durability: DurabilityName,

    /// Where removed and replaced files of a target on this machine go
    #[arg(long, value_name = "DIR")]
    pub(crate) trash: Option<PathBuf>,

    /// Where the peer is, beside what the address book has; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) address: Vec<Multiaddr>,

    /// Use this transport only: quic or tcp
    #[arg(long, value_name = "quic|tcp")]
    pub(crate) transport: Option<TransportKind>,

    /// How many connections carry content, 1 to 16 or auto: 4 over TCP where a round trip takes 20 ms or more, else 1
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = connection_wish)]
    pub(crate) connections: ConnectionWish,

    /// How long to try again after a connection was lost
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) retry_for: Duration,

    /// Let content go over a relay that limits what it carries, if no direct connection comes about
    #[arg(long)]
    pub(crate) relay: bool,

    #[command(flatten)]
    pub(crate) reach: ReachOptions,

    #[command(flatten)]
    pub(crate) channel: ChannelOptions,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionName {
    /// On slow paths
    Auto,
    /// Every block that gets smaller
    Zstd,
    /// Never
    None,
}

/// What is left out, in the order in which it was said: later rules win.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuleOptions(pub(crate) Vec<RuleOption>);

/// One rule, or a file of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleOption {
    /// Left out.
    Exclude(String),
    /// Not left out after all.
    Include(String),
    /// Lines of gitignore syntax.
    From(PathBuf),
}

/// By hand, since a derived list knows the order of the values of one option only.
impl Args for RuleOptions {
    fn augment_args(command: Command) -> Command {
        let rule = |id: &'static str| clap::Arg::new(id).long(id).action(clap::ArgAction::Append);
        command
            .arg(rule("exclude").value_name("RULE").help(
                "Leave out what matches, in gitignore syntax; of several rules the last that matches counts",
            ))
            .arg(rule("include").value_name("RULE").help("Do not leave out what matches"))
            .arg(
                rule("filter-from")
                    .value_name("FILE")
                    .value_parser(value_parser!(PathBuf))
                    .help("Take rules from a file, one a line, in gitignore syntax"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RuleOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Self::default();
        rules.update_from_arg_matches(matches)?;
        Ok(rules)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let mut placed = placed(matches, "exclude", RuleOption::Exclude);
        placed.extend(self::placed(matches, "include", RuleOption::Include));
        placed.extend(self::placed(matches, "filter-from", RuleOption::From));
        placed.sort_by_key(|(place, _)| *place);
        self.0 = placed.into_iter().map(|(_, rule)| rule).collect();
        Ok(())
    }
}

/// The values of an option, each with its place on the command line.
fn placed<T: Clone + Send + std::marker::Sync + 'static>(
    matches: &ArgMatches,
    id: &str,
    rule: fn(T) -> RuleOption,
) -> Vec<(usize, RuleOption)> {
    let places = matches.indices_of(id).into_iter().flatten();
    let values = matches.get_many::<T>(id).into_iter().flatten();
    places.zip(values.cloned().map(rule)).collect()
}

/// `100` entries, or `20%` of the target.
fn removal_limit(text: &str) -> Result<RemovalLimit, String> {
    let percent = text.strip_suffix('%');
    let limit = match percent {
        Some(percent) => percent.parse().ok().filter(|percent| *percent <= 100).map(RemovalLimit::Percent),
        None => text.parse().ok().map(RemovalLimit::Entries),
    };
    let shown = escape(text.as_bytes());
    limit.ok_or_else(|| format!("\"{shown}\" is no limit: write a number of entries, or a share such as 20%"))
}

/// `500K`, `1.5M`, `2G`: bytes a second. A number alone is KiB to rsync and bytes to everybody else.
fn rate(text: &str) -> Result<NonZeroU64, String> {
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "k" | "K" => 1_u64 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        "" if text.parse::<u64>().is_ok() => {
            return Err(format!("\"{text}\" has no unit: write {text}K, {text}M or {text}G"));
        }
        _ => 0,
    };
    let number = digits.parse().ok().filter(|number: &f64| number.is_finite());
    // What is too large for 64 bits is the largest number they hold.
    let rate = number.and_then(|number| NonZeroU64::new((number * unit as f64) as u64));
    let shown = escape(text.as_bytes());
    rate.ok_or_else(|| format!("\"{shown}\" is no rate: write a number and K, M or G, such as 1.5M"))
}

/// `90s`, `5m`, `1h`; `0s` for none.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Lifetime::Seconds(seconds)) => Ok(Duration::from_secs(seconds)),
        Ok(Lifetime::Unlimited) => Ok(Duration::MAX),
        Err(LifetimeError::Zero(_)) => Ok(Duration::ZERO),
        Err(error @ LifetimeError::NoUnit(_)) => Err(error.to_string()),
        Err(LifetimeError::Form(shown) | LifetimeError::Long(shown)) => {
            Err(format!("\"{shown}\" is no time: write a number and s, m, h or d, such as 5m, or \"never\""))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Arguments, Command};

    fn parse(line: &[&str]) -> Result<Sync, clap::Error> {
        let line = ["ketch", "sync", "a", "b"].iter().chain(line);
        let command = Arguments::try_parse_from(line)?.command;
        let Command::Sync(sync) = command else { panic!("{command:?}") };
        Ok(*sync)
    }

    #[test]
    fn rules_keep_the_order_in_which_they_were_said() {
        let line = ["--exclude", "*.o", "--filter-from", "f", "--include", "a.o", "--exclude", "b"];
        let rules = parse(&line).unwrap().rules.0;
        let expected = [
            RuleOption::Exclude("*.o".into()),
            RuleOption::From("f".into()),
            RuleOption::Include("a.o".into()),
            RuleOption::Exclude("b".into()),
        ];
        assert_eq!(rules, expected);
        assert_eq!(parse(&[]).unwrap().rules, RuleOptions::default());
    }

    #[test]
    fn a_limit_of_removal_is_a_number_or_a_share() {
        let limit = |text| parse(&["--delete", "--max-delete", text]).map(|sync| sync.max_delete.unwrap());
        assert_eq!(limit("0").unwrap(), RemovalLimit::Entries(0));
        assert_eq!(limit("100").unwrap(), RemovalLimit::Entries(100));
        assert_eq!(limit("20%").unwrap(), RemovalLimit::Percent(20));
        assert_eq!(limit("100%").unwrap(), RemovalLimit::Percent(100));
        for text in ["101%", "-1", "%", "many", "1.5%"] {
            assert!(limit(text).is_err(), "{text}");
        }
        assert!(parse(&["--max-delete", "1"]).is_err());
    }

    #[test]
    fn a_rate_has_a_unit() {
        let rate = |text| parse(&["--bwlimit", text]).map(|sync| sync.bwlimit.unwrap().get());
        assert_eq!(parse(&[]).unwrap().bwlimit, None);
        assert_eq!(rate("500K").unwrap(), 500 << 10);
        assert_eq!(rate("500k").unwrap(), 500 << 10);
        assert_eq!(rate("1.5M").unwrap(), 3 << 19);
        assert_eq!(rate("2g").unwrap(), 2 << 30);
        let refused = rate("500").unwrap_err().to_string();
        assert!(refused.contains("\"500\" has no unit: write 500K, 500M or 500G"), "{refused}");
        for text in ["0K", "-1K", "K", "1T", "1KB", "1.5", "NaNK", "infK", "", "1 K", "1\u{fc}"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_to_retry_may_be_none_or_endless() {
        let time = |text| parse(&["--retry-for", text]).map(|sync| sync.retry_for);
        assert_eq!(parse(&[]).unwrap().retry_for, Duration::from_secs(300));
        assert_eq!(time("0s").unwrap(), Duration::ZERO);
        assert_eq!(time("never").unwrap(), Duration::MAX);
        for text in ["5", "soon", ""] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
