//! The certificate in which a libp2p identity is proved. It is signed by a key of its own, and an extension of it holds the
//! public key of the identity, and the identity's signature of the key of the certificate.
//!
//! [`make`] makes one. One that a peer presents is [`Presented::parse`]d, and proves nothing before it was
//! [`Presented::verify`]ed.

use libp2p_identity::{DecodingError, Keypair, PeerId, PublicKey};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKeyData,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, SignatureVerificationAlgorithm,
    SubjectPublicKeyInfoDer, UnixTime,
};
use x509_parser::{
    asn1_rs::{FromDer as _, OctetString, Sequence, ToDer as _},
    certificate::{X509Certificate, X509CertificateParser},
    extensions::X509Extension,
    nom::Parser as _,
    x509::AlgorithmIdentifier,
};

use super::IdentityError;

/// The extension that holds the identity, which the specification has from IANA.
pub(super) const EXTENSION: &[u64] = &[1, 3, 6, 1, 4, 1, 53_594, 1, 1];

/// What the identity signs begins with this, so that the signature is good for nothing else.
const SIGNED_PREFIX: &[u8] = b"libp2p-tls-handshake:";

/// Why a peer proved no identity.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    #[error("the peer presented {0} certificates, and not exactly one")]
    Count(usize),
    #[error("the peer's certificate is malformed")]
    Malformed,
    #[error(
        "the peer's certificate is valid from {from} to {to}, and not at {now} s since 1970, as it is here"
    )]
    Expired { from: i64, to: i64, now: u64 },
    #[error("the peer's certificate has the critical extension {0}, which is not known")]
    CriticalExtension(String),
    #[error("the peer's certificate has {0} identities, and not exactly one")]
    Identities(usize),
    #[error("the identity in the peer's certificate is malformed")]
    MalformedIdentity,
    #[error("the identity in the peer's certificate is of a kind that is not known, or malformed: {0}")]
    IdentityKey(#[from] DecodingError),
    #[error("the peer's certificate is signed in a way that is not known, or not secure")]
    Algorithm,
    #[error("the peer's certificate is not signed by its own key")]
    Signature,
    #[error("the key of the peer's certificate is not signed by the identity in it")]
    IdentitySignature,
}

/// Makes a certificate for `identity`, and the key that belongs to it.
pub(super) fn make(
    identity: &Keypair,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), IdentityError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = parameters(identity, &key)?.self_signed(&key)?;
    Ok((certificate.into(), PrivatePkcs8KeyDer::from(key.serialize_der()).into()))
}

/// What a certificate for `identity` says, beside the signature by `key`.
pub(super) fn parameters(identity: &Keypair, key: &KeyPair) -> Result<CertificateParams, IdentityError> {
    let signature = identity.sign(&signed_by_identity(&key.subject_public_key_info()))?;
    let signed_key = signed_key(&identity.public().encode_protobuf(), &signature);
    let mut extension = CustomExtension::from_oid_content(EXTENSION, signed_key);
    // The specification leaves that open; whoever does not know the extension is not to take the certificate.
    extension.set_criticality(true);
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.custom_extensions.push(extension);
    Ok(parameters)
}

/// The content of the extension: `SEQUENCE { publicKey OCTET STRING, signature OCTET STRING }`.
pub(super) fn signed_key(public_key: &[u8], signature: &[u8]) -> Vec<u8> {
    let strings = [public_key, signature].into_iter().map(OctetString::from);
    let encoded = Sequence::from_iter_to_der(strings).and_then(|sequence| sequence.to_der_vec());
    encoded.expect("a vector takes any number of bytes")
}

fn signed_by_identity(certificate_key: &[u8]) -> Vec<u8> {
    [SIGNED_PREFIX, certificate_key].concat()
}

/// The certificate that a peer presents.
#[derive(Debug)]
pub(super) struct Presented<'a> {
    certificate: X509Certificate<'a>,
    identity: PublicKey,
    /// By the identity, of the key of the certificate.
    identity_signature: OctetString<'a>,
}

impl<'a> Presented<'a> {
    /// Reads a certificate, and believes nothing of it.
    pub(super) fn parse(der: &'a [u8]) -> Result<Self, CertificateError> {
        // Extensions that are not known are passed over, so nothing need be made of what is in them.
        let mut parser = X509CertificateParser::new().with_deep_parse_extensions(false);
        let certificate = match parser.parse(der) {
            Ok(([], certificate)) if is_canonical(der, &certificate) => certificate,
            Ok(_) | Err(_) => return Err(CertificateError::Malformed),
        };
        let extension = identity_extension(certificate.extensions())?;
        let (identity, identity_signature) =
            parse_signed_key(extension).ok_or(CertificateError::MalformedIdentity)?;
        let identity = PublicKey::try_decode_protobuf(identity.as_cow())?;
        Ok(Self { certificate, identity, identity_signature })
    }

