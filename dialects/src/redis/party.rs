//! The client at the other end of a connection, and the state of that connection.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use leasehold_auth::{Caller, Denied, Logged, Trail, Way, are_changes_logged};
use leasehold_core::LockKey;

use super::reply::{Protocol, Reply};
use super::transaction::Transaction;
use super::urgency::Urgency;
use crate::app::App;
use crate::audit::Refused;
use crate::http::request::{Peer, Visitor};

/// The version of Redis that has these commands. Clients check it before they use newer commands.
const REDIS_VERSION: &str = "7.0.0";

pub(super) struct Party {
    pub(super) app: App,
    pub(super) visitor: Visitor,
    /// The caller, according to the last credential that the client sent.
    caller: Result<Caller, Denied>,
    pub(super) protocol: Protocol,
    database: u32,
    namespace: Arc<str>,
    /// The random number that `CLIENT ID` returns.
    id: u32,
    /// Whether the client has sent `QUIT`.
    pub(super) is_over: bool,
    pub(super) transaction: Transaction,
    /// The number of setup commands that the client has sent.
    n_setup: u32,
}

/// Maximum setup commands per connection that are served beyond a rate limit, or on a reserved connection.
const SETUP_MAX: u32 = 16;

impl Party {
    pub(super) async fn new(app: App, visitor: Visitor) -> Self {
        let caller = identify(&app, &visitor, None).await;
        let namespace = app.dialect.redis.namespace_of(0);
        let id = u32::from_ne_bytes(leasehold_base::random::bytes());
        Self {
            app,
            visitor,
            caller,
            protocol: Protocol::Resp2,
            database: 0,
            namespace,
            id,
            is_over: false,
            transaction: Transaction::default(),
            n_setup: 0,
        }
    }

    /// Returns whether this command is served even if a rate limit is exceeded or all connections are in use.
    pub(super) fn is_exempt(&mut self, urgency: Urgency) -> bool {
        match urgency {
            Urgency::Vital => true,
            Urgency::Setup => {
                self.n_setup = self.n_setup.saturating_add(1);
                self.n_setup <= SETUP_MAX
            }
            Urgency::Ordinary => false,
        }
    }

    /// Counts a command that is answered before it is parsed. The error is the reply.
    pub(super) fn count(&self, name: &str, caller: &Caller) -> Result<(), Reply> {
        let (auth, now) = (&self.app.auth, self.app.engine.now());
        let taken = auth.take_request(caller, || self.address(), now);
        taken.map_err(|denied| self.refuse(Some(caller), name, denied))
    }

    pub(super) fn address(&self) -> IpAddr {
        self.visitor.peer.address()
    }

    /// Returns the current caller, if its credential is still valid. Its actions go to the audit files and the log,
    /// where these are on.
    pub(super) fn caller(&self) -> Result<Caller, Denied> {
        let caller = match &self.caller {
            Ok(caller) if caller.is_asked() => caller.still(self.app.engine.clock())?,
            Ok(caller) => caller.clone(),
            Err(denied) => return Err(denied.clone()),
        };
        Ok(self.followed(caller))
    }

    /// Returns whether the client has authenticated, or no authentication is required.
    pub(super) fn is_known(&self) -> bool {
        self.caller.as_ref().is_ok_and(|caller| caller.check_known().is_ok())
    }

    fn followed(&self, caller: Caller) -> Caller {
        let (is_audited, is_logged) = (self.app.audit.is_some(), are_changes_logged());
        if !is_audited && !is_logged {
            return caller;
        }
        let from = match self.visitor.peer {
            Peer::Unix => "unix".into(),
            peer => peer.address().to_string(),
        };
        let logged = is_logged.then(|| Logged { route: "redis", ..Logged::default() });
        caller.followed(Trail::new(from.into(), None, is_audited, logged))
    }

    /// Returns the reply to a request that access control refused, and writes the refusal to the audit files.
    pub(super) fn refuse(&self, caller: Option<&Caller>, command: &str, denied: Denied) -> Reply {
        if let Some(audit) = &self.app.audit {
            let stranger = || {
                let authority = self.app.auth.authority();
                self.followed(authority.map_or_else(Caller::unasked, Caller::stranger))
            };
            let caller = caller.cloned().unwrap_or_else(stranger);
            let refused = Refused {
                by: caller.by(),
                status: denied.status().as_u16(),
                method: "redis",
                route: command,
                wanted: caller.trail().and_then(Trail::denied),
                request_id: None,
            };
            audit.refused(&refused, self.app.engine.wall_ms());
        }
        denied.into()
    }

