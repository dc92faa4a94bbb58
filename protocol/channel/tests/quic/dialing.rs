//! From which socket is dialed, and what a dial that fails says.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use ketch_channel::{Deadlines, SetupCause, SetupError, Step};
use libp2p_core::{
    Endpoint, Transport,
    transport::{DialOpts, PortUse, TransportError, TransportEvent},
};

use libp2p_identity::Keypair;

use crate::ends::{DIALER, End, Side, Stack, connect, send};

#[tokio::test]
async fn a_dial_comes_from_the_listening_socket_unless_a_new_one_is_asked_for() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, own) = dialer.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let reused = connect(&mut dialer, &mut listener, &address, DIALER).await;
    assert_eq!(reused.seen, own);
    let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
    let fresh = connect(&mut dialer, &mut listener, &address, options).await;
    assert_ne!(fresh.seen, own);
}

#[tokio::test]
async fn dials_without_a_listener_share_a_socket() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let first = connect(&mut dialer, &mut listener, &address, DIALER).await;
    let second = connect(&mut dialer, &mut listener, &address, DIALER).await;
    assert_eq!(first.seen, second.seen);
}

#[tokio::test]
async fn a_peer_that_never_answers_is_known_by_its_silence() {
    let setup = Duration::from_millis(300);
    let mut end = End::impatient(setup);
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("/ip4/127.0.0.1/udp/{}/quic-v1", silent.local_addr().unwrap().port());
    let error = end.transport.dial(address.parse().unwrap(), DIALER).unwrap().await.unwrap_err();
    let error = error.get_ref().unwrap().downcast_ref::<SetupError>().unwrap();
    assert!(
        matches!(error, SetupError { step: Step::Quic, cause: SetupCause::Silence(after) } if *after == setup),
        "{error}"
    );
}

#[tokio::test]
async fn an_address_that_nobody_can_have_is_refused() {
    let mut end = End::new(Stack::Own);
    for address in ["/ip4/0.0.0.0/udp/4001/quic-v1", "/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/udp/1"] {
        let refused = end.transport.dial(address.parse().unwrap(), DIALER);
        assert!(matches!(refused, Err(TransportError::MultiaddrNotSupported(_))), "{address}");
    }
}

#[test]
fn a_peer_that_was_killed_and_came_back_is_not_waited_for() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let identity = Keypair::generate_ed25519();
    let (near, far, next) = (runtime(), runtime(), runtime());
    let listen = |address: String| {
        let mut end = End::own(&identity, Deadlines::default());
        async move { (end.listen(&address).await.1, end) }
    };
    let (address, mut listener) = far.block_on(listen("/ip4/127.0.0.1/udp/0/quic-v1".into()));
    let mut dialer = near.block_on(async { End::new(Stack::Own) });

    // Both runtimes are needed for a connection.
    let connected = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| far.block_on(accept_one(&mut listener)));
        let dialed =
            near.block_on(async { dialer.transport.dial(address.clone(), DIALER).unwrap().await.unwrap().1 });
        (Side(dialed), accepting.join().unwrap())
    });
    let (mut connected, lost) = connected;
    // The process dies: nothing more is sent.
    far.shutdown_background();
    drop((listener, lost));
    let (_, _listener) = next.block_on(listen(address.to_string()));

    std::thread::scope(|scope| {
        let (stop, stopped) = futures::channel::oneshot::channel::<()>();
        scope.spawn(|| next.block_on(stopped));
        let error = near.block_on(async {
            send(&mut connected.open().await, b"are you there?").await;
            connected.accept().await.unwrap_err()
        });
        assert_eq!(error.to_string(), "connection reset by the peer");
        drop(stop);
    });
}

async fn accept_one(end: &mut End) -> Side {
    match end.event().await {
        TransportEvent::Incoming { upgrade, .. } => Side(upgrade.await.unwrap().1),
        other => panic!("{other:?}"),
    }
}
