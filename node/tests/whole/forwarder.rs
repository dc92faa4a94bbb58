//! A plain forwarder between the two sees nothing and changes nothing: a peer is its PeerId, wherever it is
//! dialed.

use ketch::{
    swarm::{Multiaddr, TransportKind::Tcp},
    trust::Ticket,
};
use ketch_fixtures::tree::Shape;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

use crate::{
    place::{Place, parse},
    process::Ketch,
};

fn port(address: &Multiaddr) -> u16 {
    address.to_string().strip_prefix("/ip4/127.0.0.1/tcp/").unwrap().parse().unwrap()
}

/// Copies whatever comes between its own port, which it returns, and another.
async fn forward_to(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                copy_bidirectional(&mut near, &mut far).await
            });
        }
    });
    own
}

#[tokio::test]
async fn a_tree_crosses_a_plain_tcp_forwarder() {
    let place = Place::new();
    let tree = place.offered("tree");
    Shape::Source { files: 100 }.write(7, &tree).unwrap();
    let (sender, ticket) = place.send(Tcp, &[&tree], &[]).await;
    let ticket = parse(&ticket);
    let forwarder = forward_to(port(&ticket.addresses()[0])).await;
    let address = format!("/ip4/127.0.0.1/tcp/{forwarder}").parse().unwrap();
    let through = Ticket::new(ticket.peer(), [address], *ticket.secret(), ticket.expires_s());
    Ketch::start(place.receive(&through.to_string(), &[])).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
}
