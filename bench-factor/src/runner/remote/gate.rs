//! The data port of a host: closed to everybody, or open to one peer, by nftables.
//!
//! A table of our own drops what comes to the port from anybody but the peer. As every chain of a hook has to let a packet
//! pass, no table of ours could open what another one closes; so a rule that accepts the peer goes in front of every other
//! filter of what comes in. [`Gate::remove`] takes all of it away again, and so does the next [`Gate::close`] where a
//! process was killed before it could.

use std::{
    io::Write as _,
    net::IpAddr,
    process::{Command, Stdio},
};

use serde::Deserialize;

use crate::{
    study::PORT,
    tools::{installed, process::tail},
};

/// What the source listens on, and the echo of probes.
const PORTS: [u16; 2] = [PORT, super::ECHO_PORT];

/// Our table. The family `inet` sees both IPv4 and IPv6.
const TABLE: &str = "inet bench_factor";

/// The comment of our rules in chains of others.
const COMMENT: &str = "bench-factor";

/// Whether the port is guarded here.
#[derive(Debug)]
pub(super) enum Gate {
    Guarded,
    /// It is as it was found, for this reason.
    Unguarded(String),
}

impl Gate {
    /// Closes the port to everybody.
    pub(super) fn close() -> Self {
        let closed = if rustix::process::getuid().is_root() {
            sweep().and_then(|swept| change(&(swept + &table(None))))
        } else {
            Err("changing that takes root".into())
        };
        match closed {
            Ok(()) => Self::Guarded,
            Err(why) => Self::Unguarded(why),
        }
    }

    /// Opens it to `peer`, or closes it again.
    pub(super) fn admit(&self, peer: Option<IpAddr>) -> Result<(), String> {
        match self {
            Self::Unguarded(_) => Ok(()),
            Self::Guarded => {
                let foreign = peer.map(|peer| Ok::<_, String>(accepting(&chains(&list()?)?, peer)));
                let own = table(peer.map(from).as_deref());
                change(&(sweep()? + &own + &foreign.transpose()?.unwrap_or_default()))
            }
        }
    }

    /// Takes all our rules away.
    pub(super) fn remove(&self) -> Result<(), String> {
        match self {
            Self::Unguarded(_) => Ok(()),
            Self::Guarded => change(&(sweep()? + &without_table())),
        }
    }

    /// Why the port is not guarded.
    pub(super) fn unguarded(&self) -> Option<&str> {
        match self {
            Self::Guarded => None,
            Self::Unguarded(why) => Some(why),
        }
    }
}

/// What makes our table, which accepts what is `from` somebody; one that is there is replaced in the same step.
pub(super) fn table(from: Option<&str>) -> String {
    let ports = ports();
    let accept = from.map(|from| format!("    {from} {ports} accept\n")).unwrap_or_default();
    format!(
        "{}table {TABLE} {{\n  chain input {{\n    type filter hook input priority -5; policy accept;\n\
         {accept}    {ports} drop\n  }}\n}}\n",
        without_table()
    )
}

/// What removes our table, whether it is there or not.
fn without_table() -> String {
    format!("table {TABLE}\ndelete table {TABLE}\n")
}

fn ports() -> String {
    let [data, echo] = PORTS;
    format!("meta l4proto {{ tcp, udp }} th dport {{ {data}, {echo} }}")
}

/// What is from `peer`, as nft says it.
pub(super) fn from(peer: IpAddr) -> String {
    match peer {
        IpAddr::V4(peer) => format!("ip saddr {peer}"),
        IpAddr::V6(peer) => format!("ip6 saddr {peer}"),
    }
}

/// What lets `peer` through the filters of others.
fn accepting(chains: &[Chain], peer: IpAddr) -> String {
    let own_family = if peer.is_ipv4() { "ip" } else { "ip6" };
    let others = chains.iter().filter(|chain| chain.filters_input() && !chain.is_ours());
    let seeing = others.filter(|chain| chain.family == "inet" || chain.family == own_family);
    let from = from(peer);
    seeing.map(|Chain { family, table, name, .. }| insertion(&from, family, table, name)).collect()
}

/// What accepts what is `from` somebody in front of all other rules of a chain.
pub(super) fn insertion(from: &str, family: &str, table: &str, chain: &str) -> String {
    let ports = ports();
    format!("insert rule {family} {table} {chain} {from} {ports} accept comment \"{COMMENT}\"\n")
}

/// What removes our rules from the chains of others.
fn sweep() -> Result<String, String> {
    let delete = |rule: Rule| {
        let Rule { family, table, chain, handle, .. } = rule;
        format!("delete rule {family} {table} {chain} handle {handle}\n")
    };
    Ok(our_rules(&list()?)?.into_iter().map(delete).collect())
}

