//! `ketch receive`.

use std::{
    io::{self, IsTerminal as _},
    sync::Arc,
};

use ketch::{
    index::Indexes,
    introduction::given_ticket,
    state::StateFolder,
    swarm::{DialRequest, Node},
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
    reach::{self, Memory, dialing_options},
    send::{EVENTS, show_while},
    stop_on_signal,
};

pub(super) async fn run(command: args::Receive, state: &StateFolder) -> anyhow::Result<Exit> {
    let told = Told::read(&command.told, &command.at)?;
    let stop = stop_on_signal()?;
    let known = told.addresses(&command.at);
    let options = dialing_options(state, &command.channel, &command.reach, &known, command.transport)?;
    let (node, mut inbound) = Node::start(load_identity(state)?, options).await?;
    let ticket = ticket(&command, told, &node, &stop).await?;
    let (events, mut shown) = mpsc::channel(EVENTS);
    let mut output = Output::new(Side::Receiver, command.json);
    let said = ticket.addresses().iter().cloned();
    let reach = reach::request(state, ticket.peer(), said, command.transport, &command.reach)?;
    let request = request(&command, ticket, reach, open_indexes(state));
    let mut memory = Memory::new(state);
    let receiving = transfer::receive(&node, &mut inbound, request, &events, &stop);
    let ended = show_while(receiving, &mut shown, |event| {
        output.show(&event);
        memory.see(&event);
        if let Event::Consult(consultation) = event {
            consent::ask(&output, consultation);
        }
    })
    .await;
    memory.keep(ended.as_ref().ok());
    let exit = output.finish(ended.map_err(anyhow::Error::from));
    node.shutdown().await;
    exit
}

fn request(
    command: &args::Receive,
    ticket: Ticket,
    reach: DialRequest,
    indexes: Arc<Indexes>,
) -> ReceiveRequest {
    let ask = !command.yes && !command.json && io::stdin().is_terminal() && io::stderr().is_terminal();
    ReceiveRequest {
        ticket,
        destination: command.destination.clone(),
        options: tree::Options {
            handling: tree::Handling::receiving(command.overwrite),
            durability: command.durability.into(),
        },
        hashes: if command.checksum { Hashes::Read } else { Hashes::Known },
        reach,
        over_relay: command.relay,
        connections: command.connections,
        consent: if ask { Consent::Pending } else { Consent::Given },
        retry_for: command.retry_for,
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
