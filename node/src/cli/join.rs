//! What a person was told by the other side: a ticket or a code, and the way from a code to whoever made it.

use std::io::{self, Read as _};

use anyhow::Context as _;
use ketch::{
    introduction::{self, AtRelays, Direct, Found, Introduced, Joining, Meeting, OnLan},
    swarm::{Multiaddr, Node, address::split_peer},
    trust::{Code, Ticket, invitation::Password, ticket::TICKET_CHARACTERS},
};
use ketch_protocol::introduction::Purpose;
use tokio_util::sync::CancellationToken;

use super::{
    exit::{Interrupted, Usage},
    output::print_line,
};

/// What one side prints and the other one is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Ticket(Ticket),
    Code(Code),
}

impl Told {
    /// Reads it from an argument, from a file, or from standard input, where no other user sees it. `at` is where a code
    /// is looked for.
    pub(super) fn read(argument: &str, at: &[Multiaddr]) -> anyhow::Result<Self> {
        let text = match argument.strip_prefix('@') {
            Some(file) => {
                let opened =
                    std::fs::File::open(file).with_context(|| format!("reading the ticket from {file}"))?;
                read_bounded(opened).with_context(|| format!("reading the ticket from {file}"))?
            }
            None if argument == "-" => read_bounded(io::stdin().lock()).context("reading the ticket")?,
            None => argument.to_owned(),
        };
        let parsed = match Code::is_meant_by(&text) {
            true => text.parse().map(Self::Code).map_err(|error| (error.to_string(), None)),
            false => text.parse().map(Self::Ticket).map_err(|error| {
                let hint = "copy the whole line that the other side printed, or use @FILE or -";
                (error.to_string(), Some(hint))
            }),
        };
        let told = parsed.map_err(|(message, hint)| Usage { message, hint })?;
        told.fits(at)?;
        Ok(told)
    }

    fn fits(&self, at: &[Multiaddr]) -> Result<(), Usage> {
        match self {
            Self::Ticket(_) if !at.is_empty() => Err(Usage {
                message: "--at goes with a code; a ticket has addresses of its own".into(),
                hint: None,
            }),
            Self::Ticket(_) | Self::Code(_) => Ok(()),
        }
    }

    /// Where whoever made it may be; `at` is where a code is looked for.
    pub(super) fn addresses(&self, at: &[Multiaddr]) -> Vec<Multiaddr> {
        match self {
            Self::Ticket(ticket) => ticket.addresses().to_vec(),
            Self::Code(_) => at.to_vec(),
        }
    }

    /// What both sides know.
    pub(super) fn password(&self) -> Password {
        match self {
            Self::Ticket(ticket) => Password::Ticket(*ticket.secret()),
            Self::Code(code) => Password::Code(*code),
        }
    }
}

fn read_bounded(reader: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    reader.take(TICKET_CHARACTERS as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

/// Gets introduced by whoever made the code or ticket; `says` is for that side alone.
pub(super) async fn join(
    node: &Node,
    told: &Told,
    at: &[Multiaddr],
    purpose: Purpose,
    says: Vec<u8>,
    stop: &CancellationToken,
) -> anyhow::Result<Introduced> {
    let joined = async {
        let found = find(node, told, at).await?;
        let password = told.password();
        Ok(introduction::join(node, &Joining { password: &password, purpose, says }, found).await?)
    };
    tokio::select! {
        joined = joined => joined,
        () = stop.cancelled() => Err(Interrupted.into()),
    }
}

/// Who may have made it.
async fn find(node: &Node, told: &Told, at: &[Multiaddr]) -> anyhow::Result<Vec<Found>> {
    let code = match told {
        Told::Ticket(ticket) => {
            return Ok(vec![Found { peer: ticket.peer(), addresses: ticket.addresses().to_vec() }]);
        }
        Told::Code(code) => code,
    };
    let places = places(node, at)?;
    if places.is_empty() {
        return Err(nowhere().into());
    }
    let (found, unavailable) = introduction::find(&places, code.nameplate()).await;
    unavailable.iter().for_each(|error| print_line(&format!("warning: {error}")));
    Ok(found)
}

fn nowhere() -> Usage {
    Usage {
        message: "a code does not say where its maker is, and there is no place to ask".into(),
        hint: Some(
            "leave out --no-lan where both are on one LAN, name with --relay-at a relay that the other side has too, or \
             say with --at ADDR/p2p/PEERID where it is, as it is printed beside the code",
        ),
    }
}

/// Where a code is looked for: where it was said to be, or else wherever this node meets others.
fn places(node: &Node, at: &[Multiaddr]) -> anyhow::Result<Vec<Box<dyn Meeting>>> {
    if at.is_empty() {
        return Ok(wherever(node));
    }
    let named = at.iter().map(|address| {
        let (peer, address) = split_peer(address.clone()).ok_or_else(|| Usage {
            message: format!("--at {address} does not say whom to expect: it must end in /p2p/PEERID"),
            hint: Some("the side that made the code prints its addresses beside it"),
        })?;
        Ok(Found { peer, addresses: vec![address] })
    });
    let direct = Direct(named.collect::<Result<Vec<_>, Usage>>()?);
    Ok(vec![Box::new(direct)])
}

/// Where a node meets others that know a code's number alone.
pub(super) fn wherever(node: &Node) -> Vec<Box<dyn Meeting>> {
    let mut places = Vec::<Box<dyn Meeting>>::new();
    if let Some(relays) = AtRelays::of(node) {
        places.push(Box::new(relays));
    }
    if let Some(lan) = OnLan::of(node) {
        places.push(Box::new(lan));
    }
    places
}
