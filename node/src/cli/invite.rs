//! The side that prints a code or a ticket and waits for the one who was told it.

use std::{
    convert::Infallible,
    io::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Context as _;
use ketch::{
    introduction::{self, Announced, Introduced, Inviting, Trouble},
    swarm::{Introductions, Multiaddr, Node, PeerId},
    trust::{Code, Invitation, Ticket},
};
use ketch_protocol::introduction::Purpose;
use tokio_util::sync::CancellationToken;

use super::{
    exit::Interrupted,
    join::{Told, wherever},
    json,
    output::{print_json, print_line, print_result},
};

/// Whoever waits, and how it tells of it.
pub(super) struct Waiting {
    inviting: Inviting,
    json: bool,
    stop: CancellationToken,
    /// What makes the code found.
    announced: Option<Announced>,
}

/// What is waited with, for what, and how long.
pub(super) struct Invite<'a> {
    pub(super) node: &'a Node,
    pub(super) introductions: Introductions,
    pub(super) purpose: Purpose,
    /// Where this side can be dialed, without its PeerId.
    pub(super) addresses: &'a [Multiaddr],
    pub(super) expires_s: Option<u64>,
    /// The command that the other side runs.
    pub(super) command: &'static str,
    pub(super) json: bool,
    pub(super) stop: &'a CancellationToken,
}

impl Invite<'_> {
    /// Makes a code, prints it and begins to wait.
    pub(super) async fn by_code(self) -> anyhow::Result<Waiting> {
        let announced = introduction::announce(&wherever(self.node)).await?;
        announced.unavailable.iter().for_each(|error| print_line(&format!("warning: {error}")));
        self.begin(&Told::Code(announced.code), Some(announced))
    }

    /// Makes a ticket, prints it and begins to wait.
    pub(super) fn by_ticket(self) -> anyhow::Result<Waiting> {
        let ticket = Ticket::draw(self.node.peer(), self.addresses.iter().cloned(), self.expires_s);
        self.begin(&Told::Ticket(ticket.context("making a ticket")?), None)
    }

    fn begin(self, told: &Told, announced: Option<Announced>) -> anyhow::Result<Waiting> {
        self.print(told).context("printing what the other side has to be told")?;
        let invitation = Invitation::new(told.password(), self.purpose, self.expires_s);
        let inviting = Inviting::new(self.node.peer(), self.introductions, invitation);
        Ok(Waiting { inviting, json: self.json, stop: self.stop.clone(), announced })
    }

    fn print(&self, told: &Told) -> std::io::Result<()> {
        let named = |address: &Multiaddr| format!("{address}/p2p/{}", self.node.peer());
        let addresses: Vec<_> = self.addresses.iter().map(named).collect();
        if self.json {
            print_json(&json::invited(told, &addresses, self.expires_s));
            return Ok(());
        }
        match told {
            Told::Ticket(ticket) => {
                print_line(&format!("the ticket; on the other machine: {} TICKET", self.command));
                print_result(&ticket.to_string());
            }
            Told::Code(code) => self.print_code(code, &addresses),
        }
        std::io::stdout().flush()
    }

    fn print_code(&self, code: &Code, addresses: &[String]) {
        let command = self.command;
        match found_where(self.node) {
            Some(place) => print_line(&format!(
                "the code, good for one try; on the other machine: {command} {code}\nthat finds this one {place}, or one of:"
            )),
            None => print_line("the code, good for one try; on the other machine one of:"),
        }
        for address in addresses {
            print_line(&format!("  {command} {code} --at {address}"));
        }
        print_result(&code.to_string());
    }
}

impl Waiting {
    /// Waits for the guest, who gets what `give` gives it. The same one may come again.
    pub(super) async fn guest(
        &mut self,
        give: impl FnMut(PeerId) -> Result<Vec<u8>, String>,
    ) -> anyhow::Result<Introduced> {
        let as_json = self.json;
        let introduced = tokio::select! {
            introduced = self.inviting.next(give, |peer, trouble| tell_turned_away(peer, trouble, as_json)) => introduced?,
            () = self.stop.cancelled() => return Err(Interrupted.into()),
        };
        match as_json {
            true => print_json(&json::introduced(introduced.peer())),
            false => print_line(&format!("introduced to {}", introduced.peer())),
        }
        Ok(introduced)
    }

    /// Lets nobody find the code any longer.
    pub(super) async fn end(self) {
        if let Some(announced) = self.announced {
            announced.withdraw().await;
        }
    }

    /// Gives the same guest the same once more, as often as it comes.
    pub(super) async fn again(&mut self, said: Vec<u8>) -> Infallible {
        while self.guest(|_| Ok(said.clone())).await.is_ok() {}
        // The node or the command is about to end.
        std::future::pending().await
    }
}

/// Where the code alone leads to its maker.
fn found_where(node: &Node) -> Option<&'static str> {
    match (node.is_on_lan(), node.knows_relays()) {
        (true, true) => Some("on the same LAN, and wherever it names one of the same relays"),
        (true, false) => Some("on the same LAN"),
        (false, true) => Some("where it names one of the same relays"),
        (false, false) => None,
    }
}

fn tell_turned_away(peer: PeerId, trouble: &Trouble, as_json: bool) {
    if as_json {
        return print_json(&json::turned_away(peer, &trouble.to_string()));
    }
    print_line(&format!("turned away {peer}: {trouble}"));
}

/// Seconds since 1970.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
