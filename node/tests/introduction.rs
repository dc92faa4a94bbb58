//! Two nodes on loopback that share a code, or do not, and peers that keep to no rule.

use std::sync::{Arc, Mutex};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, future::join_all};
use ketch::{
    introduction::{
        Found, GuestError, InProcess, Introduced, InviteError, Inviting, JoinError, Joining, LineError,
        Meeting as _, join,
    },
    swarm::{Inbound, Keypair, Node, NodeOptions, PeerId, Stream},
    trust::{Code, Invitation, Secret, invitation::Password},
};
use ketch_protocol::{
    introduction::{Hello, Message, PROOF_BYTES, Purpose, Refusal, SHARE_BYTES, Welcome, decode, encode},
    limits::VERSION,
    message::SECRET_BYTES,
};

const BOTH: [&str; 2] = ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"];

fn code(text: &str) -> Password {
    Password::Code(text.parse().unwrap())
}

fn right() -> Password {
    code("7-crossword-almond")
}

async fn node(listen: &[&str], introductions: bool) -> (Node, Inbound) {
    let listen = listen.iter().map(|address| address.parse().unwrap()).collect();
    let options = NodeOptions { listen, introductions, ..NodeOptions::default() };
    Node::start(Keypair::generate_ed25519(), options).await.unwrap()
}

fn found(node: &Node) -> Found {
    Found { peer: node.peer(), addresses: node.listen_addresses() }
}

/// An inviter that waits with a password and gives everybody a ticket.
struct Host {
    node: Node,
    inviting: Inviting,
    _inbound: Inbound,
    turned_away: Arc<Mutex<Vec<String>>>,
}

impl Host {
    async fn start(password: Password) -> Self {
        Self::start_on(BOTH[0], password, None).await
    }

    async fn start_on(address: &str, password: Password, expires_s: Option<u64>) -> Self {
        let (node, mut inbound) = node(&[address], true).await;
        let introductions = inbound.take_introductions().unwrap();
        let invitation = Invitation::new(password, Purpose::Fetch, expires_s);
        let inviting = Inviting::new(node.peer(), introductions, invitation);
        Self { node, inviting, _inbound: inbound, turned_away: Arc::default() }
    }

    async fn next(&mut self) -> Result<Introduced, InviteError> {
        self.next_giving(|peer| Ok(format!("ticket for {peer}").into_bytes())).await
    }

    async fn next_giving(
        &mut self,
        give: impl FnMut(PeerId) -> Result<Vec<u8>, String>,
    ) -> Result<Introduced, InviteError> {
        let turned_away = Arc::clone(&self.turned_away);
        self.inviting.next(give, |_, trouble| turned_away.lock().unwrap().push(trouble.to_string())).await
    }

    fn turned_away(&self) -> Vec<String> {
        self.turned_away.lock().unwrap().clone()
    }
}

async fn come(guest: &Node, host: &Found, password: Password) -> Result<Introduced, JoinError> {
    let joining = Joining { password: &password, purpose: Purpose::Fetch, says: b"thank you".to_vec() };
    join(guest, &joining, vec![host.clone()]).await
}

/// The inviter and a guest with this password, until both are done.
async fn meet(
    host: &mut Host,
    guest: &Node,
    password: Password,
) -> (Result<Introduced, InviteError>, Result<Introduced, JoinError>) {
    let place = found(&host.node);
    futures::join!(host.next(), come(guest, &place, password))
}

fn assert_introduced(
    met: (Result<Introduced, InviteError>, Result<Introduced, JoinError>),
    host: PeerId,
    guest: PeerId,
) {
    let (inviter, joined) = (met.0.unwrap(), met.1.unwrap());
    assert_eq!((inviter.peer(), inviter.said.as_slice()), (guest, b"thank you".as_slice()));
    assert_eq!((joined.peer(), joined.said), (host, format!("ticket for {guest}").into_bytes()));
}

#[tokio::test]
async fn two_who_know_the_code_or_the_secret_are_introduced() {
    for address in BOTH {
        for password in [right(), Password::Ticket(Secret::from_bytes([7; SECRET_BYTES]))] {
            let mut host = Host::start_on(address, password, None).await;
            let (guest, _inbound) = node(&[], false).await;
            let met = meet(&mut host, &guest, password).await;
            assert_introduced(met, host.node.peer(), guest.peer());
        }
    }
}

