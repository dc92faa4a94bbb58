//! The arguments of `ketch pair`.

use clap::Args;
use ketch::{
    swarm::Multiaddr,
    trust::{PeerName, lifetime::Lifetime},
};

use super::ReachOptions;

#[derive(Debug, Args)]
pub(crate) struct Pair {
    /// The ticket or the code that the other side printed; without it, this side prints one and waits
    #[arg(value_name = "TICKET|CODE|@FILE|-")]
    pub(crate) told: Option<String>,

    /// Print a short code that can be said instead of a ticket
    #[arg(long, conflicts_with = "told")]
    pub(crate) code: bool,

    /// Where a code is waited for, as it is printed there; may be given several times
    #[arg(long, value_name = "ADDR/p2p/PEERID", requires = "told")]
    pub(crate) at: Vec<Multiaddr>,

    /// What to call the other side here [default: what it calls itself]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<PeerName>,

    /// What this side calls itself [default: the name of this machine]
    #[arg(long = "as", value_name = "NAME")]
    pub(crate) own_name: Option<PeerName>,

    /// Where `ketch serve` can be reached on this side, instead of this machine's addresses at its usual port; may be
    /// given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) address: Vec<Multiaddr>,

    #[command(flatten)]
    pub(crate) reach: ReachOptions,

    /// Wait here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// How long to wait: 90s, 15m, 1h, 7d or never [default: 1h]
    #[arg(long, value_name = "TIME", conflicts_with = "told")]
    pub(crate) expires: Option<Lifetime>,

    /// Do not ask for a name
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Print events as one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}
