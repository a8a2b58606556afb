//! The public keys of an issuer, and signature verification.
//!
//! Signatures are verified with the library that TLS uses. Each key verifies only one family of algorithms, which the
//! key determines, never the token.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// Maximum keys read from one key set.
const KEYS_MAX: usize = 100;
/// Permitted length of an RSA modulus, in bits. A shorter one could be factored; a longer one makes verification
/// costly.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Supported signature algorithms. None uses a shared secret: with one, a verifier could also sign tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Rs256, "RS256"),
        (Self::Rs384, "RS384"),
        (Self::Rs512, "RS512"),
        (Self::Ps256, "PS256"),
        (Self::Ps384, "PS384"),
        (Self::Ps512, "PS512"),
        (Self::Es256, "ES256"),
        (Self::Es384, "ES384"),
        (Self::EdDsa, "EdDSA"),
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(algorithm, _)| *algorithm)
    }

    pub(crate) fn names() -> String {
        Self::ALL.map(|(_, name)| name).join(", ")
    }
}

/// The keys an issuer signs with.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct KeyRing(Vec<Arc<Key>>);

/// A public key.
#[derive(PartialEq, Eq)]
pub(crate) struct Key {
    /// The key id (`kid`). It is only compared with the one in a token.
    id: Option<String>,
    /// The only algorithm the key can be used with, if it is restricted to one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(PartialEq, Eq)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:?}", self.id)
    }
}

impl KeyRing {
    /// Parses a JWK set. Skips entries that cannot verify signatures; the result can be empty.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, String> {
        Self::parse_entries(bytes).map(|(ring, _)| ring)
    }

    /// Parses a JWK set from a file. An empty set withdraws all keys; a set with only unusable entries is an error.
    pub(crate) fn parse_file(bytes: &[u8]) -> Result<Self, String> {
        let (ring, n_entries) = Self::parse_entries(bytes)?;
        if ring.is_empty() && n_entries > 0 {
            return Err("has no key for signatures".into());
        }
        Ok(ring)
    }

    /// Returns the usable keys and the number of all entries.
    fn parse_entries(bytes: &[u8]) -> Result<(Self, usize), String> {
        let set: Value = serde_json::from_slice(bytes)
            .map_err(|error| format!("is not JSON: line {}", error.line()))?;
        let keys = set["keys"].as_array().ok_or("is not a JWK set: it has no list of keys")?;
        let usable = keys.iter().take(KEYS_MAX).filter_map(Key::parse).map(Arc::new);
        Ok((Self(usable.collect()), keys.len()))
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a key with this id, or any key if the token names none.
    pub(super) fn knows(&self, id: Option<&str>) -> bool {
        self.candidates(id).next().is_some()
    }

    /// Returns the key that made this signature. If the token names a key id, only keys with that id are tried.
    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<Arc<Key>> {
        self.candidates(id).find(|key| key.verify(algorithm, message, signature)).cloned()
    }

    /// Returns whether the ring contains this key.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.0.iter().any(|known| **known == *key)
    }

    /// Returns whether the other ring contains every key of this one.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.0.iter().all(|key| other.has(key))
    }

    fn candidates(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<Key>> {
        self.0.iter().filter(move |key| id.is_none() || key.id.as_deref() == id)
    }
}

impl Key {
    fn parse(jwk: &Value) -> Option<Self> {
        let text = |name: &str| jwk[name].as_str();
        let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
        if text("use").is_some_and(|used_for| used_for != "sig") {
            return None;
        }
        let does_verify = |does: &Vec<Value>| does.iter().any(|op| op == "verify");
        if jwk["key_ops"].as_array().is_some_and(|does| !does_verify(does)) {
            return None;
        }
        let point = |n: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            let is_point = x.len() == n && y.len() == n;
            is_point.then(|| [&[4][..], &x, &y].concat())
        };
        let material = match (text("kty")?, text("crv")) {
            ("RSA", _) => {
                let (n, e) = (bytes("n")?, bytes("e")?);
                let n: Vec<u8> = n.into_iter().skip_while(|byte| *byte == 0).collect();
                let n_bits = n.len() * 8 - n.first()?.leading_zeros() as usize;
                MODULUS_BITS.contains(&n_bits).then_some(Material::Rsa { n, e })?
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => {
                bytes("x").filter(|x| x.len() == 32).map(Material::Ed25519)?
            }
            // Unsupported types, including shared secrets (`oct`).
            _ => return None,
        };
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::parse(name).filter(|alg| material.fits(*alg))?),
            None => None,
        };
        Some(Self { id: text("kid").map(str::to_owned), algorithm, material })
    }

    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if self.algorithm.is_some_and(|own| own != algorithm) || !self.material.fits(algorithm) {
            return false;
        }
        let verified = match (&self.material, algorithm) {
            (Material::Rsa { n, e }, algorithm) => {
                let Some(parameters) = rsa(algorithm) else { return false };
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Material::P256(point), _) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                    .verify(message, signature)
            }
            (Material::P384(point), _) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                    .verify(message, signature)
            }
            (Material::Ed25519(key), _) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature)
            }
        };
        verified.is_ok()
    }
}

impl Material {
    /// Returns whether this algorithm fits this type of key.
    fn fits(&self, algorithm: Algorithm) -> bool {
        match self {
            Material::Rsa { .. } => rsa(algorithm).is_some(),
            Material::P256(_) => algorithm == Algorithm::Es256,
            Material::P384(_) => algorithm == Algorithm::Es384,
            Material::Ed25519(_) => algorithm == Algorithm::EdDsa,
        }
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    match algorithm {
        Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
        Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
        Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
        Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
        Algorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
        Algorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => None,
    }
}