#[tokio::test]
async fn they_find_each_other_by_the_number_of_the_code() {
    let code = Code::draw(0).unwrap();
    let mut host = Host::start(Password::Code(code)).await;
    let (guest, _inbound) = node(&[], false).await;
    let place = InProcess::new(found(&host.node));
    let _announced = place.announce(code.nameplate()).await.unwrap();
    let candidates = place.seen_by(found(&guest)).find(code.nameplate()).await.unwrap();
    let password = Password::Code(code);
    let joining = Joining { password: &password, purpose: Purpose::Fetch, says: b"thank you".to_vec() };
    let met = futures::join!(host.next(), join(&guest, &joining, candidates));
    assert_introduced(met, host.node.peer(), guest.peer());
}

#[tokio::test]
async fn a_wrong_guess_burns_the_code() {
    for wrong in ["7-crossword-album", "7-almond-crossword"] {
        let mut host = Host::start(right()).await;
        let (guest, _inbound) = node(&[], false).await;
        let (inviter, joined) = meet(&mut host, &guest, code(wrong)).await;
        assert_eq!(inviter.unwrap_err(), InviteError::Burnt(guest.peer()));
        assert_eq!(joined.unwrap_err().refusal(), Some(Refusal::Wrong));
        assert_eq!(host.turned_away(), ["its code is wrong"]);
        // Nobody gets in any more, however right.
        let place = found(&host.node);
        let late = tokio::select! {
            joined = come(&guest, &place, right()) => joined.unwrap_err(),
            waited = host.next() => panic!("{waited:?}"),
        };
        assert_eq!(late.refusal(), Some(Refusal::Burnt));
    }
}

#[tokio::test]
async fn many_guesses_at_once_are_one_guess() {
    let mut host = Host::start(right()).await;
    let (guest, _inbound) = node(&[], false).await;
    let place = found(&host.node);
    let words = ["ability", "acid", "acorn", "actor", "album", "angle", "apron", "arcade"];
    let guesses = words.map(|word| code(&format!("7-crossword-{word}")));
    let coming = join_all(guesses.map(|guess| come(&guest, &place, guess)));
    let came = tokio::select! {
        came = coming => came,
        introduced = async {
            loop {
                if let Ok(introduced) = host.next().await {
                    break introduced;
                }
            }
        } => panic!("{introduced:?}"),
    };
    let refusals: Vec<_> = came.into_iter().map(|joined| joined.unwrap_err().refusal()).collect();
    assert_eq!(
        refusals.iter().filter(|refusal| **refusal == Some(Refusal::Wrong)).count(),
        1,
        "{refusals:?}"
    );
}

#[tokio::test]
async fn a_guest_may_come_again_and_nobody_else() {
    let mut host = Host::start(right()).await;
    let ((guest, _one), (other, _two)) = (node(&[], false).await, node(&[], false).await);
    for _ in 0..2 {
        let met = meet(&mut host, &guest, right()).await;
        assert_introduced(met, host.node.peer(), guest.peer());
    }
    let place = found(&host.node);
    let late = tokio::select! {
        joined = come(&other, &place, right()) => joined.unwrap_err(),
        waited = host.next() => panic!("{waited:?}"),
    };
    assert_eq!(late.refusal(), Some(Refusal::Used));
}

#[tokio::test]
async fn a_guest_who_is_not_wanted_is_told_so() {
    let mut host = Host::start(right()).await;
    let (guest, _inbound) = node(&[], false).await;
    let place = found(&host.node);
    let refused = tokio::select! {
        joined = come(&guest, &place, right()) => joined.unwrap_err(),
        waited = host.next_giving(|_| Err("not today".into())) => panic!("{waited:?}"),
    };
    assert_eq!(refused.refusal(), Some(Refusal::NotAdmitted));
    assert_eq!(host.turned_away(), ["not today"]);
}

