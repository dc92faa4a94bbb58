//! ketch: `send` is the server, `receive` is timed.

use std::{net::IpAddr, process::Command};

use super::{Ends, Ready, Server, Setup};
use crate::tools::error::ToolsError;

/// Offers the source over one transport. A session's state stays in its own folder, so that an earlier one
/// of another observation is never resumed.
pub(super) fn send(setup: &Setup, transport: &str, layout: &str) -> Result<Server, ToolsError> {
    let mut command = ketch(setup, "sender");
    command.args(["send", "--new", "--json", "--layout", layout, "--listen"]);
    command.arg(listen_address(setup.address, transport)).arg(&setup.source);
    Ok(Server { command, ready: Ready::Says(ticket), ends: Ends::Itself })
}

pub(super) fn receive(setup: &Setup, ticket: &str, durability: &str) -> Result<Vec<Command>, ToolsError> {
    let mut command = ketch(setup, "receiver");
    command.args(["receive", "--yes", "--durability", durability, ticket]).arg(&setup.target);
    if setup.again {
        command.arg("--overwrite");
    }
    Ok(vec![command])
}

fn ketch(setup: &Setup, end: &str) -> Command {
    let mut command = Command::new(&setup.ketch);
    command.arg("--state").arg(setup.scratch.join("ketch").join(end));
    command
}

fn listen_address(address: IpAddr, transport: &str) -> String {
    let family = if address.is_ipv4() { "ip4" } else { "ip6" };
    let port = if transport == "quic" { "udp/0/quic-v1" } else { "tcp/0" };
    format!("/{family}/{address}/{port}")
}

/// The ticket in the events that `send` prints, one JSON object a line.
fn ticket(said: &str) -> Option<String> {
    let whole_lines = said.rsplit_once('\n')?.0.lines();
    let events = whole_lines.filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    events.filter_map(|event| Some(event.get("ticket")?.as_str()?.to_owned())).next()
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
    fn the_transport_is_chosen_by_where_the_sender_listens() {
        assert_eq!(listen_address("127.0.0.1".parse().unwrap(), "tcp"), "/ip4/127.0.0.1/tcp/0");
        assert_eq!(listen_address("fd00::1".parse().unwrap(), "quic"), "/ip6/fd00::1/udp/0/quic-v1");
    }
}
