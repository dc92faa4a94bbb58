//! The command line as it is written; each command turns its part into what the library takes.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ketch::{
    swarm::{Multiaddr, PeerId, TransportKind},
    transfer::Layout,
    tree::Durability,
    trust::lifetime::Lifetime,
};

/// Moves file trees between two peers dialed by PeerId: encrypted, verified, resumable.
#[derive(Debug, Parser)]
#[command(name = "ketch", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Folder with this node's identity and offers [default: ketch in the XDG state folder]
    #[arg(long, global = true, value_name = "DIR", env = "KETCH_STATE")]
    pub(crate) state: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "\
Exit codes, the same on both ends:
  0    everything is stored and verified
  1    failed
  2    the command line makes no sense
  3    the peer cannot be reached, or refused
  4    partial: some entries could not be read or written; each is named
  5    stopped by a guard: no space, or a target that cannot be written
  130  interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Offer files and directories to whoever holds the ticket it prints
    Send(Send),
    /// Fetch what a ticket offers
    Receive(Receive),
    /// Print who this node is
    Id(Id),
    /// Measure round trips to a peer
    Ping(Ping),
    /// Show it at work: two nodes on this machine, a real tree, both transports
    Demo(Demo),
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// Files and directories; each arrives under its own last name
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Admit this peer only
    #[arg(long, value_name = "PEERID")]
    pub(crate) to: Option<PeerId>,

    /// Also write the ticket to a file that only you can read
    #[arg(long, value_name = "FILE")]
    pub(crate) ticket_file: Option<PathBuf>,

    /// Listen here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// Offer over this transport only: quic or tcp
    #[arg(long, value_name = "quic|tcp")]
    pub(crate) transport: Option<TransportKind>,

    /// How files are laid on streams
    #[arg(long, value_enum, default_value_t = LayoutName::Bundle)]
    pub(crate) layout: LayoutName,

    /// How many receivers may fetch it [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) uses: Option<u32>,

    /// How long the offer stands: 90s, 15m, 1h, 7d or never [default: 24h]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Lifetime>,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The ticket; @FILE reads it from a file, - from standard input
    #[arg(value_name = "TICKET|@FILE|-")]
    pub(crate) ticket: String,

    /// Where to store it; made if missing
    #[arg(value_name = "DEST", default_value = ".")]
    pub(crate) destination: PathBuf,

    /// Use this transport only: quic or tcp
    #[arg(long, value_name = "quic|tcp")]
    pub(crate) transport: Option<TransportKind>,

    /// Replace files that exist and differ; without it they are kept and named
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// What must survive a power cut when it exits
    #[arg(long, value_enum, default_value_t = DurabilityName::Session)]
    pub(crate) durability: DurabilityName,

    /// Do not ask before storing
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Id {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw the PeerId as a QR code
    #[arg(long, conflicts_with = "json")]
    pub(crate) qr: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Ping {
    /// An address that ends in /p2p/PEERID
    #[arg(value_name = "ADDR/p2p/PEERID")]
    pub(crate) address: Multiaddr,

    /// Round trips to measure
    #[arg(long, short, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Send this directory instead of a generated one
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// Files back to back on a few streams
    Bundle,
    /// A stream for each file
    Files,
}

impl From<LayoutName> for Layout {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Bundle => Self::Bundle,
            LayoutName::Files => Self::Files,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityName {
    /// Leave it to the system
    None,
    /// Everything, synced once at the end
    Session,
    /// Each file before its name appears
    File,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Self {
        match name {
            DurabilityName::None => Self::None,
            DurabilityName::Session => Self::Session,
            DurabilityName::File => Self::File,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_state_folder_may_be_named_before_or_after_the_command() {
        for line in [["ketch", "--state", "/s", "id"], ["ketch", "id", "--state", "/s"]] {
            let arguments = Arguments::try_parse_from(line).unwrap();
            assert_eq!(arguments.state, Some(PathBuf::from("/s")));
        }
    }
}
