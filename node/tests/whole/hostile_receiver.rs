//! A receiver that keeps to no rule: a real `ketch send` turns it away, goes on offering, and serves an
//! honest receiver afterwards.

use std::{fs, time::Duration};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch::swarm::TransportKind::{Quic, Tcp};
use ketch_protocol::{
    io::StreamKind,
    limits::{HELLO_TIMEOUT_S, WHOLE_BYTES},
    message::{
        Ask, Claim, Consent, Counts, Message, Parts, Place as SharePlace, Refuse, Run, Secret, SessionId,
        Settled, ShareName, TargetView, Want, encode,
    },
    problem::Reason,
};
use tokio::time::timeout;

use crate::{
    peer::{Control, PlayedReceiver},
    place::{BOTH, Place, parse},
    process::{Ketch, PATIENCE},
    wire::{bytes, frame, number},
};

/// A sender of a directory (entry 0), a small file (1) and a large one (2), for any number of receivers: a
/// ticket for one use would be reserved for the first who comes.
struct Offered {
    place: Place,
    sender: Ketch,
    ticket: String,
}

impl Offered {
    async fn over(transport: ketch::swarm::TransportKind) -> Self {
        let place = Place::new();
        place.write("tree/a", "small");
        place.write("tree/b", vec![1; WHOLE_BYTES as usize + 1]);
        let (sender, ticket) = place.send(transport, &[&place.offered("tree")], &["--uses", "50"]).await;
        Self { place, sender, ticket }
    }

    async fn meet(&self) -> PlayedReceiver {
        PlayedReceiver::dial(&parse(&self.ticket)).await
    }

    /// An honest receiver gets everything.
    async fn still_serves(&mut self) {
        let _ = fs::remove_dir_all(self.place.target());
        Ketch::start(self.place.receive(&self.ticket, &[])).end().await.expect(0);
        self.sender.event("done").await;
        self.place.assert_equal();
    }
}

fn run(first: u64, count: u64) -> Vec<Run> {
    vec![Run { first, count }]
}

/// Waits until the sender refuses to go on.
async fn refused(mut control: Control) -> Refuse {
    control
        .hear_until(|message| if let Message::Refuse(refuse) = message { Some(refuse) } else { None })
        .await
}

/// Says `bytes` in an admitted session over each transport; the sender must end it and serve the next.
async fn is_violation(cases: &[(&str, Vec<u8>, &str)]) {
    for transport in BOTH {
        let mut offered = Offered::over(transport).await;
        for (case, bytes, words) in cases {
            let receiver = offered.meet().await;
            let mut control = receiver.session(TargetView::Occupied).await;
            control.hear_until(|message| matches!(message, Message::ManifestEnd(_)).then_some(())).await;
            control.say_bytes(bytes).await;
            let refuse = refused(control).await;
            assert_eq!(refuse.reason, Reason::Violation, "{case}");
            assert!(refuse.detail.contains(words), "{case}: {}", refuse.detail);
            let ended = offered.sender.event("session_ended").await;
            assert!(ended["error"].as_str().unwrap().contains(words), "{case}: {ended}");
        }
        offered.still_serves().await;
    }
}

#[tokio::test]
async fn wants_of_what_is_not_there_are_refused() {
    let want = |want| encode(&Message::Want(want));
    let content = |runs| want(Want { content: runs, ..Want::default() });
    let parts = |id, content| {
        let parts = vec![Parts { id: ketch_protocol::manifest::EntryId(id), content, digest: Vec::new() }];
        want(Want { parts, ..Want::default() })
    };
    is_violation(&[
        ("never announced", content(run(99, 1)), "it named entry 99"),
        ("far beyond", content(run(u64::MAX - 1, 1)), "which is not open"),
        ("a directory", content(run(0, 1)), "it named a part of entry 0"),
        ("a directory's hash", want(Want { digest: run(0, 1), ..Want::default() }), "a part of entry 0"),
        ("a range beyond the end", parts(2, run(9, 1)), "it named a part of entry 2"),
        ("ranges of a small file", parts(1, run(0, 1)), "it named a part of entry 1"),
    ])
    .await;
}

#[tokio::test]
async fn wants_without_end_are_refused() {
    let everything = [number(1, 0), number(2, u64::MAX)].concat();
    let everything = frame(&bytes(7, &bytes(1, &everything)));
    let again = encode(&Message::Want(Want { content: vec![run(1, 1)[0]; 5], ..Want::default() }));
    is_violation(&[
        ("all numbers", everything, "a message has an impossible number of wanted entries"),
        ("again and again", again, "it wanted entry 1 again and again"),
    ])
    .await;
}

