//! ketch: `send` is the server and `receive` is timed, or `serve` and `sync`.

use std::{ffi::OsString, net::IpAddr, process::Command};

use serde_json::Value;

use super::{Durability, Ends, Ketch, Ready, Server, Setup};
use crate::tools::{error::ToolsError, process::run};

/// Offers the source over one transport. A session's state stays in its own folder, so that an earlier one
/// of another observation is never resumed.
pub(super) fn send(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = ketch(setup, "sender");
    command.args(["send", "--new", "--json", "--layout", setup.adapter.ketch.layout]).args(channel(setup));
    command.arg("--listen").arg(listen_address(setup)).arg(&setup.source);
    Ok(Server { command, ready: Ready::Says(ticket), ends: Ends::Itself })
}

pub(super) fn receive(setup: &Setup, ticket: &str) -> Result<Vec<Command>, ToolsError> {
    let mut command = ketch(setup, "receiver");
    command.args(["receive", "--yes", "--durability", durability(setup)]).args(channel(setup));
    command.args(connections(setup)).arg(ticket).arg(&setup.target);
    if setup.again {
        command.arg("--overwrite");
    }
    Ok(vec![command])
}

/// Lets the receiver's identity read the source.
pub(super) fn serve(setup: &Setup) -> Result<Server, ToolsError> {
    let said = run(ketch(setup, "receiver").args(["id", "--json"]))?;
    let reader = first_event(&said, |event| Some(event.get("peer_id")?.as_str()?.to_owned()));
    let mut share = OsString::from("tree=");
    share.push(&setup.source);
    let mut command = ketch(setup, "sender");
    command.args(["serve", "--json", "--allow", &format!("{}=tree:read", reader.unwrap_or_default())]);
    command.args(channel(setup)).arg("--listen").arg(listen_address(setup)).arg("--share").arg(share);
    Ok(Server { command, ready: Ready::Says(served_address), ends: Ends::Told })
}

/// `address` ends in the PeerId of the server.
pub(super) fn sync(setup: &Setup, address: &str) -> Result<Vec<Command>, ToolsError> {
    let peer = address.rsplit('/').next().unwrap_or_default();
    let mut command = ketch(setup, "receiver");
    command.args(["sync", "--delete", "--address", address, "--durability", durability(setup)]);
    command.args(channel(setup)).args(connections(setup));
    command.arg(format!("{peer}:tree")).arg(setup.copy());
    Ok(vec![command])
}

fn ketch(setup: &Setup, end: &str) -> Command {
    let mut command = Command::new(&setup.ketch);
    command.arg("--state").arg(setup.scratch.join("ketch").join(end));
    command
}

fn durability(setup: &Setup) -> &'static str {
    match setup.adapter.durability {
        Durability::None => "none",
        Durability::Session => "session",
        Durability::File => "file",
    }
}

/// For both ends: each sends with its own controller, and receives into its own buffers.
fn channel(setup: &Setup) -> impl Iterator<Item = &'static str> {
    let Ketch { controller, udp_buffers, .. } = setup.adapter.ketch;
    let options = [("--controller", controller), ("--udp-buffers", udp_buffers)];
    options.into_iter().filter_map(|(option, value)| Some([option, value?])).flatten()
}

fn connections(setup: &Setup) -> impl Iterator<Item = &'static str> {
    setup.adapter.ketch.connections.into_iter().flat_map(|count| ["--connections", count])
}

fn listen_address(setup: &Setup) -> String {
    multiaddr(setup.address, setup.adapter.ketch.transport)
}

fn multiaddr(address: IpAddr, transport: &str) -> String {
    let family = if address.is_ipv4() { "ip4" } else { "ip6" };
    let port = if transport == "quic" { "udp/0/quic-v1" } else { "tcp/0" };
    format!("/{family}/{address}/{port}")
}

/// The ticket in the events that `send` prints.
fn ticket(said: &str) -> Option<String> {
    first_event(said, |event| Some(event.get("ticket")?.as_str()?.to_owned()))
}

/// Where `serve` can be dialed, with its PeerId.
fn served_address(said: &str) -> Option<String> {
    first_event(said, |event| {
        let address = event.get("addresses")?.get(0)?.as_str()?;
        Some(format!("{address}/p2p/{}", event.get("peer_id")?.as_str()?))
    })
}

/// What is found in the first event that has it, of those in whole lines; there is one JSON object a line.
fn first_event(said: &str, found: impl Fn(&Value) -> Option<String>) -> Option<String> {
    let whole_lines = said.rsplit_once('\n')?.0.lines();
    let events = whole_lines.filter_map(|line| serde_json::from_str(line).ok());
    events.filter_map(|event| found(&event)).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticket_is_read_from_whole_lines_only() {
        assert_eq!(ticket(""), None);
        assert_eq!(ticket("{\"event\":\"offer\",\"ticket\":\"abc\"}"), None);
        assert_eq!(ticket("a warning\n{\"event\":\"offer\",\"ticket\":\"abc\"}\n{").as_deref(), Some("abc"));
    }

    #[test]
    fn a_server_is_dialed_where_it_says_it_listens() {
        let said = "{\"event\":\"serving\",\"peer_id\":\"12D\",\"addresses\":[\"/ip4/127.0.0.1/tcp/1\"]}\n";
        assert_eq!(served_address(said).as_deref(), Some("/ip4/127.0.0.1/tcp/1/p2p/12D"));
        assert_eq!(served_address("{\"event\":\"serving\",\"addresses\":[]}\n"), None);
    }

    #[test]
    fn the_transport_is_chosen_by_where_the_sender_listens() {
        assert_eq!(multiaddr("127.0.0.1".parse().unwrap(), "tcp"), "/ip4/127.0.0.1/tcp/0");
        assert_eq!(multiaddr("fd00::1".parse().unwrap(), "quic"), "/ip6/fd00::1/udp/0/quic-v1");
    }
}
