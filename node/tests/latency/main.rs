//! The whole node, with its disk, its threads and its hashes, over a wire in memory that does nothing but take its time:
//! how many round trips a copy takes. The wire is that of `bench-factor latency`; here it runs in real time, since threads
//! that read and write files do not wait for a clock that is stopped.

mod network;
mod wire;

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ketch::{
    index::Indexes,
    state::StateFolder,
    swarm::{Inbound, Keypair, Node, NodeOptions},
    transfer::{self, ConnectionWish, Event, Layout, OfferRequest, ReceiveRequest, Report},
    tree::{self, Durability, Handling, Source},
    trust::{self, HeldOffer, Offers},
};
use ketch_fixtures::{
    digest::{Options, digest},
    tree::Shape,
};
use ketch_protocol::{
    message::{Connections, Consent, Hashes},
    session::receiver::Answer,
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use self::network::{ADDRESS, Network};

/// So long that what a busy machine takes for everything else is no other one.
const ROUND_TRIP: Duration = Duration::from_millis(800);

/// A round trip that has to be waited for is there in every try; what a busy machine adds is not.
const TRIES: u32 = 3;

/// It only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(120);

/// What all files of a tree have together: one stream holds it at once.
const BYTES: u64 = 512 * 1024;

/// A node of this network with a state folder of its own.
async fn node(network: &Network, listen: Option<&str>) -> (Node, Inbound) {
    let identity = Keypair::generate_ed25519();
    let transport = network.transport(identity.public().to_peer_id());
    let listen = listen.into_iter().map(|address| address.parse().unwrap()).collect();
    let options = NodeOptions { listen, ..NodeOptions::default() };
    Node::start_over(transport, identity, options).await.unwrap()
}

fn indexes(state: &Path) -> Arc<Indexes> {
    Arc::new(Indexes::new(&StateFolder::locate(Some(state.into()), |_| None).unwrap()))
}

fn held_offer(state: &Path, tree: &Path) -> HeldOffer {
    std::fs::create_dir_all(state).unwrap();
    let request = trust::OfferRequest {
        paths: vec![tree.into()],
        only_for: None,
        uses: None,
        lifetime: None,
        replace: false,
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    Offers::open(state).unwrap().reopen_or_create(&request, now_s).unwrap().offer
}

/// A folder in memory where the system has one, as the disk of a busy machine takes longer than a round trip.
fn memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Takes all events, and agrees where somebody has to.
fn agree(mut events: mpsc::Receiver<Event>) {
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            if let Event::Consult(consultation) = event {
                // The session may be over.
                let _ = consultation.reply.send(Answer::Yes);
            }
        }
    });
}

/// A copy of so many equal files into nothing: round trips from the dial until the receiver knows that both sides agree.
async fn round_trips(files: u64, consent: Consent) -> f64 {
    let place = memory();
    let at = |name: &str| place.path().join(name);
    Shape::Small { files, bytes: BYTES / files }.write(42, &at("tree")).unwrap();
    let network = Network::new(ROUND_TRIP);
    let (sender, mut asked) = node(&network, Some(ADDRESS)).await;
    let (receiver, mut inbound) = node(&network, None).await;

    let offer = held_offer(&at("sender"), &at("tree"));
    let ticket = offer.ticket(sender.peer(), sender.listen_addresses());
    let offering = tokio::spawn({
        let source = Source::open(&[at("tree")]).unwrap();
        let (layout, connections) = (Layout::Bundle, Connections::ONE);
        let request = OfferRequest { offer, source, layout, connections, indexes: indexes(&at("sender")) };
        let (events, shown) = mpsc::channel(256);
        agree(shown);
        async move { transfer::offer(&mut asked, request, &events, &CancellationToken::new()).await.unwrap() }
    });
    let reach = ticket.addresses().to_vec().into();
    let request = ReceiveRequest {
        retry_for: Duration::ZERO,
        ticket,
        destination: at("target"),
        options: tree::Options { handling: Handling::receiving(false), durability: Durability::None },
        hashes: Hashes::Known,
        reach,
        over_relay: false,
        connections: ConnectionWish::Exactly(Connections::ONE),
        consent,
        indexes: indexes(&at("receiver")),
    };
    let (events, shown) = mpsc::channel(256);
    agree(shown);
    let began = Instant::now();
    let stop = CancellationToken::new();
    let receiving = transfer::receive(&receiver, &mut inbound, request, &events, &stop);
    let Report { counts, .. } = timeout(PATIENCE, receiving).await.unwrap().unwrap();
    let took = began.elapsed();

    let accounts = timeout(PATIENCE, offering).await.unwrap().unwrap();
    assert_eq!((accounts, counts.is_complete()), (vec![counts], true));
    let [expected, found] =
        [at("tree"), at("target/tree")].map(|tree| digest(&tree, &Options::default()).unwrap());
    assert_eq!(expected.hex, found.hex);
    sender.shutdown().await;
    receiver.shutdown().await;
    took.as_secs_f64() / ROUND_TRIP.as_secs_f64()
}

/// Whether one of some tries takes as many round trips as expected, and no other one. None can take fewer.
async fn takes(files: u64, consent: Consent, expected: f64) -> bool {
    for _ in 0..TRIES {
        let round_trips = round_trips(files, consent).await;
        assert!(round_trips >= expected, "{round_trips:.2} are fewer than {expected}, which cannot be");
        if round_trips < expected + 0.9 {
            return true;
        }
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_takes_three_round_trips_however_many_files_it_is() {
    // dial; ask and content; done and farewell.
    for files in [1, 512] {
        assert!(takes(files, Consent::Given, 3.0).await, "{files} files take more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_is_asked_first_takes_one_more() {
    assert!(takes(16, Consent::Pending, 4.0).await, "it takes more");
}
