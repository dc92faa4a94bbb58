//! Handshakes with ourselves and with stock peers, and certificates that prove nothing.

use std::time::Duration;

use libp2p_core::upgrade::{InboundConnectionUpgrade, OutboundConnectionUpgrade};
use libp2p_tcp::tokio::TcpStream;
use rcgen::{
    CertificateParams, CustomExtension, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ED25519, date_time_ymd,
};
use rustls::{
    CipherSuite,
    pki_types::{PrivateKeyDer, UnixTime},
};

use super::{
    certificate::{EXTENSION, parameters, signed_key},
    *,
};

/// Two ends of a TCP connection on loopback.
async fn sockets() -> (TcpStream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialed, accepted) = futures::join!(tokio::net::TcpStream::connect(address), listener.accept());
    (TcpStream(dialed.unwrap()), TcpStream(accepted.unwrap().0))
}

fn suite(stream: &TlsStream<TcpStream>) -> Option<CipherSuite> {
    stream.get_ref().1.negotiated_cipher_suite().map(|suite| suite.suite())
}

struct Ends {
    ours: Tls,
    our_peer: PeerId,
    stock: libp2p_tls::Config,
    stock_peer: PeerId,
}

fn ends() -> Ends {
    let (ours, stock) = (Keypair::generate_ed25519(), Keypair::generate_ed25519());
    Ends {
        ours: Tls::new(&ours).unwrap(),
        our_peer: ours.public().to_peer_id(),
        stock: libp2p_tls::Config::new(&stock).unwrap(),
        stock_peer: stock.public().to_peer_id(),
    }
}

#[tokio::test]
async fn our_peers_prove_themselves_and_agree_on_aes_128() {
    let (dialer, listener) = (ends(), ends());
    let (near, far) = sockets().await;
    let (connected, accepted) = futures::join!(dialer.ours.connect(near), listener.ours.accept(far));
    let ((listener_peer, stream), (dialer_peer, _)) = (connected.unwrap(), accepted.unwrap());
    assert_eq!((listener_peer, dialer_peer), (listener.our_peer, dialer.our_peer));
    assert_eq!(suite(&stream), Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
}

#[tokio::test]
async fn a_stock_dialer_is_given_aes_128_against_its_own_order() {
    let Ends { ours, our_peer, stock, stock_peer } = ends();
    let (near, far) = sockets().await;
    let (connected, accepted) = futures::join!(stock.upgrade_outbound(near, PROTOCOL), ours.accept(far));
    let ((listener_peer, _), (dialer_peer, stream)) = (connected.unwrap(), accepted.unwrap());
    assert_eq!((listener_peer, dialer_peer), (our_peer, stock_peer));
    assert_eq!(suite(&stream), Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
}

#[tokio::test]
async fn a_stock_listener_is_understood() {
    let Ends { ours, our_peer, stock, stock_peer } = ends();
    let (near, far) = sockets().await;
    let (connected, accepted) = futures::join!(ours.connect(near), stock.upgrade_inbound(far, PROTOCOL));
    let ((listener_peer, stream), (dialer_peer, _)) = (connected.unwrap(), accepted.unwrap());
    assert_eq!((listener_peer, dialer_peer), (stock_peer, our_peer));
    assert_eq!(suite(&stream), Some(CipherSuite::TLS13_AES_128_GCM_SHA256));
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_790_000_000))
}

/// What is wrong with a certificate that was presented, if anything is.
fn fault(der: &[u8], now: UnixTime) -> Option<CertificateError> {
    let algorithms = provider().signature_verification_algorithms.all;
    Presented::parse(der).and_then(|presented| presented.verify(now, algorithms)).err()
}