    /// Returns the lock of a key.
    pub(super) fn lock(&self, key: &str) -> LockKey {
        LockKey::new(self.namespace.clone(), key)
    }

    pub(super) fn select(&mut self, database: u32) -> Reply {
        let options = &self.app.dialect.redis;
        if database >= options.databases {
            let n = options.databases;
            return Reply::error(format_args!(
                "DB index is out of range: there are {n} (redis-databases)"
            ));
        }
        (self.database, self.namespace) = (database, options.namespace_of(database));
        Reply::OK
    }

    /// Handles `AUTH`: identifies the client by an API key or a token.
    pub(super) async fn authenticate(&mut self, password: &str) -> Reply {
        match identify(&self.app, &self.visitor, Some(password)).await {
            Ok(caller) => {
                self.caller = Ok(caller);
                Reply::OK
            }
            Err(Denied::Unauthenticated(why)) => {
                let (auth, now) = (&self.app.auth, self.app.engine.now());
                if let Err(too_often) = auth.take_failure(self.address(), now) {
                    return self.refuse(None, "auth", too_often);
                }
                self.refuse(None, "auth", Denied::Unauthenticated(why));
                Reply::Error("WRONGPASS invalid username-password pair or user is disabled.".into())
            }
            Err(other) => self.refuse(None, "auth", other),
        }
    }

    pub(super) async fn greet(
        &mut self,
        protocol: Option<Protocol>,
        password: Option<&str>,
    ) -> Reply {
        if let Some(password) = password {
            let authenticated = self.authenticate(password).await;
            if authenticated.is_error() {
                return authenticated;
            }
        }
        self.protocol = protocol.unwrap_or(self.protocol);
        let text = |text: &str| Reply::Text(text.into());
        Reply::Map(vec![
            ("server", text("leasehold")),
            ("version", text(REDIS_VERSION)),
            ("proto", Reply::Integer(self.protocol as i64)),
            ("id", self.id()),
            ("mode", text("standalone")),
            ("role", text("master")),
            ("modules", Reply::Array(Vec::new())),
        ])
    }

    pub(super) fn id(&self) -> Reply {
        Reply::Integer(self.id.into())
    }
}

/// Returns the reply to `INFO`, which clients read before they send other commands.
pub(super) fn info() -> Reply {
    Reply::Text(format!(
        "# Server\r\nserver_name:leasehold\r\nleasehold_version:{}\r\nredis_version:{REDIS_VERSION}\r\n\
         redis_mode:standalone\r\n# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n",
        env!("CARGO_PKG_VERSION")
    ))
}

/// Identifies a client by its certificate, or by its password, which can be anything that a Bearer credential can be.
async fn identify(app: &App, visitor: &Visitor, password: Option<&str>) -> Result<Caller, Denied> {
    let epoch = app.auth.epoch().unwrap_or_default();
    let Some(authority) = app.auth.authority() else { return Ok(Caller::unasked()) };
    let unknown = || Denied::Unauthenticated("unknown credential".into());
    let mut headers = HeaderMap::new();
    if let Some(password) = password {
        let bearer = HeaderValue::try_from(format!("Bearer {password}")).map_err(|_| unknown())?;
        headers.insert(header::AUTHORIZATION, bearer);
    }
    let (link, address) = (&visitor.link, visitor.peer.address());
    let way = Way {
        address,
        is_relayed: link.is_relayed,
        unix_path: link.unix_path.as_deref(),
        certificate: link.certificate.as_deref(),
        is_private: false,
        is_of_other_page: false,
        // Nothing to remember: a connection is identified once, not with each request.
        remembered: None,
    };
    match Caller::identify(authority, epoch, &headers, &way, app.engine.wall_ms())? {
        // The id of a files session proves nothing here.
        Ok(caller) if caller.is_foreign() => Err(unknown()),
        Ok(caller) => Ok(caller),
        Err(inquiry) => {
            let now = app.engine.now();
            // Boxed because the future is large and few connections get here.
            Box::pin(inquiry.settle(address, now, app.engine.wall_ms_of(now))).await
        }
    }
}
