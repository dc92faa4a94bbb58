//! Sessions that hear messages in any order.

use std::{sync::Arc, time::Duration};

use ketch_protocol::{
    difference::{Catalogue, CatalogueBuilder},
    limits::VERSION,
    manifest::{Entry, EntryKind, Timestamp},
    message::{Ask, Claim, Connections, Message, Offer, Place, Policy, Propose, Selection, ShareName},
    path::EntryPath,
    session::{Receiver, Sender, receiver, sender},
};
use proptest::{collection::vec, prelude::*};

use crate::messages::{ask, message};

/// A proposal that an ask would answer.
fn propose_what(ask: &Ask) -> Propose {
    Propose {
        version: VERSION,
        session: ask.session,
        place: Place { share: ShareName::parse("photos").unwrap(), path: None },
        selection: Selection::default(),
        policy: Policy { preview: ask.preview, ..Policy::default() },
        connections: Connections::ONE,
        controller: None,
    }
}

fn catalogue(entries: &[Entry]) -> Arc<Catalogue> {
    let mut builder = CatalogueBuilder::new([9; 16]);
    entries.iter().for_each(|entry| builder.push(entry));
    Arc::new(builder.finish())
}

proptest! {
    #[test]
    fn no_order_of_messages_makes_a_sender_panic(ask in ask(), messages in vec(message(), 0..30)) {
        use sender::{Action, Input};
        let mut machine = if ask.claim == Claim::Proposed {
            Sender::propose(propose_what(&ask)).0
        } else {
            Sender::default()
        };
        let entries = ["a", "b", "c", "d"].map(|name| {
            let path = EntryPath::parse(name.as_bytes()).unwrap();
            Entry::new(path, EntryKind::File { size: 20 << 20 }, 0o644, Timestamp::default())
        });
        let prelude = [
            Input::Message(Message::Ask(ask)),
            Input::Admitted { estimate: None, connections: Connections::MOST, disk: None },
            Input::Listed { entries: entries.to_vec(), problems: Vec::new() },
        ];
        let mut inputs: Vec<Input> =
            prelude.into_iter().chain(messages.into_iter().map(Input::Message)).rev().collect();
        let (mut ended, mut second) = (false, 0);
        while let Some(input) = inputs.pop() {
            second += 1;
            for action in machine.handle(input, Duration::from_secs(second)) {
                prop_assert!(!ended, "{action:?} follows the end");
                ended = matches!(action, Action::End(_));
                if action == Action::Catalogue {
                    inputs.push(Input::Catalogued { catalogue: catalogue(&entries), problems: Vec::new() });
                }
            }
            if machine.may_announce() {
                inputs.push(Input::Room);
            }
        }
    }

    #[test]
    fn no_order_of_messages_makes_a_receiver_panic(ask in ask(), messages in vec(message(), 0..30)) {
        use receiver::{Action, Answer, Input, Outcome};
        let (mut machine, _) = if ask.claim == Claim::Proposed {
            Receiver::answer(propose_what(&ask))
        } else {
            Receiver::new(ask.clone())
        };
        let offer = Message::Offer(Offer { version: VERSION, estimate: None, connections: Connections::ONE, congestion: None, disk: None });
        let mut inputs: Vec<Input> =
            [offer].into_iter().chain(messages).rev().map(Input::Message).collect();
        // What answers a proposal is said before the offer is heard.
        inputs.push(Input::Admitted { target: ask.target, connections: Connections::MOST });
        let (mut ended, mut second) = (false, 0);
        while let Some(input) = inputs.pop() {
            second += 1;
            for action in machine.handle(input, Duration::from_secs(second)) {
                prop_assert!(!ended, "{action:?} follows the end");
                match action {
                    Action::Plan { first, .. } => {
                        inputs.push(Input::Outcomes(vec![(first, Outcome::Created)]));
                    }
                    Action::Catalogue => {
                        inputs.push(Input::Catalogued { catalogue: catalogue(&[]), agreed: None });
                    }
                    Action::Consult { .. } => inputs.push(Input::Consent(Answer::Yes)),
                    Action::Finish => inputs.push(Input::Finished { late: Vec::new() }),
                    Action::End(_) => ended = true,
                    Action::Send(_) | Action::Admit(_)
                    | Action::Offered(_)
                    | Action::Compared
                    | Action::Report(_) => {}
                }
            }
        }
    }
}