fn vector(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A certificate that differs from ours by what `change` makes of it, under a signature of its own.
fn changed(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    signed(&key, &key, change)
}

/// The same with the key `signer`, while the identity signs `key`.
fn signed(key: &KeyPair, signer: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut parameters = parameters(&Keypair::generate_ed25519(), key).unwrap();
    change(&mut parameters);
    parameters.self_signed(signer).unwrap().der().to_vec()
}

fn unknown_extension(is_critical: bool) -> CustomExtension {
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    extension.set_criticality(is_critical);
    extension
}

#[test]
fn the_vectors_of_the_specification_are_told_apart() {
    let valid = vector(vectors::ED25519);
    assert!(fault(&valid, now()).is_none());
    assert_eq!(Presented::parse(&valid).unwrap().peer().to_string(), vectors::ED25519_PEER);
    assert!(matches!(fault(&vector(vectors::FORGED), now()), Some(CertificateError::IdentitySignature)));
    // Identities of these kinds exist, and are none of ours.
    for digits in [vectors::ECDSA, vectors::SECP256K1] {
        let fault = fault(&vector(digits), now());
        assert!(matches!(fault, Some(CertificateError::IdentityKey(_))), "{fault:?}");
    }
}

#[test]
fn a_certificate_of_ours_is_one_to_us_and_to_stock_peers() {
    let identity = Keypair::generate_ed25519();
    let (certificate, _) = certificate::make(&identity).unwrap();
    assert!(fault(&certificate, now()).is_none());
    let peer = identity.public().to_peer_id();
    assert_eq!(Presented::parse(&certificate).unwrap().peer(), peer);
    assert_eq!(libp2p_tls::certificate::parse(&certificate).unwrap().peer_id(), peer);
}

#[test]
fn a_certificate_of_a_stock_peer_is_one() {
    let identity = Keypair::generate_ed25519();
    let (certificate, _) = libp2p_tls::certificate::generate(&identity).unwrap();
    assert!(fault(&certificate, now()).is_none());
    assert_eq!(Presented::parse(&certificate).unwrap().peer(), identity.public().to_peer_id());
}

#[test]
fn a_certificate_is_valid_from_its_first_to_its_last_second() {
    let certificate = changed(|parameters| {
        parameters.not_before = date_time_ymd(2026, 1, 1);
        parameters.not_after = date_time_ymd(2026, 1, 2);
    });
    let (from, to) = (1_767_225_600, 1_767_312_000);
    let at = |second| fault(&certificate, UnixTime::since_unix_epoch(Duration::from_secs(second)));
    assert!(at(from).is_none() && at(to).is_none());
    for second in [0, from - 1, to + 1, u64::MAX] {
        assert!(matches!(at(second), Some(CertificateError::Expired { .. })), "{second}");
    }
}

#[test]
fn extensions_that_are_not_known_matter_where_they_are_critical() {
    let with = |is_critical| {
        fault(&changed(|parameters| parameters.custom_extensions.push(unknown_extension(is_critical))), now())
    };
    assert!(with(false).is_none());
    let Some(CertificateError::CriticalExtension(named)) = with(true) else { panic!("it was taken") };
    assert_eq!(named, "1.2.3.4");
}

#[test]
fn a_certificate_has_exactly_one_identity() {
    let none = changed(|parameters| parameters.custom_extensions.clear());
    assert!(matches!(fault(&none, now()), Some(CertificateError::Identities(0))));
    let two =
        changed(|parameters| parameters.custom_extensions.push(parameters.custom_extensions[0].clone()));
    assert!(matches!(
        fault(&two, now()),
        Some(CertificateError::Identities(2) | CertificateError::Malformed)
    ));
}

#[test]
fn what_holds_the_identity_must_be_well_formed() {
    let holding = |content: Vec<u8>| {
        fault(
            &changed(|parameters| {
                parameters.custom_extensions = vec![CustomExtension::from_oid_content(EXTENSION, content)];
            }),
            now(),
        )
    };
    // Nothing, no sequence, an empty one, one string, three, and something behind.
    for content in [
        vec![],
        vec![4, 0],
        vec![0x30, 0],
        vec![0x30, 2, 4, 0],
        vec![0x30, 6, 4, 0, 4, 0, 4, 0],
        vec![0x30, 4, 4, 0, 4, 0, 0],
        vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
    ] {
        let fault = holding(content.clone());
        assert!(matches!(fault, Some(CertificateError::MalformedIdentity)), "{content:?}: {fault:?}");
    }
    assert!(matches!(holding(signed_key(b"", b"")), Some(CertificateError::IdentityKey(_))));
    let key = Keypair::generate_ed25519().public().encode_protobuf();
    assert!(matches!(holding(signed_key(&key, b"")), Some(CertificateError::IdentitySignature)));
}

#[test]
fn a_certificate_is_signed_by_its_own_key_in_a_known_way() {
    let [one, other] = [(); 2].map(|()| KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap());
    for algorithm in [&PKCS_ED25519, &PKCS_ECDSA_P384_SHA384, &PKCS_ECDSA_P256_SHA256] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        assert!(fault(&signed(&key, &key, |_| {}), now()).is_none(), "{algorithm:?}");
    }
    // The last byte is the signature's.
    let mut forged = signed(&one, &one, |_| {});
    *forged.last_mut().unwrap() ^= 1;
    assert!(matches!(fault(&forged, now()), Some(CertificateError::Signature)));
    // What an identity signed of one key is put under another.
    let copied = signed(&one, &other, |_| {});
    assert!(matches!(fault(&copied, now()), Some(CertificateError::IdentitySignature)));
}

