//! Peers that a test plays itself, byte by byte, over a real connection.

use futures::{
    AsyncReadExt as _, AsyncWriteExt as _,
    io::{ReadHalf, WriteHalf},
};
use ketch::{
    swarm::{Connection, Inbound, Keypair, Multiaddr, Node, NodeOptions, Stream, TransportKind},
    trust::Ticket,
};
use ketch_protocol::{
    io::{DataForm, MessageReader, NoMessage, StreamKind},
    limits::VERSION,
    message::{
        Ask, Claim, Connections, Consent, Message, Offer, Secret, Selection, SessionId, TargetView, encode,
    },
    problem::Reason,
};
use tokio::time::timeout;

use crate::{
    place::{Place, listen_address},
    process::{Ended, Ketch, PATIENCE},
};

/// A node of the test's own.
async fn node(identity: Keypair, listen: Option<TransportKind>) -> (Node, Inbound) {
    let listen: Vec<Multiaddr> =
        listen.map(|kind| listen_address(kind).parse().unwrap()).into_iter().collect();
    let options = NodeOptions { listen, ..NodeOptions::default() };
    Node::start(identity, options).await.unwrap()
}

/// A control stream, seen from either side.
pub(crate) struct Control {
    reader: MessageReader<ReadHalf<Stream>>,
    writer: WriteHalf<Stream>,
}

impl Control {
    fn new(stream: Stream) -> Self {
        let (reader, writer) = stream.split();
        Self { reader: MessageReader::new(reader), writer }
    }

    pub(crate) async fn say(&mut self, message: &Message) {
        self.say_bytes(&encode(message)).await;
    }

    /// Says anything. The other side may have ended the session at the first half of it.
    pub(crate) async fn say_bytes(&mut self, bytes: &[u8]) {
        if self.writer.write_all(bytes).await.is_ok() {
            let _ = self.writer.flush().await;
        }
    }

    pub(crate) async fn hear(&mut self) -> Result<Message, NoMessage> {
        timeout(PATIENCE, self.reader.next()).await.expect("the other side should say something")
    }

    /// The next message that fits.
    pub(crate) async fn hear_until<T>(&mut self, fits: impl Fn(Message) -> Option<T>) -> T {
        loop {
            if let Some(fitting) = fits(self.hear().await.unwrap()) {
                return fitting;
            }
        }
    }
}

/// The test as the sender of a session that a real `ketch receive` began.
pub(crate) struct PlayedSender {
    pub(crate) control: Control,
    pub(crate) connection: Connection,
    pub(crate) ask: Ask,
    receiver: Ketch,
    node: (Node, Inbound),
}

impl PlayedSender {
    /// Lets `ketch receive` come and ask.
    pub(crate) async fn meet(place: &Place, transport: TransportKind, options: &[&str]) -> Self {
        let (node, mut inbound) = node(Keypair::generate_ed25519(), Some(transport)).await;
        let secret = Secret::from_bytes([7; 16]);
        let ticket = Ticket::new(node.peer(), node.listen_addresses(), secret, None);
        // A receiver that goes on by itself would only find the same peer again.
        let once = [options, &["--retry-for", "0s"]].concat();
        let receiver = Ketch::start(place.receive(&ticket.to_string(), &once));
        let met = timeout(PATIENCE, inbound.next()).await;
        let (connection, mut stream) = met.expect("the receiver should come").unwrap();
        assert_eq!(StreamKind::read(&mut stream).await.unwrap(), StreamKind::Control);
        let mut control = Control::new(stream);
        let Message::Ask(ask) = control.hear().await.unwrap() else { panic!("no ask") };
        Self { control, connection, ask, receiver, node: (node, inbound) }
    }

    /// The next stream that the receiver opens.
    pub(crate) async fn next_stream(&mut self) -> (Connection, Stream) {
        self.node.1.next().await.unwrap()
    }

    pub(crate) async fn offer(&mut self) {
        self.control.say(&Message::Offer(plain_offer())).await;
    }

