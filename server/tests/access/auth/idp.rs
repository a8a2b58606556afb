//! A fake OpenID Connect issuer in the test process: its signing keys, its responses, and a record of requests.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RsaKeyPair, RsaPublicKeyComponents,
};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use leasehold_testkit::{Value, json};

/// Wall-clock time of most tests, in seconds since 1970.
pub(crate) const NOW: i64 = 1_700_000_000;

/// One RSA key for all tests, because generating it is slow.
static RSA: LazyLock<Arc<RsaKeyPair>> =
    LazyLock::new(|| Arc::new(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key")));

/// A signing key.
#[derive(Clone)]
pub(crate) enum Key {
    Rsa(Arc<RsaKeyPair>),
    Ec(Arc<EcdsaKeyPair>),
    Ed(Arc<Ed25519KeyPair>),
}

impl Key {
    pub(crate) fn rsa() -> Self {
        Self::Rsa(RSA.clone())
    }

    pub(crate) fn ec() -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self::Ec(Arc::new(key))
    }

    pub(crate) fn ed() -> Self {
        Self::Ed(Arc::new(Ed25519KeyPair::generate().expect("a key")))
    }

    pub(crate) fn algorithm(&self) -> &'static str {
        match self {
            Key::Rsa(_) => "RS256",
            Key::Ec(_) => "ES256",
            Key::Ed(_) => "EdDSA",
        }
    }

    pub(crate) fn jwk(&self, id: &str) -> Value {
        let mut jwk = match self {
            Key::Rsa(key) => {
                let public: RsaPublicKeyComponents<Vec<u8>> = key.public_key().into();
                json!({"kty": "RSA", "n": encode(&public.n), "e": encode(&public.e)})
            }
            Key::Ec(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "x": encode(&point[1..33]), "y": encode(&point[33..])})
            }
            Key::Ed(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(key.public_key().as_ref())})
            }
        };
        jwk["kid"] = id.into();
        jwk["use"] = "sig".into();
        jwk
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).expect("a signature");
                signature
            }
            Key::Ec(key) => key.sign(&random, message).expect("a signature").as_ref().to_vec(),
            Key::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    /// Returns a token with this header and these claims, whether they are valid or not.
    pub(crate) fn token(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", encode(header.as_bytes()), encode(claims.as_bytes()));
        let signature = self.sign(message.as_bytes());
        format!("{message}.{}", encode(&signature))
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A handle to the fake issuer.
#[derive(Clone)]
pub(crate) struct Idp(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) address: SocketAddr,
    pub(crate) keys: Mutex<BTreeMap<String, Key>>,
    /// Introspection responses by token.
    pub(crate) opaque: Mutex<BTreeMap<String, Value>>,
    /// ID token to return for the next authorization code.
    pub(crate) id_token: Mutex<Option<String>>,
    pub(crate) forms: Mutex<Vec<String>>,
    pub(crate) n_jwks: AtomicUsize,
    pub(crate) n_introspections: AtomicUsize,
    pub(crate) is_down: AtomicBool,
    pub(crate) names_itself: AtomicBool,
}

impl std::ops::Deref for Idp {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Idp {
    /// Starts an issuer with one key, whose key id is `first`.
    pub(crate) async fn start(first: Key) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let idp = Self(Arc::new(Inner {
            address: listener.local_addr().expect("an address"),
            keys: Mutex::new(BTreeMap::from([("first".to_owned(), first)])),
            opaque: Mutex::default(),
            id_token: Mutex::default(),
            forms: Mutex::default(),
            n_jwks: AtomicUsize::new(0),
            n_introspections: AtomicUsize::new(0),
            is_down: AtomicBool::new(false),
            names_itself: AtomicBool::new(false),
        }));
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(document))
            .route("/jwks", get(jwks))
            .route("/moved", get(async || (StatusCode::FOUND, [("location", "/jwks")])))
            .route(
                "/huge",
                get(async || format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(70_000))),
            )
            .route("/introspect", post(introspect))
            .route("/token", post(token))
            .with_state(idp.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        idp
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn key(&self, id: &str) -> Key {
        self.keys.lock().expect("not poisoned")[id].clone()
    }

    pub(crate) fn n_jwks(&self) -> usize {
        self.n_jwks.load(Relaxed)
    }

    /// Returns the claims of `alice`, who is in two groups. They are valid for an hour.
    pub(crate) fn claims(&self) -> Value {
        json!({
            "iss": self.url(), "sub": "alice", "aud": "leasehold", "exp": NOW + 3600, "iat": NOW,
            "groups": ["payments", "ops"],
        })
    }

    /// Returns a valid token of `alice`.
    pub(crate) fn token(&self) -> String {
        self.token_of("first", &self.claims())
    }

    pub(crate) fn token_of(&self, id: &str, claims: &Value) -> String {
        let key = self.key(id);
        let header = json!({"alg": key.algorithm(), "kid": id, "typ": "JWT"});
        key.token(&header.to_string(), &claims.to_string())
    }
}

fn down(idp: &Idp) -> Result<(), StatusCode> {
    let is_down = idp.is_down.load(Relaxed);
    if is_down { Err(StatusCode::SERVICE_UNAVAILABLE) } else { Ok(()) }
}

async fn document(State(idp): State<Idp>) -> Result<Response, StatusCode> {
    down(&idp)?;
    let url = idp.url();
    let document = json!({
        "issuer": url, "jwks_uri": format!("{url}/jwks"), "token_endpoint": format!("{url}/token"),
        "authorization_endpoint": format!("{url}/authorize"),
        "authorization_response_iss_parameter_supported": idp.names_itself.load(Relaxed),
    });
    Ok(document.to_string().into_response())
}

async fn jwks(State(idp): State<Idp>) -> Result<Response, StatusCode> {
    idp.n_jwks.fetch_add(1, Relaxed);
    down(&idp)?;
    let keys = idp.keys.lock().expect("not poisoned");
    let keys: Vec<_> = keys.iter().map(|(id, key)| key.jwk(id)).collect();
    Ok(json!({"keys": keys}).to_string().into_response())
}

async fn introspect(
    State(idp): State<Idp>,
    headers: HeaderMap,
    form: String,
) -> Result<Response, StatusCode> {
    idp.n_introspections.fetch_add(1, Relaxed);
    down(&idp)?;
    // `lh:intro secret`, escaped as RFC 6749 requires.
    let expected = "Basic bGg6aW50cm8lMkZzZWNyZXQ=";
    if headers.get("authorization").is_none_or(|shown| shown != expected) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let opaque = idp.opaque.lock().expect("not poisoned");
    let known = opaque.iter().find(|(token, _)| form.contains(&format!("token={token}&")));
    let answer = known.map_or(json!({"active": false}), |(_, answer)| answer.clone());
    Ok(answer.to_string().into_response())
}

async fn token(State(idp): State<Idp>, form: String) -> Result<Response, StatusCode> {
    down(&idp)?;
    idp.forms.lock().expect("not poisoned").push(form);
    let id_token = idp.id_token.lock().expect("not poisoned").clone();
    match id_token {
        Some(id_token) => Ok(json!({"id_token": id_token}).to_string().into_response()),
        None => Err(StatusCode::BAD_REQUEST),
    }
}