/// The kernel's rules, as JSON (libnftables-json(5)).
fn list() -> Result<String, String> {
    let output = Command::new(nft()?).args(["-j", "-a", "list", "ruleset"]).output();
    let output = output.map_err(|error| format!("cannot start nft: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(refused(&text(&output.stderr))) }
}

/// Does all of `script` at once, or nothing.
fn change(script: &str) -> Result<(), String> {
    let mut command = Command::new(nft()?);
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = || {
        let mut child = command.spawn()?;
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(script.as_bytes()));
        let output = child.wait_with_output()?;
        written.map(|()| output)
    };
    let output = run().map_err(|error| format!("cannot run nft: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(refused(&String::from_utf8_lossy(&output.stderr))),
    }
}

fn nft() -> Result<std::path::PathBuf, String> {
    installed::find("nft").ok_or_else(|| "nft is not installed".into())
}

fn refused(said: &str) -> String {
    format!("nft refuses: {}", tail(said))
}

/// What nft lists; of each object one member says what it is.
#[derive(Debug, Deserialize)]
struct Ruleset {
    nftables: Vec<Listed>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Listed {
    chain: Option<Chain>,
    rule: Option<Rule>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Chain {
    family: String,
    table: String,
    name: String,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    hook: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Rule {
    family: String,
    table: String,
    chain: String,
    handle: u64,
    #[serde(default)]
    comment: Option<String>,
}

impl Chain {
    fn filters_input(&self) -> bool {
        self.kind.as_deref() == Some("filter") && self.hook.as_deref() == Some("input")
    }

    fn is_ours(&self) -> bool {
        format!("{} {}", self.family, self.table) == TABLE
    }
}

fn chains(listed: &str) -> Result<Vec<Chain>, String> {
    Ok(parse(listed)?.into_iter().filter_map(|listed| listed.chain).collect())
}

fn our_rules(listed: &str) -> Result<Vec<Rule>, String> {
    let rules = parse(listed)?.into_iter().filter_map(|listed| listed.rule);
    Ok(rules.filter(|rule| rule.comment.as_deref() == Some(COMMENT)).collect())
}

fn parse(listed: &str) -> Result<Vec<Listed>, String> {
    let parsed = serde_json::from_str::<Ruleset>(listed);
    Ok(parsed.map_err(|error| format!("nft lists what cannot be read: {error}"))?.nftables)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
        {"table": {"family": "inet", "name": "bench_factor", "handle": 2}},
        {"chain": {"family": "inet", "table": "bench_factor", "name": "input", "handle": 1, "type": "filter",
            "hook": "input", "prio": -5, "policy": "accept"}},
        {"chain": {"family": "inet", "table": "filter", "name": "in", "handle": 1, "type": "filter", "hook": "input",
            "prio": 0, "policy": "drop"}},
        {"chain": {"family": "ip6", "table": "six", "name": "in", "handle": 1, "type": "filter", "hook": "input"}},
        {"chain": {"family": "ip", "table": "nat", "name": "out", "type": "nat", "hook": "output"}},
        {"chain": {"family": "inet", "table": "filter", "name": "jumped-to", "handle": 4}},
        {"rule": {"family": "inet", "table": "filter", "chain": "in", "handle": 5, "comment": "bench-factor",
            "expr": [{"accept": null}]}},
        {"rule": {"family": "inet", "table": "filter", "chain": "in", "handle": 6, "expr": []}}]}"#;

    #[test]
    fn a_peer_is_let_through_the_filters_of_its_family_alone() {
        let chains = chains(LISTED).unwrap();
        let four = accepting(&chains, "192.0.2.7".parse().unwrap());
        assert_eq!(
            four,
            "insert rule inet filter in ip saddr 192.0.2.7 meta l4proto { tcp, udp } th dport \
             { 32943, 32944 } accept comment \"bench-factor\"\n"
        );
        let six = accepting(&chains, "2001:db8::7".parse().unwrap());
        assert_eq!(six.lines().count(), 2);
        assert!(six.contains("insert rule ip6 six in ip6 saddr 2001:db8::7"), "{six}");
    }

    #[test]
    fn our_rules_are_known_by_their_comment() {
        let handles: Vec<_> = our_rules(LISTED).unwrap().iter().map(|rule| rule.handle).collect();
        assert_eq!(handles, [5]);
        assert!(our_rules("{").unwrap_err().starts_with("nft lists what cannot be read"));
    }

    #[test]
    fn a_closed_port_drops_all_and_an_open_one_all_but_the_peer() {
        let (closed, open) = (table(None), table(Some("ip saddr 192.0.2.7")));
        let rules = |text: &str| text.lines().filter(|line| line.contains("dport")).count();
        assert_eq!((rules(&closed), rules(&open)), (1, 2));
        assert!(open.find("192.0.2.7").unwrap() < open.find(" drop").unwrap(), "{open}");
    }
}