#[test]
fn a_certificate_signed_with_too_short_a_hash_is_refused() {
    // given a certificate in which ecdsa-with-SHA256 has become ecdsa-with-SHA224, whose number is as long
    let sha256 = vector("2a8648ce3d040302");
    let mut broken = changed(|_| {});
    let places = broken.windows(sha256.len()).enumerate().filter(|(_, window)| *window == sha256);
    let places: Vec<_> = places.map(|(place, _)| place).collect();
    assert_eq!(places.len(), 2);
    for place in places {
        broken[place + sha256.len() - 1] = 1;
    }
    // then it is refused for that, before the signature is looked at
    assert!(matches!(fault(&broken, now()), Some(CertificateError::Algorithm)));
}

#[test]
fn a_certificate_that_is_cut_or_changed_anywhere_proves_nothing() {
    let certificate = changed(|_| {});
    for length in 0..certificate.len() {
        assert!(fault(&certificate[..length], now()).is_some(), "{length}");
    }
    assert!(fault(&[certificate.as_slice(), &[0]].concat(), now()).is_some());
    let passing = (0..certificate.len()).filter(|place| {
        let mut changed = certificate.clone();
        changed[*place] ^= 0x40;
        fault(&changed, now()).is_none()
    });
    assert_eq!(passing.collect::<Vec<_>>(), [0; 0]);
}

/// What a listener of ours says when a client with this chain dials.
async fn refusal(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> String {
    let provider = Arc::new(provider());
    let key = provider.key_provider.load_private_key(key).unwrap();
    let certified = Arc::new(Certified(Arc::new(CertifiedKey::new(chain, key))));
    let connector = TlsConnector::from(Arc::new(client_config(provider, certified).unwrap()));
    let hostile = Tls { connector, ..ends().ours };
    let (near, far) = sockets().await;
    let (_, accepted) = futures::join!(hostile.connect(near), ends().ours.accept(far));
    accepted.map(|_| ()).unwrap_err().to_string()
}

#[tokio::test]
async fn a_peer_with_a_chain_is_refused() {
    let (certificate, key) = certificate::make(&Keypair::generate_ed25519()).unwrap();
    let refusal = refusal(vec![certificate.clone(), certificate], key).await;
    assert_eq!(refusal, "other error: the peer presented 2 certificates, and not exactly one");
}

#[tokio::test]
async fn a_peer_that_shows_the_certificate_of_another_is_refused() {
    let (stolen, _) = certificate::make(&Keypair::generate_ed25519()).unwrap();
    let (_, key) = certificate::make(&Keypair::generate_ed25519()).unwrap();
    let refusal = refusal(vec![stolen], key).await;
    assert!(refusal.contains("BadSignature"), "{refusal}");
}
