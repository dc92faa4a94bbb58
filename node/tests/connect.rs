//! Two nodes on loopback meet, over both transports, and every way in which they may fail to.

use std::{
    net::{TcpListener, UdpSocket},
    time::{Duration, Instant},
};

use futures::{AsyncReadExt, AsyncWriteExt, future::try_join_all, pin_mut, poll};
use ketch::swarm::{
    CloseReason, Connection, Deadlines, DialRequest, Inbound, Keypair, Multiaddr, Node, NodeError,
    NodeOptions, PeerId, StreamError, TransportKind,
};
use tokio::time::timeout;

const BOTH: [TransportKind; 2] = [TransportKind::Tcp, TransportKind::Quic];

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(30);

fn listen_address(kind: TransportKind) -> Multiaddr {
    match kind {
        TransportKind::Tcp => "/ip4/127.0.0.1/tcp/0",
        TransportKind::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
    }
    .parse()
    .unwrap()
}

async fn start(listen: Vec<Multiaddr>, setup: Duration) -> (Node, Inbound) {
    let deadlines = Deadlines { setup, ..Deadlines::default() };
    let ping_interval = Duration::from_millis(10);
    let options = NodeOptions { listen, deadlines, ping_interval, ..NodeOptions::default() };
    Node::start(Keypair::generate_ed25519(), options).await.unwrap()
}

async fn listener(kind: TransportKind) -> (Node, Inbound) {
    start(vec![listen_address(kind)], PATIENCE).await
}

async fn dialer() -> (Node, Inbound) {
    start(vec![], PATIENCE).await
}

/// A dialer that gives up soon, for peers that never answer.
async fn impatient() -> Node {
    start(vec![], Duration::from_millis(300)).await.0
}

async fn connect(from: &Node, to: &Node) -> Connection {
    from.dial(to.peer(), to.listen_addresses()).await.unwrap()
}

/// Answers every inbound stream with its own bytes.
fn echo(mut inbound: Inbound) {
    tokio::spawn(async move {
        while let Some((_, stream)) = inbound.next().await {
            tokio::spawn(async move {
                let (reader, mut writer) = stream.split();
                futures::io::copy(reader, &mut writer).await.unwrap();
                writer.close().await.unwrap();
            });
        }
    });
}

async fn round_trip(connection: &Connection, bytes: Vec<u8>) -> Result<(), StreamError> {
    let (mut reader, mut writer) = connection.open_stream().await?.split();
    let send = async {
        writer.write_all(&bytes).await?;
        writer.close().await
    };
    let mut answer = Vec::new();
    futures::try_join!(send, reader.read_to_end(&mut answer))?;
    assert_eq!(answer, bytes);
    Ok(())
}

fn tcp_address(port: u16) -> Multiaddr {
    format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()
}

fn silent_tcp() -> (TcpListener, Multiaddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp_address(socket.local_addr().unwrap().port());
    (socket, address)
}

async fn dial_error(node: &Node, peer: PeerId, address: Multiaddr) -> String {
    let dialed = timeout(PATIENCE, node.dial(peer, vec![address])).await.unwrap();
    dialed.unwrap_err().to_string()
}

