//! The two roles of a session say the example.

use std::time::Duration;

use ketch_protocol::{
    manifest::EntryId,
    message::{Connections, DiskId},
    session::{
        Ending, Receiver, Sender,
        receiver::{self, Answer, Outcome},
        sender,
    },
};

use crate::example::{COUNTS, TOTALS, entries, gone, pipe, said_by_receiver, said_by_sender, the_ask};

#[test]
fn a_sender_says_its_side_of_the_example() {
    use sender::{Action, Input};
    let [ask, accept, want, settled, done] = said_by_receiver().try_into().expect("five messages");
    let inputs = [
        Input::Message(ask),
        Input::Admitted {
            estimate: Some(TOTALS),
            connections: Connections::ONE,
            disk: Some(DiskId([0xd0; 16])),
        },
        Input::Listed { entries: entries(), problems: vec![pipe()] },
        Input::ListEnded,
        Input::Message(accept),
        Input::Message(want),
        Input::Message(settled),
        Input::Message(done),
    ];
    let mut machine = Sender::default();
    let (mut said, mut endings) = (Vec::new(), Vec::new());
    for action in inputs.into_iter().flat_map(|input| machine.handle(input, Duration::ZERO)) {
        match action {
            Action::Send(message) => said.push(message),
            Action::End(ending) => endings.push(ending),
            Action::Admit(_)
            | Action::List
            | Action::Catalogue
            | Action::Read(_)
            | Action::Report(_)
            | Action::Settled { .. }
            | Action::Removed(_) => {}
        }
    }
    assert_eq!((said, endings), (said_by_sender(), vec![Ending::Complete(COUNTS)]));
}

#[test]
fn a_receiver_says_its_side_of_the_example() {
    use receiver::{Action, Input};
    let [offer, manifest, end, farewell] = said_by_sender().try_into().expect("four messages");
    let outcomes = |outcomes: &[(u64, Outcome)]| {
        Input::Outcomes(outcomes.iter().map(|(id, outcome)| (EntryId(*id), outcome.clone())).collect())
    };
    let planned = [
        (0, Outcome::Created),
        (1, Outcome::Content),
        (2, Outcome::Content),
        (3, Outcome::Created),
        (4, Outcome::Digest),
    ];
    let arrived = [(1, Outcome::Created), (2, Outcome::Problem(gone())), (4, Outcome::Kept)];
    let inputs = [
        Input::Message(offer),
        Input::Message(manifest),
        Input::Message(end),
        Input::Consent(Answer::Yes),
        outcomes(&planned),
        outcomes(&arrived),
        Input::Finished { late: Vec::new() },
        Input::Message(farewell),
    ];
    let (mut machine, first) = Receiver::new(the_ask());
    let (mut said, mut endings) = (Vec::new(), Vec::new());
    let rest = inputs.into_iter().flat_map(|input| machine.handle(input, Duration::ZERO));
    for action in first.into_iter().chain(rest) {
        match action {
            Action::Send(message) => said.push(message),
            Action::End(ending) => endings.push(ending),
            Action::Admit(_)
            | Action::Offered(_)
            | Action::Catalogue
            | Action::Compared
            | Action::Consult { .. }
            | Action::Plan { .. }
            | Action::Finish
            | Action::Report(_) => {}
        }
    }
    assert_eq!((said, endings), (said_by_receiver(), vec![Ending::Complete(COUNTS)]));
}
