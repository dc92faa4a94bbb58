//! `ketch receive`.

use std::{
    io::{self, IsTerminal as _, Read as _},
    sync::Arc,
};

use anyhow::Context as _;
use ketch::{
    index::Indexes,
    state::StateFolder,
    swarm::{Node, NodeOptions},
    transfer::{self, Event, ReceiveRequest},
    tree,
    trust::{Ticket, ticket::TICKET_CHARACTERS},
};
use ketch_protocol::message::{Consent, Hashes};
use tokio::sync::mpsc;

use super::{
    args, consent,
    exit::{Exit, Usage},
    load_identity, open_indexes,
    output::{Output, Side},
    send::{EVENTS, show_while},
    stop_on_signal,
};

pub(super) async fn run(command: args::Receive, state: &StateFolder) -> anyhow::Result<Exit> {
    let ticket = read_ticket(&command.ticket)?;
    let stop = stop_on_signal()?;
    let options = NodeOptions { settings: command.channel.settings(), ..NodeOptions::default() };
    let (node, mut inbound) = Node::start(load_identity(state)?, options).await?;
    let (events, mut shown) = mpsc::channel(EVENTS);
    let mut output = Output::new(Side::Receiver, command.json);
    let request = request(&command, ticket, open_indexes(state));
    let receiving = transfer::receive(&node, &mut inbound, request, &events, &stop);
    let ended = show_while(receiving, &mut shown, |event| {
        output.show(&event);
        if let Event::Consult(consultation) = event {
            consent::ask(&output, consultation);
        }
    })
    .await;
    let exit = output.finish(ended.map_err(anyhow::Error::from));
    node.shutdown().await;
    exit
}

fn request(command: &args::Receive, ticket: Ticket, indexes: Arc<Indexes>) -> ReceiveRequest {
    let ask = !command.yes && !command.json && io::stdin().is_terminal() && io::stderr().is_terminal();
    ReceiveRequest {
        ticket,
        destination: command.destination.clone(),
        options: tree::Options {
            handling: tree::Handling::receiving(command.overwrite),
            durability: command.durability.into(),
        },
        hashes: if command.checksum { Hashes::Read } else { Hashes::Known },
        transport: command.transport,
        connections: command.connections,
        consent: if ask { Consent::Pending } else { Consent::Given },
        retry_for: command.retry_for,
        indexes,
    }
}

/// The ticket itself, from a file, or from standard input, where no other user sees it.
fn read_ticket(argument: &str) -> anyhow::Result<Ticket> {
    let text = match argument.strip_prefix('@') {
        Some(file) => {
            let opened =
                std::fs::File::open(file).with_context(|| format!("reading the ticket from {file}"))?;
            read_bounded(opened).with_context(|| format!("reading the ticket from {file}"))?
        }
        None if argument == "-" => read_bounded(io::stdin().lock()).context("reading the ticket")?,
        None => argument.to_owned(),
    };
    let parsed: Result<Ticket, _> = text.parse();
    parsed.map_err(|error| {
        let hint = Some("copy the whole line that `ketch send` printed, or use @FILE or -");
        Usage { message: error.to_string(), hint }.into()
    })
}

fn read_bounded(reader: impl io::Read) -> io::Result<String> {
    let mut text = String::new();
    reader.take(TICKET_CHARACTERS as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}