    /// Whose it is, once it was verified.
    pub(super) fn peer(&self) -> PeerId {
        self.identity.to_peer_id()
    }

    /// The key of the certificate, by which the handshake is signed.
    pub(super) fn key(&self) -> SubjectPublicKeyInfoDer<'a> {
        self.certificate.tbs_certificate.subject_pki.raw.into()
    }

    /// Checks all that the specification asks for. `algorithms` are those by which certificates may be signed; they name
    /// curves, and none hashes to less than 256 bits.
    pub(super) fn verify(
        &self,
        now: UnixTime,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), CertificateError> {
        self.check_time(now)?;
        self.check_signature(algorithms)?;
        let signed = signed_by_identity(self.certificate.public_key().raw);
        if self.identity.verify(&signed, self.identity_signature.as_cow()) {
            Ok(())
        } else {
            Err(CertificateError::IdentitySignature)
        }
    }

    fn check_time(&self, now: UnixTime) -> Result<(), CertificateError> {
        let validity = self.certificate.validity();
        let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
        let is_valid = i64::try_from(now.as_secs()).is_ok_and(|now| (from..=to).contains(&now));
        if is_valid { Ok(()) } else { Err(CertificateError::Expired { from, to, now: now.as_secs() }) }
    }

    fn check_signature(
        &self,
        algorithms: &[&dyn SignatureVerificationAlgorithm],
    ) -> Result<(), CertificateError> {
        let X509Certificate { tbs_certificate, signature_algorithm, signature_value, .. } = &self.certificate;
        let key = &tbs_certificate.subject_pki;
        if tbs_certificate.signature != *signature_algorithm {
            return Err(CertificateError::Malformed);
        }
        let (of_key, of_signature) = (identifier(&key.algorithm), identifier(signature_algorithm));
        let mut algorithms = algorithms.iter().filter(|algorithm| {
            of_key == algorithm.public_key_alg_id().as_ref()
                && of_signature == algorithm.signature_alg_id().as_ref()
        });
        let algorithm = algorithms.next().ok_or(CertificateError::Algorithm)?;
        algorithm
            .verify_signature(&key.subject_public_key.data, tbs_certificate.as_ref(), &signature_value.data)
            .map_err(|_invalid| CertificateError::Signature)
    }
}

/// Whether what is around the signed part, and not signed itself, is in the one form that DER allows; the parser takes
/// others too.
fn is_canonical(der: &[u8], certificate: &X509Certificate<'_>) -> bool {
    let signed = certificate.tbs_certificate.as_ref();
    let algorithm = Sequence::new(identifier(&certificate.signature_algorithm).into()).to_der_vec();
    let signature = certificate.signature_value.to_der_vec();
    let canonical = algorithm
        .and_then(|algorithm| Sequence::new([signed, &algorithm, &signature?].concat().into()).to_der_vec());
    canonical.is_ok_and(|canonical| canonical == der)
}

/// The content of the one extension with an identity; others must not be critical.
fn identity_extension<'a>(extensions: &[X509Extension<'a>]) -> Result<&'a [u8], CertificateError> {
    let is_identity = |extension: &&X509Extension<'_>| {
        extension.oid.iter().is_some_and(|oid| oid.eq(EXTENSION.iter().copied()))
    };
    let (identities, others): (Vec<_>, Vec<_>) = extensions.iter().partition(is_identity);
    if let Some(critical) = others.iter().find(|extension| extension.critical) {
        return Err(CertificateError::CriticalExtension(critical.oid.to_id_string()));
    }
    match identities[..] {
        [extension] => Ok(extension.value),
        _ => Err(CertificateError::Identities(identities.len())),
    }
}

/// The encoded public key and the signature.
fn parse_signed_key(extension: &[u8]) -> Option<(OctetString<'_>, OctetString<'_>)> {
    let parsed = Sequence::from_der_and_then(extension, |content| {
        let (rest, public_key) = OctetString::from_der(content)?;
        let (rest, signature) = OctetString::from_der(rest)?;
        Ok((rest, (rest.is_empty(), public_key, signature)))
    });
    match parsed {
        Ok(([], (true, public_key, signature))) => Some((public_key, signature)),
        Ok(_) | Err(_) => None,
    }
}

/// The encoded content of an identifier, as algorithms name theirs. Of one that cannot be encoded it is empty, as
/// that of no algorithm is.
fn identifier(identifier: &AlgorithmIdentifier<'_>) -> Vec<u8> {
    let encode = || {
        let algorithm = identifier.algorithm.to_der_vec().ok()?;
        let parameters = identifier.parameters.as_ref().map(|parameters| parameters.to_der_vec()).transpose();
        Some([algorithm, parameters.ok()?.unwrap_or_default()].concat())
    };
    encode().unwrap_or_default()
}
