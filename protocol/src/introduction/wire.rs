//! The messages as protocol buffers, and the parsing of each into its checked form. Field numbers are those of
//! `docs/wire-format.md`.

use prost::{Message as ProstMessage, Oneof};

use super::{Card, Hello, Message, MessageError, Nameplate, PROOF_BYTES, Purpose, Refusal, Welcome};
use crate::limits::{CARD_ADDRESS_BYTES, CARD_ADDRESSES, CARD_NAME_BYTES};

#[derive(Clone, PartialEq, ProstMessage)]
struct Envelope {
    #[prost(oneof = "Body", tags = "1, 2, 3, 4, 5, 6, 7")]
    body: Option<Body>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Body {
    #[prost(message, tag = "1")]
    Hello(WireHello),
    #[prost(bytes, tag = "2")]
    Share(Vec<u8>),
    #[prost(bytes, tag = "3")]
    Proof(Vec<u8>),
    #[prost(message, tag = "4")]
    Welcome(WireWelcome),
    #[prost(bytes, tag = "5")]
    Card(Vec<u8>),
    #[prost(message, tag = "6")]
    Thanks(Nothing),
    #[prost(uint32, tag = "7")]
    Refuse(u32),
}

#[derive(Clone, Copy, PartialEq, ProstMessage)]
struct Nothing {}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireHello {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(uint32, tag = "2")]
    purpose: u32,
    #[prost(uint32, tag = "3")]
    nameplate: u32,
    #[prost(bytes = "vec", tag = "4")]
    share: Vec<u8>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireWelcome {
    #[prost(bytes = "vec", tag = "1")]
    proof: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    sealed: Vec<u8>,
}

#[derive(Clone, PartialEq, ProstMessage)]
struct WireCard {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "vec", repeated, tag = "2")]
    addresses: Vec<Vec<u8>>,
}

pub(super) fn encode(message: &Message) -> Vec<u8> {
    let body = match message {
        Message::Hello(hello) => Body::Hello(WireHello {
            version: hello.version,
            purpose: purpose_number(hello.purpose),
            nameplate: hello.nameplate.map_or(0, |nameplate| nameplate.number().into()),
            share: hello.share.to_vec(),
        }),
        Message::Share(share) => Body::Share(share.to_vec()),
        Message::Proof(proof) => Body::Proof(proof.to_vec()),
        Message::Welcome(Welcome { proof, sealed }) => {
            Body::Welcome(WireWelcome { proof: proof.to_vec(), sealed: sealed.clone() })
        }
        Message::Card(sealed) => Body::Card(sealed.clone()),
        Message::Thanks => Body::Thanks(Nothing {}),
        Message::Refuse(refusal) => Body::Refuse(refusal.code()),
    };
    Envelope { body: Some(body) }.encode_to_vec()
}

pub(super) fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
    let envelope = Envelope::decode(bytes).map_err(malformed)?;
    Ok(match envelope.body.ok_or(MessageError::Field("kind"))? {
        Body::Hello(hello) => Message::Hello(hello.try_into()?),
        Body::Share(share) => Message::Share(exactly(share, "share")?),
        Body::Proof(proof) => Message::Proof(exactly(proof, "proof")?),
        Body::Welcome(WireWelcome { proof, sealed }) => {
            Message::Welcome(Welcome { proof: exactly::<PROOF_BYTES>(proof, "proof")?, sealed })
        }
        Body::Card(sealed) => Message::Card(sealed),
        Body::Thanks(Nothing {}) => Message::Thanks,
        Body::Refuse(number) => {
            Message::Refuse(refusal_of(number).ok_or(MessageError::Field("reason of a refusal"))?)
        }
    })
}

pub(super) fn encode_card(card: &Card) -> Vec<u8> {
    WireCard { name: card.name.clone(), addresses: card.addresses.clone() }.encode_to_vec()
}

pub(super) fn decode_card(bytes: &[u8]) -> Result<Card, MessageError> {
    let WireCard { name, addresses } = WireCard::decode(bytes).map_err(malformed)?;
    if name.len() > CARD_NAME_BYTES {
        return Err(MessageError::Field("name"));
    }
    if addresses.len() > CARD_ADDRESSES {
        return Err(MessageError::Field("number of addresses"));
    }
    if addresses.iter().any(|address| address.len() > CARD_ADDRESS_BYTES) {
        return Err(MessageError::Field("address"));
    }
    Ok(Card { name, addresses })
}

impl TryFrom<WireHello> for Hello {
    type Error = MessageError;

    fn try_from(hello: WireHello) -> Result<Self, MessageError> {
        let nameplate = match hello.nameplate {
            0 => None,
            number => Some(Nameplate::new(number).ok_or(MessageError::Field("nameplate"))?),
        };
        Ok(Self {
            version: hello.version,
            purpose: purpose_of(hello.purpose).ok_or(MessageError::Field("purpose"))?,
            nameplate,
            share: exactly(hello.share, "share")?,
        })
    }
}

fn malformed(error: prost::DecodeError) -> MessageError {
    MessageError::Malformed(error.to_string())
}

