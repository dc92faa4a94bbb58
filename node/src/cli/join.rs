//! What a person was told by the other side: a ticket or a code, and the way from a code to whoever made it.

use std::io::{self, Read as _};

use anyhow::Context as _;
use ketch::{
    introduction::{self, Direct, Found, Introduced, Joining, Meeting},
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
            Self::Code(_) if at.is_empty() => Err(Usage {
                message: "a code does not say where its maker is".into(),
                hint: Some("--at ADDR/p2p/PEERID says it, as it is printed beside the code"),
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
        let found = find(told, at).await?;
        let password = told.password();
        Ok(introduction::join(node, &Joining { password: &password, purpose, says }, found).await?)
    };
    tokio::select! {
        joined = joined => joined,
        () = stop.cancelled() => Err(Interrupted.into()),
    }
}

/// Who may have made it.
async fn find(told: &Told, at: &[Multiaddr]) -> anyhow::Result<Vec<Found>> {
    let code = match told {
        Told::Ticket(ticket) => {
            return Ok(vec![Found { peer: ticket.peer(), addresses: ticket.addresses().to_vec() }]);
        }
        Told::Code(code) => code,
    };
    let (found, unavailable) = introduction::find(&places(at)?, code.nameplate()).await;
    unavailable.iter().for_each(|error| print_line(&format!("warning: {error}")));
    Ok(found)
}

/// Where a code is looked for.
fn places(at: &[Multiaddr]) -> anyhow::Result<Vec<Box<dyn Meeting>>> {
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