#[tokio::test]
async fn a_code_of_the_past_ends_by_itself() {
    let mut host = Host::start_on(BOTH[0], right(), Some(1)).await;
    assert_eq!(host.next().await.unwrap_err(), InviteError::Expired);
}

#[tokio::test]
async fn a_node_that_waits_for_nobody_says_so() {
    let (silent, _inbound) = node(&[BOTH[0]], false).await;
    let (guest, _other) = node(&[], false).await;
    let error = come(&guest, &found(&silent), right()).await.unwrap_err();
    let JoinError::Failed(tried) = &error else { panic!("{error}") };
    assert!(matches!(tried[0].1, GuestError::Line(LineError::NotWaiting)), "{error}");
    assert!(matches!(come(&guest, &found(&guest), right()).await, Err(JoinError::Nobody)));
}

/// The base point of ed25519, as a guest's or an inviter's share.
fn share(side: u8) -> [u8; SHARE_BYTES] {
    let mut share = [0x66; SHARE_BYTES];
    (share[0], share[1]) = (side, 0x58);
    share
}

fn hello() -> Hello {
    let nameplate = right().nameplate();
    Hello { version: VERSION, purpose: Purpose::Fetch, nameplate, share: share(b'A') }
}

async fn hear(stream: &mut Stream) -> Message {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.unwrap();
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).await.unwrap();
    decode(&body).unwrap()
}