#[tokio::test]
async fn streams_cross_in_both_directions_on_one_connection() {
    for kind in BOTH {
        let ((here, here_inbound), (there, mut there_inbound)) = (dialer().await, listener(kind).await);
        let connection = connect(&here, &there).await;
        assert_eq!((connection.transport(), connection.peer()), (kind, there.peer()));

        let mut first = connection.open_stream().await.unwrap();
        first.close().await.unwrap();
        let (accepted, _) = there_inbound.next().await.unwrap();
        assert_eq!((accepted.transport(), accepted.peer()), (kind, here.peer()));

        echo(here_inbound);
        echo(there_inbound);
        let outward = (0..8).map(|fill| round_trip(&connection, vec![fill; 300_000]));
        let inward = (0..8).map(|fill| round_trip(&accepted, vec![fill; 300_000]));
        timeout(PATIENCE, try_join_all(outward.chain(inward))).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn three_hundred_streams_wait_for_an_acceptor_that_takes_none() {
    for kind in BOTH {
        let ((here, _here_inbound), (there, mut inbound)) = (dialer().await, listener(kind).await);
        let connection = connect(&here, &there).await;

        let opens = try_join_all((0..300).map(|_| connection.open_stream()));
        let streams = timeout(PATIENCE, opens).await.unwrap().unwrap();
        let numbered = streams.into_iter().zip(0u32..).map(|(mut stream, number)| async move {
            stream.write_all(&number.to_be_bytes()).await?;
            stream.close().await?;
            Ok::<_, std::io::Error>(stream)
        });
        let _written = timeout(PATIENCE, try_join_all(numbered)).await.unwrap().unwrap();

        let mut numbers = Vec::new();
        for _ in 0..300 {
            let (_, mut stream) = timeout(PATIENCE, inbound.next()).await.unwrap().unwrap();
            let mut number = [0; 4];
            stream.read_exact(&mut number).await.unwrap();
            numbers.push(u32::from_be_bytes(number));
        }
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..300), "{kind}");
    }
}

#[tokio::test]
async fn at_the_stream_limit_an_open_waits_for_a_free_place() {
    let ((here, _here_inbound), (there, _there_inbound)) =
        (dialer().await, listener(TransportKind::Tcp).await);
    let connection = connect(&here, &there).await;
    let opens = try_join_all((0..512).map(|_| connection.open_stream()));
    let mut streams = timeout(PATIENCE, opens).await.unwrap().unwrap();

    let one_more = connection.open_stream();
    pin_mut!(one_more);
    assert!(poll!(&mut one_more).is_pending());
    streams.pop();
    timeout(PATIENCE, one_more).await.unwrap().unwrap();
}

#[tokio::test]
async fn another_peer_at_the_address_is_named_with_the_expected_one() {
    for kind in BOTH {
        let ((here, _), (there, _inbound)) = (dialer().await, listener(kind).await);
        let expected = PeerId::random();
        let error = dial_error(&here, expected, there.listen_addresses().remove(0)).await;
        assert!(error.starts_with(&format!("reaching {expected}: ")), "{error}");
        assert!(error.ends_with(&format!("another peer answered: {}", there.peer())), "{error}");
    }
}

#[tokio::test]
async fn our_own_address_is_recognised() {
    let (here, _inbound) = listener(TransportKind::Tcp).await;
    let error = dial_error(&here, PeerId::random(), here.listen_addresses().remove(0)).await;
    assert!(error.contains("an address of this node itself"), "{error}");
}

#[tokio::test]
async fn a_dead_port_is_named_with_the_step() {
    let (socket, address) = silent_tcp();
    drop(socket);
    let error = dial_error(&dialer().await.0, PeerId::random(), address.clone()).await;
    assert!(error.ends_with(&format!("{address}: connect: connection refused")), "{error}");
}

#[tokio::test]
async fn a_reset_before_tls_is_named_with_the_step() {
    let (socket, address) = silent_tcp();
    socket.set_nonblocking(true).unwrap();
    let acceptor = tokio::net::TcpListener::from_std(socket).unwrap();
    let resetting = tokio::spawn(async move {
        let (accepted, _) = acceptor.accept().await.unwrap();
        // Closing with unread bytes resets the connection.
        accepted.readable().await.unwrap();
    });
    let error = dial_error(&dialer().await.0, PeerId::random(), address.clone()).await;
    resetting.await.unwrap();
    assert!(error.ends_with(&format!("{address}: tls handshake: connection reset by the peer")), "{error}");
}

#[tokio::test]
async fn a_listener_of_another_protocol_is_named_with_the_step() {
    let acceptor = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp_address(acceptor.local_addr().unwrap().port());
    let answering = tokio::spawn(async move {
        let (mut accepted, _) = acceptor.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut accepted, b"\x04abc\n").await.unwrap();
        accepted
    });
    let error = dial_error(&dialer().await.0, PeerId::random(), address.clone()).await;
    assert!(
        error.ends_with(&format!("{address}: tls handshake: what answered is no libp2p peer")),
        "{error}"
    );
    drop(answering.await.unwrap());
}

