//! `ketch receive`.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use ketch::{
    index::Indexes,
    introduction::given_ticket,
    state::StateFolder,
    swarm::{Node, NodeOptions},
    transfer::{self, Event, ReceiveRequest},
    tree,
    trust::Ticket,
};
use ketch_protocol::{
    introduction::Purpose,
    message::{Consent, Hashes},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    args, consent,
    exit::Exit,
    join::{Told, join},
    load_identity, open_indexes,
    output::{Output, Side},
    send::{EVENTS, show_while},
    stop_on_signal,
};

pub(super) async fn run(command: args::Receive, state: &StateFolder) -> anyhow::Result<Exit> {
    let told = Told::read(&command.told, &command.at)?;
    let stop = stop_on_signal()?;
    let options = NodeOptions { settings: command.channel.settings(), ..NodeOptions::default() };
    let (node, mut inbound) = Node::start(load_identity(state)?, options).await?;
    let ticket = ticket(&command, told, &node, &stop).await?;
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
        indexes,
    }
}

/// The ticket, from whoever made the code if it is one.
async fn ticket(
    command: &args::Receive,
    told: Told,
    node: &Node,
    stop: &CancellationToken,
) -> anyhow::Result<Ticket> {
    match told {
        Told::Ticket(ticket) => Ok(ticket),
        Told::Code(_) => {
            let introduced = join(node, &told, &command.at, Purpose::Fetch, Vec::new(), stop).await?;
            Ok(given_ticket(&introduced)?)
        }
    }
}