/// What a stranger says on a stream of its own, and whether it hears anything.
async fn say(stranger: &Node, host: &Found, bytes: &[u8]) -> Stream {
    let connection = stranger.dial(host.peer, host.addresses.clone()).await.unwrap();
    let mut stream = connection.open_introduction().await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

#[tokio::test]
async fn whoever_goes_before_it_proves_anything_costs_nothing() {
    let mut host = Host::start(right()).await;
    let ((guest, _one), (stranger, _two)) = (node(&[], false).await, node(&[], false).await);
    let place = found(&host.node);
    let strangers = async {
        for _ in 0..3 {
            let mut stream = say(&stranger, &place, &encode(&Message::Hello(hello()))).await;
            assert!(matches!(hear(&mut stream).await, Message::Share(_)));
        }
        let other = Hello { purpose: Purpose::Pair, ..hello() };
        let mut stream = say(&stranger, &place, &encode(&Message::Hello(other))).await;
        assert_eq!(hear(&mut stream).await, Message::Refuse(Refusal::OtherPurpose));
        come(&guest, &place, right()).await
    };
    let met = futures::join!(host.next(), strangers);
    assert_introduced(met, host.node.peer(), guest.peer());
}

#[tokio::test]
async fn strangers_who_say_nothing_or_nonsense_keep_nobody_out() {
    let mut host = Host::start(right()).await;
    let ((guest, _one), (stranger, _two)) = (node(&[], false).await, node(&[], false).await);
    let place = found(&host.node);
    let no_share = Hello { share: [0xff; SHARE_BYTES], ..hello() };
    let strangers = async {
        let mut held = Vec::new();
        for bytes in [
            vec![],
            vec![0, 0],
            vec![0xff; 64],
            (16 * 1024 + 1_u32).to_be_bytes().to_vec(),
            vec![0, 0, 0, 0],
            encode(&Message::Thanks),
            encode(&Message::Proof([0; PROOF_BYTES])),
            encode(&Message::Hello(no_share)),
            [encode(&Message::Hello(hello())), encode(&Message::Thanks)].concat(),
        ] {
            held.push(say(&stranger, &place, &bytes).await);
        }
        let joined = come(&guest, &place, right()).await;
        drop(held);
        joined
    };
    let met = futures::join!(host.next(), strangers);
    assert_introduced(met, host.node.peer(), guest.peer());
}

/// A node that answers as an inviter would, without knowing the code.
async fn impostor(answers: Vec<Message>) -> Node {
    let (node, mut inbound) = node(&[BOTH[0]], true).await;
    let mut introductions = inbound.take_introductions().unwrap();
    tokio::spawn(async move {
        let (_connection, mut stream) = introductions.next().await.unwrap();
        for answer in answers {
            hear(&mut stream).await;
            stream.write_all(&encode(&answer)).await.unwrap();
            stream.flush().await.unwrap();
        }
        // Until the guest has had enough.
        let _ = stream.read(&mut [0; 1]).await;
        drop(inbound);
    });
    node
}

#[tokio::test]
async fn a_guest_believes_nobody_who_does_not_know_the_code() {
    let welcome = Message::Welcome(Welcome { proof: [0; PROOF_BYTES], sealed: vec![0; 64] });
    let share = Message::Share(share(b'B'));
    let (guest, _inbound) = node(&[], false).await;
    for (answers, expected) in [
        (vec![share.clone(), welcome.clone()], "it does not know the code"),
        (vec![welcome.clone()], "its welcome came where a share was due"),
        (vec![share.clone(), Message::Thanks], "its thanks came where a welcome was due"),
        (vec![Message::Share([0; SHARE_BYTES])], "the share of the key exchange is none"),
    ] {
        let impostor = impostor(answers).await;
        let error = come(&guest, &found(&impostor), right()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    // Who is no inviter does not keep the guest from the one who is.
    let (impostor, mut host) = (impostor(vec![share, welcome]).await, Host::start(right()).await);
    let password = right();
    let joining = Joining { password: &password, purpose: Purpose::Fetch, says: b"thank you".to_vec() };
    let candidates = vec![found(&impostor), found(&host.node)];
    let met = futures::join!(host.next(), join(&guest, &joining, candidates));
    assert_introduced(met, host.node.peer(), guest.peer());
}

#[tokio::test]
async fn those_who_wait_for_another_code_use_up_no_guess() {
    let (guest, _inbound) = node(&[], false).await;
    let mut others = Vec::new();
    for number in 10..16 {
        others.push(Host::start(code(&format!("{number}-crossword-almond"))).await);
    }
    let mut host = Host::start(right()).await;
    let candidates: Vec<_> = others.iter().chain([&host]).map(|host| found(&host.node)).collect();
    let password = right();
    let joining = Joining { password: &password, purpose: Purpose::Fetch, says: b"thank you".to_vec() };
    let turning_away = join_all(others.iter_mut().map(Host::next));
    let met = tokio::select! {
        met = async { futures::join!(host.next(), join(&guest, &joining, candidates)) } => met,
        _ = turning_away => panic!("nobody came for these"),
    };
    assert_introduced(met, host.node.peer(), guest.peer());
    assert!(others.iter().all(|other| other.turned_away() == ["it came for another code"]));
}

#[tokio::test]
async fn of_many_who_say_that_they_wait_four_may_guess() {
    let (guest, _inbound) = node(&[], false).await;
    let welcome = Message::Welcome(Welcome { proof: [0; PROOF_BYTES], sealed: vec![0; 64] });
    let mut impostors = Vec::new();
    for _ in 0..7 {
        impostors.push(impostor(vec![Message::Share(share(b'B')), welcome.clone()]).await);
    }
    let candidates = impostors.iter().map(found).collect();
    let password = right();
    let joining = Joining { password: &password, purpose: Purpose::Fetch, says: Vec::new() };
    let error = join(&guest, &joining, candidates).await.unwrap_err();
    let JoinError::Failed(tried) = &error else { panic!("{error}") };
    let of = |is: fn(&GuestError) -> bool| tried.iter().filter(|(_, error)| is(error)).count();
    assert_eq!(of(|error| matches!(error, GuestError::Impostor)), 4, "{error}");
    assert_eq!(of(|error| matches!(error, GuestError::Enough)), 3, "{error}");
}

#[tokio::test]
async fn an_inviter_that_goes_is_missed() {
    let (guest, _inbound) = node(&[], false).await;
    let mut host = Host::start(right()).await;
    let place = found(&host.node);
    let mut stream = say(&guest, &place, &[]).await;
    drop(host.next());
    drop(host);
    assert!(stream.read(&mut [0; 1]).await.map_or(true, |read| read == 0));
    let error = come(&guest, &place, right()).await.unwrap_err();
    let JoinError::Failed(tried) = &error else { panic!("{error}") };
    assert!(
        matches!(
            tried[0].1,
            GuestError::Dial(_) | GuestError::Stream(_) | GuestError::Line(LineError::Broken { .. })
        ),
        "{error}"
    );
}