fn exactly<const N: usize>(bytes: Vec<u8>, field: &'static str) -> Result<[u8; N], MessageError> {
    bytes.try_into().map_err(|_| MessageError::Field(field))
}

fn purpose_number(purpose: Purpose) -> u32 {
    match purpose {
        Purpose::Fetch => 1,
        Purpose::Pair => 2,
    }
}

fn purpose_of(number: u32) -> Option<Purpose> {
    [Purpose::Fetch, Purpose::Pair].into_iter().find(|purpose| purpose_number(*purpose) == number)
}

fn refusal_of(code: u32) -> Option<Refusal> {
    Refusal::ALL.into_iter().find(|refusal| refusal.code() == code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::introduction::SHARE_BYTES;

    fn hello() -> Hello {
        Hello { version: 1, purpose: Purpose::Pair, nameplate: Nameplate::new(7), share: [7; SHARE_BYTES] }
    }

    fn decoded(hello: WireHello) -> Result<Message, MessageError> {
        decode(&Envelope { body: Some(Body::Hello(hello)) }.encode_to_vec())
    }

    fn wire(hello: &Hello) -> WireHello {
        let bytes = encode(&Message::Hello(hello.clone()));
        let Some(Body::Hello(wire)) = Envelope::decode(&bytes[..]).unwrap().body else { panic!("no hello") };
        wire
    }

    #[test]
    fn every_message_comes_back_as_it_was() {
        let mut messages = vec![
            Message::Hello(hello()),
            Message::Hello(Hello { nameplate: None, purpose: Purpose::Fetch, ..hello() }),
            Message::Share([1; SHARE_BYTES]),
            Message::Proof([2; PROOF_BYTES]),
            Message::Welcome(Welcome { proof: [3; PROOF_BYTES], sealed: vec![4; 100] }),
            Message::Card(vec![5; 100]),
            Message::Thanks,
        ];
        messages.extend(Refusal::ALL.map(Message::Refuse));
        for message in messages {
            assert_eq!(decode(&encode(&message)), Ok(message));
        }
        assert_eq!((refusal_of(0), refusal_of(9), purpose_of(0), purpose_of(3)), (None, None, None, None));
    }

    #[test]
    fn an_impossible_hello_is_refused() {
        let right = wire(&hello());
        assert!(decoded(right.clone()).is_ok());
        let wrong = [
            (WireHello { purpose: 0, ..right.clone() }, "purpose"),
            (WireHello { purpose: 3, ..right.clone() }, "purpose"),
            (WireHello { nameplate: 10_000, ..right.clone() }, "nameplate"),
            (WireHello { nameplate: u32::MAX, ..right.clone() }, "nameplate"),
            (WireHello { share: vec![0; 32], ..right.clone() }, "share"),
            (WireHello { share: Vec::new(), ..right }, "share"),
        ];
        for (hello, field) in wrong {
            assert_eq!(decoded(hello), Err(MessageError::Field(field)));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(decode(&[]), Err(MessageError::Field("kind")));
        assert!(matches!(decode(&[0xff; 20]), Err(MessageError::Malformed(_))));
        for body in [Body::Share(vec![0; 34]), Body::Proof(vec![0; 31]), Body::Refuse(99)] {
            let bytes = Envelope { body: Some(body) }.encode_to_vec();
            assert!(matches!(decode(&bytes), Err(MessageError::Field(_))));
        }
    }

    #[test]
    fn a_message_that_is_cut_or_changed_is_read_or_refused() {
        let welcome = Message::Welcome(Welcome { proof: [3; PROOF_BYTES], sealed: vec![4; 9] });
        let card = Card { name: "laptop".into(), addresses: vec![vec![1; 9]] }.encode();
        for bytes in [
            encode(&Message::Hello(hello())),
            encode(&welcome),
            encode(&Message::Refuse(Refusal::Wrong)),
            card,
        ] {
            for place in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[place] ^= 0x81;
                for bytes in [&bytes[..place], &changed] {
                    // Whatever it is, a reader that is done with it has bounded fields, or an error.
                    let _ = (decode(bytes), decode_card(bytes));
                }
            }
        }
    }

    #[test]
    fn a_card_has_a_short_name_and_few_addresses() {
        let longest = Card {
            name: "x".repeat(CARD_NAME_BYTES),
            addresses: vec![vec![1; CARD_ADDRESS_BYTES]; CARD_ADDRESSES],
        };
        assert_eq!(Card::decode(&longest.encode()), Ok(longest.clone()));
        let longer_name = Card { name: "x".repeat(CARD_NAME_BYTES + 1), ..longest.clone() };
        let more = Card { addresses: vec![vec![]; CARD_ADDRESSES + 1], ..longest.clone() };
        let longer_address = Card { addresses: vec![vec![1; CARD_ADDRESS_BYTES + 1]], ..longest };
        for card in [longer_name, more, longer_address] {
            assert!(matches!(Card::decode(&card.encode()), Err(MessageError::Field(_))));
        }
    }
}