    /// Waits until the receiver has heard the offer: what is closed at once may take its last words along.
    pub(crate) async fn heard(&mut self) {
        self.receiver.event("admitted").await;
    }

    /// A data stream with these bytes, left open.
    pub(crate) async fn data(&self, bytes: &[u8]) -> Stream {
        self.data_of(self.ask.session, bytes).await
    }

    /// A data stream of any session.
    pub(crate) async fn data_of(&self, session: SessionId, bytes: &[u8]) -> Stream {
        let mut stream = self.connection.open_stream().await.unwrap();
        StreamKind::Data(session, DataForm::default()).write(&mut stream).await.unwrap();
        // The receiver may end the session before it has taken everything.
        if stream.write_all(bytes).await.is_ok() {
            let _ = stream.flush().await;
        }
        stream
    }

    /// Says farewell when the receiver is done, and waits for its end.
    pub(crate) async fn farewell(mut self) -> Ended {
        self.control.hear_until(|message| matches!(message, Message::Done(_)).then_some(())).await;
        self.control.say(&Message::Farewell).await;
        self.end().await
    }

    /// Waits until the receiver refuses to go on, and for its end.
    pub(crate) async fn refused(mut self, reason: Reason) -> Ended {
        let refuse = |message| if let Message::Refuse(refuse) = message { Some(refuse.reason) } else { None };
        assert_eq!(self.control.hear_until(refuse).await, reason);
        self.connection.close().await;
        self.end().await
    }

    /// Waits for the end of the receiver.
    pub(crate) async fn end(self) -> Ended {
        self.receiver.end().await
    }
}

/// The offer of a sender that has counted nothing and takes one connection.
pub(crate) fn plain_offer() -> Offer {
    Offer { version: VERSION, estimate: None, connections: Connections::ONE, congestion: None, disk: None }
}

/// The test as a receiver that meets a real `ketch send`.
pub(crate) struct PlayedReceiver {
    pub(crate) connection: Connection,
    /// Brings the sender's data streams.
    pub(crate) inbound: Inbound,
    secret: Secret,
    node: Node,
}

impl PlayedReceiver {
    pub(crate) async fn dial(ticket: &Ticket) -> Self {
        Self::dial_as(Keypair::generate_ed25519(), ticket).await
    }

    pub(crate) async fn dial_as(identity: Keypair, ticket: &Ticket) -> Self {
        let (node, inbound) = node(identity, None).await;
        let connection = node.dial(ticket.peer(), ticket.addresses().to_vec()).await.unwrap();
        Self { connection, inbound, secret: *ticket.secret(), node }
    }

    /// One more connection with the sender.
    pub(crate) async fn another(&self) -> Connection {
        let address = self.connection.remote_address().clone();
        self.node.dial(self.connection.peer(), vec![address]).await.unwrap()
    }

    /// A stream that says nothing yet.
    pub(crate) async fn stream(&self) -> Stream {
        self.connection.open_stream().await.unwrap()
    }

    /// A control stream on which nothing was asked.
    pub(crate) async fn control(&self) -> Control {
        let mut stream = self.stream().await;
        StreamKind::Control.write(&mut stream).await.unwrap();
        Control::new(stream)
    }

    /// A session that the sender has admitted.
    pub(crate) async fn session(&self, target: TargetView) -> Control {
        let mut control = self.control().await;
        control.say(&Message::Ask(self.ask(target))).await;
        control.hear_until(|message| matches!(message, Message::Offer(_)).then_some(())).await;
        control
    }

    pub(crate) fn ask(&self, target: TargetView) -> Ask {
        let session = SessionId([9; 16]);
        Ask {
            version: VERSION,
            session,
            claim: Claim::Ticket(self.secret),
            consent: Consent::Given,
            target,
            selection: Selection::default(),
            preview: false,
            connections: Connections::ONE,
            controller: None,
            congestion: None,
            missed: Vec::new(),
        }
    }
}