#[tokio::test]
async fn a_dialer_of_another_protocol_disturbs_nobody() {
    let ((here, _), (there, inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
    echo(inbound);
    let port = there.listen_addresses()[0].to_string().rsplit('/').next().unwrap().parse::<u16>().unwrap();
    let mut stranger = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stranger, &[0xff; 4_096]).await.unwrap();

    let connection = connect(&here, &there).await;
    round_trip(&connection, b"undisturbed".to_vec()).await.unwrap();

    let mut rest = Vec::new();
    let ended = tokio::io::AsyncReadExt::read_to_end(&mut stranger, &mut rest);
    // Whether it ends cleanly or by a reset, the stranger is shown the door at once.
    drop(timeout(PATIENCE, ended).await.unwrap());
}

#[tokio::test]
async fn a_silent_acceptor_is_named_with_the_step() {
    let (_tcp, tcp_address) = silent_tcp();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_port = udp.local_addr().unwrap().port();
    let udp_address = format!("/ip4/127.0.0.1/udp/{udp_port}/quic-v1").parse().unwrap();
    for (address, step) in [(tcp_address, "tls handshake"), (udp_address, "quic handshake")] {
        let error = dial_error(&impatient().await, PeerId::random(), address).await;
        assert!(error.contains(&format!("{step}: no answer within 0.3 s")), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_address_of_ours_is_refused() {
    let (here, _inbound) = dialer().await;
    for address in ["/ip4/127.0.0.1/udp/9", "/ip4/127.0.0.1", "/memory/7"] {
        let error = dial_error(&here, PeerId::random(), address.parse().unwrap()).await;
        assert!(error.contains("not an address of tcp or quic"), "{error}");
    }
}

#[tokio::test]
async fn no_address_and_too_many_are_refused() {
    let (here, _inbound) = dialer().await;
    for (count, told) in [(0, "no address is known"), (33, "33 addresses were given, at most 32")] {
        let error = here.dial(PeerId::random(), vec![tcp_address(9); count]).await.unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[tokio::test]
async fn a_peer_named_in_the_address_must_be_the_one_dialed() {
    let ((here, _), (there, _inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
    let address = there.listen_addresses().remove(0).with_p2p(there.peer()).unwrap();
    let error = dial_error(&here, PeerId::random(), address.clone()).await;
    assert!(error.ends_with(&format!("an address of peer {}", there.peer())), "{error}");
    here.dial(there.peer(), vec![address]).await.unwrap();
}

#[tokio::test]
async fn one_good_address_among_bad_ones_is_enough() {
    let (_silent, silent_address) = silent_tcp();
    let ((here, _), (there, inbound)) = (dialer().await, listener(TransportKind::Quic).await);
    echo(inbound);
    let mut addresses = vec![silent_address, "/memory/7".parse().unwrap()];
    addresses.extend(there.listen_addresses());
    let connection = timeout(PATIENCE, here.dial(there.peer(), addresses)).await.unwrap().unwrap();
    assert_eq!(connection.transport(), TransportKind::Quic);
    round_trip(&connection, b"through".to_vec()).await.unwrap();
}

#[tokio::test]
async fn the_transport_that_is_known_to_be_faster_is_taken() {
    let (here, _) = dialer().await;
    let (there, _inbound) = start(BOTH.map(listen_address).to_vec(), PATIENCE).await;
    let addresses = there.listen_addresses();
    for kind in BOTH {
        let faster = DialRequest { faster: Some(kind), ..addresses.clone().into() };
        let only = DialRequest { only: Some(kind), ..addresses.clone().into() };
        for request in [faster, only] {
            assert_eq!(here.dial(there.peer(), request).await.unwrap().transport(), kind);
        }
    }
}

#[tokio::test]
async fn a_name_in_an_address_is_resolved() {
    let ((here, _), (there, _inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
    let named = there.listen_addresses().remove(0).to_string().replace("/ip4/127.0.0.1", "/dns4/localhost");
    let dialed = here.dial(there.peer(), vec![named.parse().unwrap()]).await;
    assert_eq!(dialed.unwrap().peer(), there.peer());
}

/// Forwards TCP connections to `target` until it is dropped; bytes cross only while `open` is true.
async fn forwarder(target: Multiaddr, open: tokio::sync::watch::Receiver<bool>) -> Multiaddr {
    let target_port = target.to_string().rsplit('/').next().unwrap().parse::<u16>().unwrap();
    let acceptor = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp_address(acceptor.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((mut near, _)) = acceptor.accept().await {
            let mut far = tokio::net::TcpStream::connect(("127.0.0.1", target_port)).await.unwrap();
            let mut open = open.clone();
            tokio::spawn(async move {
                let stalled = async { drop(open.wait_for(|open| !open).await) };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut near, &mut far) => return,
                    () = stalled => {}
                }
                std::future::pending::<()>().await;
            });
        }
    });
    address
}

#[tokio::test]
async fn a_plain_tcp_forwarder_carries_a_connection() {
    let ((here, _), (there, inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
    echo(inbound);
    let (_keep_open, open) = tokio::sync::watch::channel(true);
    let address = forwarder(there.listen_addresses().remove(0), open).await;
    let connection = here.dial(there.peer(), vec![address.clone()]).await.unwrap();
    assert_eq!(connection.remote_address(), &address);
    round_trip(&connection, vec![7; 100_000]).await.unwrap();
}

#[tokio::test]
async fn a_ping_reports_round_trips_transport_and_agent() {
    for kind in BOTH {
        let ((here, _), (there, _inbound)) = (dialer().await, listener(kind).await);
        let connection = connect(&here, &there).await;
        let report = timeout(PATIENCE, here.ping(&connection, 3)).await.unwrap().unwrap();
        assert_eq!((report.rtts.len(), report.transport), (3, kind));
        assert_eq!(report.address, there.listen_addresses()[0]);
        assert_eq!(report.agent, Some(concat!("ketch/", env!("CARGO_PKG_VERSION")).into()));
    }
}

#[tokio::test]
async fn both_ends_learn_that_a_connection_was_closed() {
    for kind in BOTH {
        let ((here, _), (there, mut inbound)) = (dialer().await, listener(kind).await);
        let connection = connect(&here, &there).await;
        let _stream = connection.open_stream().await.unwrap();
        let (accepted, _accepted_stream) = inbound.next().await.unwrap();

        timeout(PATIENCE, connection.close()).await.unwrap();

        assert_eq!(connection.closed().await, CloseReason::Local);
        let reason = timeout(PATIENCE, accepted.closed()).await.unwrap();
        assert!(matches!(reason, CloseReason::Lost(_)), "{reason:?}");
        let error = connection.open_stream().await.unwrap_err();
        assert!(matches!(error, StreamError::Closed(CloseReason::Local)), "{error}");
    }
}

#[tokio::test]
async fn a_shut_down_node_takes_leave_of_its_peers() {
    for kind in BOTH {
        let ((here, mut here_inbound), (there, mut inbound)) = (dialer().await, listener(kind).await);
        let connection = connect(&here, &there).await;
        let _stream = connection.open_stream().await.unwrap();
        let (accepted, _accepted_stream) = inbound.next().await.unwrap();

        here.shutdown().await;

        assert!(here_inbound.next().await.is_none());
        assert_eq!(connection.closed().await, CloseReason::Local);
        // Far below the time after which silence alone would end the connection.
        timeout(Duration::from_secs(5), accepted.closed()).await.unwrap();
        let error = here.dial(there.peer(), there.listen_addresses()).await.unwrap_err();
        assert!(error.to_string().contains("the node has stopped"), "{error}");
    }
}

#[tokio::test]
async fn a_peer_that_takes_nothing_does_not_hold_up_the_end() {
    let ((here, _), (there, mut inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
    let (stall, open) = tokio::sync::watch::channel(true);
    let address = forwarder(there.listen_addresses().remove(0), open).await;
    let connection = here.dial(there.peer(), vec![address]).await.unwrap();
    let streams = try_join_all((0..64).map(|_| connection.open_stream())).await.unwrap();
    let accepted = inbound.next().await.unwrap();
    stall.send(false).unwrap();
    let writers = streams
        .into_iter()
        .map(|mut stream| tokio::spawn(async move { while stream.write_all(&[0; 65_536]).await.is_ok() {} }));
    let _writers = writers.collect::<Vec<_>>();

    let started = Instant::now();
    here.shutdown().await;
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    drop(accepted);
}

#[tokio::test]
async fn a_peer_that_takes_nothing_does_not_hold_up_a_close() {
    // given more under way to a peer than it takes
    let ((here, _), (there, mut inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
    let (stall, open) = tokio::sync::watch::channel(true);
    let address = forwarder(there.listen_addresses().remove(0), open).await;
    let connection = here.dial(there.peer(), vec![address]).await.unwrap();
    let streams = try_join_all((0..64).map(|_| connection.open_stream())).await.unwrap();
    let _accepted = inbound.next().await.unwrap();
    stall.send(false).unwrap();
    let fill = streams.into_iter().map(|mut stream| async move {
        while let Ok(written) = timeout(Duration::from_millis(500), stream.write_all(&[0; 65_536])).await {
            written.unwrap();
        }
        stream
    });
    let mut streams = futures::future::join_all(fill).await;

    // when the connection is closed, then it ends, and its streams with it
    timeout(PATIENCE, connection.close()).await.unwrap();
    assert_eq!(connection.closed().await, CloseReason::Local);
    assert!(streams[0].write_all(b"x").await.is_err());
}

/// Sockets from `from` that are connected and never say anything, more than may be there at once.
async fn strangers(from: &str, port: u16) -> Vec<tokio::net::TcpStream> {
    let one = || async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
        socket.connect(([127, 0, 0, 1], port).into()).await.unwrap()
    };
    futures::future::join_all((0..200).map(|_| one())).await
}

#[tokio::test]
async fn strangers_that_say_nothing_keep_nobody_out() {
    for from in ["127.0.0.1", "127.0.0.2"] {
        let ((here, _), (there, inbound)) = (dialer().await, listener(TransportKind::Tcp).await);
        echo(inbound);
        let address = there.listen_addresses().remove(0);
        let port = address.to_string().rsplit('/').next().unwrap().parse().unwrap();
        let _silent = strangers(from, port).await;
        let connection = here.dial(there.peer(), vec![address]).await.unwrap();
        timeout(PATIENCE, round_trip(&connection, vec![7; 1_000])).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_connection_lives_as_long_as_its_handle() {
    for kind in BOTH {
        let (idle_timeout, ping_interval) = (Duration::from_millis(1), Duration::from_millis(10));
        let options = NodeOptions { idle_timeout, ping_interval, ..NodeOptions::default() };
        let (here, _inbound) = Node::start(Keypair::generate_ed25519(), options).await.unwrap();
        let (there, mut inbound) = listener(kind).await;
        let connection = connect(&here, &there).await;
        let stream = connection.open_stream().await.unwrap();
        let (accepted, accepted_stream) = timeout(PATIENCE, inbound.next()).await.unwrap().unwrap();
        drop((stream, accepted_stream));

        // Ten pings take far longer than the idle time.
        timeout(PATIENCE, here.ping(&connection, 10)).await.unwrap().unwrap();
        drop(connection);

        timeout(PATIENCE, accepted.closed()).await.unwrap();
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_named() {
    let (_socket, address) = silent_tcp();
    let options = NodeOptions { listen: vec![address.clone()], ..NodeOptions::default() };
    let started = Node::start(Keypair::generate_ed25519(), options).await;
    let Err(error @ NodeError::Listen { .. }) = started else { panic!("it started") };
    assert!(error.to_string().contains(&address.to_string()), "{error}");

    let options = NodeOptions { listen_where_possible: vec![address], ..NodeOptions::default() };
    let (node, _inbound) = Node::start(Keypair::generate_ed25519(), options).await.unwrap();
    assert_eq!(node.listen_addresses(), []);
}

#[tokio::test]
async fn two_nodes_do_not_share_an_address() {
    for kind in BOTH {
        let (first, _inbound) = listener(kind).await;
        let address = first.listen_addresses().remove(0);
        let options = NodeOptions { listen: vec![address.clone()], ..NodeOptions::default() };
        let started = Node::start(Keypair::generate_ed25519(), options).await;
        let Err(error @ NodeError::Listen { .. }) = started else { panic!("it shares {address}") };
        assert!(error.to_string().contains("in use"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_whose_negotiation_was_cut_fails_and_can_be_used_no_more() {
    for kind in BOTH {
        let (accepting, inbound) = listener(kind).await;
        let (dialing, _inbound) = dialer().await;
        let connection = connect(&dialing, &accepting).await;
        let mut stream = connection.open_stream().await.unwrap();
        accepting.shutdown().await;
        drop(inbound);
        // What was answered before the end is read; then every use fails.
        while stream.read(&mut [0; 16]).await.is_ok_and(|length| length > 0) {}
        let _ = stream.read(&mut [0; 16]).await;
        let _ = stream.flush().await;
        let _ = stream.write_all(b"x").await;
        let _ = stream.close().await;
    }
}

/// Two nodes that dialed each other, and the connections that the lesser and the greater PeerId dialed.
async fn crossed(kind: TransportKind) -> ([(Node, Inbound); 2], Connection, Connection) {
    let options = NodeOptions {
        listen: vec![listen_address(kind)],
        duplicate_grace: Duration::from_millis(100),
        ..NodeOptions::default()
    };
    let node = || Node::start(Keypair::generate_ed25519(), options.clone());
    let mut nodes = [node().await.unwrap(), node().await.unwrap()];
    nodes.sort_by_key(|(node, _)| node.peer());
    let [(lesser, _), (greater, _)] = &nodes;
    let (kept, other) = tokio::join!(connect(lesser, greater), connect(greater, lesser));
    (nodes, kept, other)
}

#[tokio::test]
async fn two_nodes_that_dial_each_other_at_once_keep_one_connection() {
    for kind in BOTH {
        let (nodes, kept, other) = crossed(kind).await;
        // The side that looks first closes it, and the other one hears of that.
        let reason = timeout(PATIENCE, other.closed()).await.unwrap();
        assert!(matches!(reason, CloseReason::Duplicate | CloseReason::Lost(_)), "{reason}");
        let [_, (_, inbound)] = nodes;
        echo(inbound);
        timeout(PATIENCE, round_trip(&kept, vec![1; 1000])).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_second_connection_that_carries_streams_is_kept_until_they_end() {
    for kind in BOTH {
        let (_nodes, _kept, other) = crossed(kind).await;
        let stream = other.open_stream().await.unwrap();
        // Far more than the grace; only a wrong close ends this early.
        let closed = timeout(Duration::from_millis(400), other.closed()).await;
        assert!(closed.is_err(), "{closed:?}");
        drop(stream);
        timeout(PATIENCE, other.closed()).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_whose_path_has_gone_is_known_to_be_silent() {
    // given a connection through somebody who passes everything on
    let (there, _there) = listener(TransportKind::Tcp).await;
    let far = there.listen_addresses()[0].to_string();
    let far: u16 = far.strip_prefix("/ip4/127.0.0.1/tcp/").unwrap().parse().unwrap();
    let between = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let through = tcp_address(between.local_addr().unwrap().port());
    let (hold, held) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut near, _) = between.accept().await.unwrap();
        let mut far = tokio::net::TcpStream::connect(("127.0.0.1", far)).await.unwrap();
        tokio::select! {
            _ended = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _held = held => std::future::pending().await,
        }
    });
    let (ping_interval, ping_timeout) = (Duration::from_millis(10), Duration::from_millis(200));
    let options = NodeOptions { ping_interval, ping_timeout, ..NodeOptions::default() };
    let (here, _here) = Node::start(Keypair::generate_ed25519(), options).await.unwrap();
    let connection = here.dial(there.peer(), vec![through]).await.unwrap();
    assert!(connection.round_trip().await.is_some());

    // when that one passes nothing on any more, and closes nothing
    hold.send(()).unwrap();

    // then it is noticed, although the connection stands
    timeout(PATIENCE, connection.silent()).await.unwrap();
    let closed = connection.closed();
    pin_mut!(closed);
    assert!(poll!(closed).is_pending());
}
