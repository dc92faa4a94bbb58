//! The command line as it is written; each command turns its part into what the library takes.

mod channel;
mod pair;
mod reach;
mod relay;
mod sync;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{
    Args, Parser, Subcommand, ValueEnum, builder::OsStringValueParser, builder::TypedValueParser as _,
};
use ketch::{
    swarm::{Multiaddr, PeerId, TransportKind},
    transfer::{ConnectionWish, Layout},
    tree::Durability,
    trust::{PeerName, PeerReference, Rights, lifetime::Lifetime},
};
use ketch_protocol::{
    message::{Connections, ConnectionsError, ShareName},
    path::escape,
};

pub(crate) use channel::ChannelOptions;
pub(crate) use pair::Pair;
pub(crate) use reach::ReachOptions;
pub(crate) use relay::{Relay, RouterOptions};
use sync::time;
pub(crate) use sync::{CompressionName, RuleOption, RuleOptions, Sync};

use super::endpoint::split_at_equals;

/// Moves file trees between two peers dialed by PeerId: encrypted, verified, resumable.
#[derive(Debug, Parser)]
#[command(name = "ketch", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    /// Folder with this node's identity, offers and address book [default: ketch in the XDG state folder]
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
  5    stopped by a guard: nothing there, no space, not to be written, too much to remove
  130  interrupted";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Offer files and directories to whoever holds the ticket it prints
    Send(Send),
    /// Fetch what a ticket offers
    Receive(Receive),
    /// Share directories with peers that may read, write or mirror them
    Serve(Serve),
    /// Make a directory the same as a shared one, or a shared one the same as a directory
    Sync(Box<Sync>),
    /// Take back the latest sync that a trash was kept for
    Undo(Undo),
    /// Get to know another node: each gets into the other one's address book
    Pair(Box<Pair>),
    /// Give peers names
    Peers(Peers),
    /// Print who this node is
    Id(Id),
    /// Measure round trips to a peer
    Ping(Ping),
    /// Help peers meet that cannot dial each other: what anyone can run on a public host
    Relay(Relay),
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

    /// Print a short code that can be said, for one receiver, instead of the ticket
    #[arg(long, conflicts_with_all = ["uses", "ticket_file"])]
    pub(crate) code: bool,

    /// Listen here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// Also name this address in the ticket, such as that of a router that passes the port on; may be given several
    /// times
    #[arg(long, value_name = "ADDR")]
    pub(crate) announce: Vec<Multiaddr>,

    /// Offer over this transport only: quic or tcp
    #[arg(long, value_name = "quic|tcp")]
    pub(crate) transport: Option<TransportKind>,

    /// How files are laid on streams
    #[arg(long, value_enum, default_value_t = LayoutName::Bundle)]
    pub(crate) layout: LayoutName,

    /// The most connections that one receiver may have, 1 to 16
    #[arg(long, value_name = "N", default_value_t = Connections::MOST)]
    pub(crate) connections: Connections,

    /// How many receivers may fetch it [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) uses: Option<u32>,

    /// Withdraw the ticket that an earlier run made for the same paths, and make another
    #[arg(long)]
    pub(crate) new: bool,

    /// How long the offer stands: 90s, 15m, 1h, 7d or never [default: 24h, of a code 1h]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Lifetime>,

    #[command(flatten)]
    pub(crate) reach: ReachOptions,

    #[command(flatten)]
    pub(crate) router: RouterOptions,

    #[command(flatten)]
    pub(crate) channel: ChannelOptions,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Receive {
    /// The ticket or the code; @FILE reads it from a file, - from standard input
    #[arg(value_name = "TICKET|CODE|@FILE|-")]
    pub(crate) told: String,

    /// Where to store it; made if missing
    #[arg(value_name = "DEST", default_value = ".")]
    pub(crate) destination: PathBuf,

    /// Where a code is waited for, as it is printed there; may be given several times
    #[arg(long, value_name = "ADDR/p2p/PEERID")]
    pub(crate) at: Vec<Multiaddr>,

    /// Use this transport only: quic or tcp
    #[arg(long, value_name = "quic|tcp")]
    pub(crate) transport: Option<TransportKind>,

    /// How many connections carry content, 1 to 16 or auto: 4 over TCP where a round trip takes 20 ms or more, else 1
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = connection_wish)]
    pub(crate) connections: ConnectionWish,

    /// How long to try again after a connection was lost
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub(crate) retry_for: Duration,

    /// Replace files that exist and differ; without it they are kept and named
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Compare files by their content, whatever is known of them
    #[arg(long)]
    pub(crate) checksum: bool,

    /// What must survive a power cut when it exits
    #[arg(long, value_enum, default_value_t = DurabilityName::Session)]
    pub(crate) durability: DurabilityName,

    /// Do not ask before storing
    #[arg(long, short)]
    pub(crate) yes: bool,

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

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Share this directory under this name; may be given several times
    #[arg(long, value_name = "NAME=PATH", value_parser = OsStringValueParser::new().try_map(share))]
    pub(crate) share: Vec<(ShareName, PathBuf)>,

    /// Let this peer read, write (add and change) or mirror (write and remove) this share; may be given
    /// several times
    #[arg(long, value_name = "PEER=NAME:RIGHT", value_parser = allowance)]
    pub(crate) allow: Vec<(PeerReference, ShareName, Rights)>,

    /// Shares, rights and addresses from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Listen here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// The most connections that one session may have, 1 to 16
    #[arg(long, value_name = "N", default_value_t = Connections::MOST)]
    pub(crate) connections: Connections,

    #[command(flatten)]
    pub(crate) reach: ReachOptions,

    #[command(flatten)]
    pub(crate) router: RouterOptions,

    #[command(flatten)]
    pub(crate) channel: ChannelOptions,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Undo {
    /// The folder that removed and replaced files went to
    #[arg(value_name = "TRASH")]
    pub(crate) trash: PathBuf,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Peers {
    #[command(subcommand)]
    pub(crate) action: PeersAction,
}

impl Peers {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.action {
            PeersAction::List { json } | PeersAction::Show { json, .. } => *json,
            PeersAction::Add { .. } | PeersAction::Remove { .. } => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum PeersAction {
    /// Give a peer a name, or more addresses
    Add {
        /// Letters, digits, ".", "_" and "-"
        #[arg(value_name = "NAME")]
        name: PeerName,
        /// As `ketch id` prints it there
        #[arg(value_name = "PEERID", value_parser = peer_id)]
        peer: PeerId,
        /// Where it can be reached
        #[arg(value_name = "ADDR")]
        addresses: Vec<Multiaddr>,
    },
    /// Show everybody, and where they were reached
    List {
        /// Print one JSON object for each
        #[arg(long)]
        json: bool,
    },
    /// Show one peer
    Show {
        /// A name of the address book, or a PeerId
        #[arg(value_name = "PEER")]
        peer: PeerReference,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Forget a peer, or some of its addresses
    Remove {
        /// A name of the address book, or a PeerId
        #[arg(value_name = "PEER")]
        peer: PeerReference,
        /// These addresses alone
        #[arg(value_name = "ADDR")]
        addresses: Vec<Multiaddr>,
    },
}

/// `auto`, or how many.
fn connection_wish(text: &str) -> Result<ConnectionWish, String> {
    if text == "auto" {
        return Ok(ConnectionWish::Auto);
    }
    let shown = |_: ConnectionsError| {
        format!("\"{}\" is no number from 1 to {}, nor \"auto\"", escape(text.as_bytes()), Connections::MOST)
    };
    text.parse().map(ConnectionWish::Exactly).map_err(shown)
}

fn share(argument: OsString) -> Result<(ShareName, PathBuf), String> {
    let shown = || format!("\"{}\" is no NAME=PATH", escape(argument.as_encoded_bytes()));
    let (name, path) = split_at_equals(&argument).filter(|(_, path)| !path.is_empty()).ok_or_else(shown)?;
    let name = ShareName::parse(name).map_err(|error| error.to_string())?;
    Ok((name, path.into()))
}

fn allowance(text: &str) -> Result<(PeerReference, ShareName, Rights), String> {
    let shown = || format!("\"{}\" is no PEER=NAME:RIGHT", escape(text.as_bytes()));
    let (peer, right) = text.split_once('=').ok_or_else(shown)?;
    let (share, rights) = right.rsplit_once(':').ok_or_else(shown)?;
    let peer = peer.parse::<PeerReference>().map_err(|error| error.to_string())?;
    let share = ShareName::parse(share).map_err(|error| error.to_string())?;
    let rights = rights.parse::<Rights>().map_err(|error| error.to_string())?;
    Ok((peer, share, rights))
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
    /// A name of the address book, a PeerId, or an address that ends in /p2p/PEERID
    #[arg(value_name = "PEER|ADDR/p2p/PEERID")]
    pub(crate) peer: String,

    /// Round trips to measure
    #[arg(long, short, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,

    #[command(flatten)]
    pub(crate) reach: ReachOptions,

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

fn peer_id(text: &str) -> Result<PeerId, String> {
    let no_peer = |error| {
        let text = escape(text.as_bytes());
        format!("\"{text}\" is no PeerId, which `ketch id` prints on that machine ({error})")
    };
    text.parse().map_err(no_peer)
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

    #[test]
    fn connections_are_a_number_or_left_to_the_path() {
        let four = ConnectionWish::Exactly(4.try_into().unwrap());
        assert_eq!((connection_wish("auto"), connection_wish("4")), (Ok(ConnectionWish::Auto), Ok(four)));
        for text in ["0", "17", "many", "", "\u{1b}"] {
            assert!(!connection_wish(text).unwrap_err().contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn a_share_has_a_name_and_a_path() {
        let named = |text: &str| share(text.into());
        assert_eq!(named("docs=/srv/a=b"), Ok((ShareName::parse("docs").unwrap(), "/srv/a=b".into())));
        for text in ["docs", "docs=", "=/srv", "a/b=/srv", "\u{1b}"] {
            assert!(!named(text).unwrap_err().contains('\u{1b}'), "{text}");
        }
    }

    #[test]
    fn a_right_is_given_to_a_peer_on_a_share() {
        let given = allowance("laptop=docs:read,write").unwrap();
        let (peer, rights) = ("laptop".parse().unwrap(), "read,write".parse().unwrap());
        assert_eq!(given, (peer, ShareName::parse("docs").unwrap(), rights));
        let peer = PeerId::random();
        assert_eq!(allowance(&format!("{peer}=docs:mirror")).unwrap().0, PeerReference::Id(peer));
        for text in ["", "laptop", "laptop=docs", "docs:read", "laptop=docs:all", "lap top=docs:read"] {
            assert!(allowance(text).is_err(), "{text}");
        }
    }
}