#[tokio::test]
async fn lies_about_what_is_stored_are_refused() {
    let settled = |settled| encode(&Message::Settled(settled));
    let stored = settled(Settled { created: run(0, 3), ..Settled::default() });
    let done = |sent| encode(&Message::Done(Counts { listed: 3, sent, ..Counts::default() }));
    is_violation(&[
        (
            "never announced",
            settled(Settled { created: run(7, 1), ..Settled::default() }),
            "it named entry 7",
        ),
        ("without end", settled(Settled { kept: run(0, 1 << 40), ..Settled::default() }), "it named entry 3"),
        ("twice", [stored.clone(), stored.clone()].concat(), "it named entry 0"),
        ("done too early", done(3), "\"done\" came while waiting for settled"),
        ("a wrong account", [stored, done(2)].concat(), "its account differs"),
        ("the sender's words", frame(&bytes(10, b"")), "\"farewell\" came while"),
        ("garbage", frame(&[0xff; 100]), "a message could not be decoded"),
        ("a huge frame", vec![0xff; 8], "a message of 4294967295 bytes"),
    ])
    .await;
}

#[tokio::test]
async fn strangers_learn_nothing_and_take_no_place() {
    for transport in BOTH {
        let mut offered = Offered::over(transport).await;
        let receiver = offered.meet().await;
        let ask = receiver.ask(TargetView::Empty);
        let guess = Claim::Ticket(Secret::from_bytes([0; 16]));
        let share = Claim::Share(SharePlace { share: ShareName::parse("photos").unwrap(), path: None });
        for strange in [
            Ask { claim: guess, ..ask.clone() },
            Ask { claim: share, ..ask.clone() },
            Ask { target: TargetView::Comparable, ..ask.clone() },
        ] {
            let mut control = receiver.control().await;
            control.say(&Message::Ask(strange)).await;
            let refuse = refused(control).await;
            assert_eq!((refuse.reason, refuse.detail.as_str()), (Reason::NotAdmitted, ""));
        }

        let mut control = receiver.control().await;
        control.say(&Message::Ask(Ask { version: 9, ..ask })).await;
        assert_eq!(refused(control).await.reason, Reason::Version);

        let mut control = receiver.control().await;
        control.say(&Message::Done(Counts::default())).await;
        assert_eq!(refused(control).await.reason, Reason::Violation);
        offered.still_serves().await;
    }
}

#[tokio::test]
async fn a_data_stream_to_a_sender_is_reset() {
    for transport in BOTH {
        let mut offered = Offered::over(transport).await;
        let receiver = offered.meet().await;
        for kind in [&[1; 17][..], &[9; 17]] {
            let mut stream = receiver.stream().await;
            stream.write_all(kind).await.unwrap();
            stream.flush().await.unwrap();
            let heard = timeout(PATIENCE, stream.read(&mut [0])).await.unwrap();
            assert!(matches!(heard, Ok(0) | Err(_)), "{heard:?}");
        }
        offered.still_serves().await;
    }
}

#[tokio::test]
async fn a_receiver_that_hangs_up_in_the_middle_is_noticed() {
    let mut offered = Offered::over(Tcp).await;
    let receiver = offered.meet().await;
    let _control = receiver.session(TargetView::Empty).await;
    receiver.connection.close().await;
    let ended = offered.sender.event("session_ended").await;
    assert!(ended["error"].as_str().unwrap().contains("the connection was lost"), "{ended}");
    offered.still_serves().await;
}

#[tokio::test]
async fn consent_given_twice_is_refused() {
    let mut offered = Offered::over(Quic).await;
    let receiver = offered.meet().await;
    let mut control = receiver.control().await;
    let ask = Ask { consent: Consent::Pending, ..receiver.ask(TargetView::Empty) };
    control.say(&Message::Ask(ask)).await;
    control.say(&Message::Accept).await;
    control.say(&Message::Accept).await;
    assert_eq!(refused(control).await.reason, Reason::Violation);
    offered.still_serves().await;
}

/// Streams of one peer that say half of what they should, or nothing, and are never closed.
#[tokio::test]
async fn a_thousand_streams_of_one_peer_keep_nobody_out() {
    for transport in BOTH {
        let mut offered = Offered::over(transport).await;
        let (mut held, mut held_by) = (Vec::new(), Vec::new());
        // A node opens at most 512 streams on a connection.
        for _ in 0..2 {
            let receiver = offered.meet().await;
            for index in 0..500 {
                let Ok(mut stream) = receiver.connection.open_stream().await else { break };
                let slow: &[u8] = if index % 2 == 0 { &[0, 0] } else { &[] };
                let _ = stream.write_all(slow).await;
                let _ = stream.flush().await;
                held.push(stream);
            }
            held_by.push(receiver);
            // Each of these streams may keep its place for as long as a hello may take.
            let limit = Duration::from_secs(HELLO_TIMEOUT_S) / 2;
            timeout(limit, offered.still_serves())
                .await
                .expect("an honest receiver should be served at once");
        }
    }
}

#[tokio::test]
async fn a_peer_that_asks_and_never_reads_keeps_nobody_out() {
    let mut offered = Offered::over(Tcp).await;
    let receiver = offered.meet().await;
    let mut stream = receiver.stream().await;
    StreamKind::Control.write(&mut stream).await.unwrap();
    let ask = Ask { session: SessionId([1; 16]), ..receiver.ask(TargetView::Empty) };
    stream.write_all(&encode(&Message::Ask(ask))).await.unwrap();
    stream.flush().await.unwrap();
    offered.sender.event("admitted").await;
    offered.still_serves().await;
}
