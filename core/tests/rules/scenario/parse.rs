//! Parses a line of a script into a command.

use std::cell::RefCell;
use std::collections::BTreeSet;

use leasehold_core::*;

pub(crate) struct Line<'a> {
    pub(crate) verb: &'a str,
    target: Option<&'a str>,
    words: Vec<(&'a str, Option<&'a str>)>,
    used: RefCell<BTreeSet<&'a str>>,
}

impl<'a> Line<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let verb = words.next().ok_or("an empty line")?;
        let mut rest = words.peekable();
        let target = rest.next_if(|word| verb != "limits" && !word.contains('='));
        let words = rest
            .map(|word| {
                word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)))
            })
            .collect();
        Ok(Self { verb, target, words, used: RefCell::default() })
    }

    pub(crate) fn target(&self) -> Result<&'a str, String> {
        self.target.ok_or(format!("{} what?", self.verb))
    }

    /// Rejects words that were not used, because they are likely misspelled.
    pub(crate) fn check_all_used(&self) -> Result<(), String> {
        let unused = self.words.iter().find(|(key, _)| !self.used.borrow().contains(key));
        unused.map_or(Ok(()), |(key, _)| Err(format!("unknown field {key:?}")))
    }

    pub(crate) fn limits(&self) -> Result<Limits, String> {
        let mut limits = Limits::default();
        for (key, value) in &self.words {
            self.used.borrow_mut().insert(key);
            let value = value.ok_or(format!("{key}=?"))?;
            let number = || value.parse::<usize>().map_err(|e| e.to_string());
            match *key {
                "name_bytes_max" => limits.name_bytes_max = number()?,
                "group_max" => limits.group_max = number()?,
                "queue_max" => limits.queue_max = number()?,
                "locks_max" => limits.locks_max = number()?,
                "namespaces_max" => limits.namespaces_max = number()?,
                "idle_max" => limits.idle_max = number()?,
                "ended_max" => limits.ended_max = number()?,
                "answered_max" => limits.answered_max = number()?,
                "lease_requests_max" => limits.lease_requests_max = number()?,
                "promote_steps_max" => limits.promote_steps_max = number()?,
                "metadata_bytes_max" => limits.metadata_bytes_max = number()?,
                "owner_bytes_max" => limits.owner_bytes_max = number()?,
                "request_id_bytes_max" => limits.request_id_bytes_max = number()?,
                "namespace_bytes_max" => limits.namespace_bytes_max = number()?,
                "reason_bytes_max" => limits.reason_bytes_max = number()?,
                "holders_max" => limits.holders_max = number()? as u32,
                "principal_leases_max" => limits.principal_leases_max = number()? as u32,
                "principal_namespaces_max" => {
                    limits.principal_namespaces_max = number()? as u32;
                }
                "sessions_max" => limits.sessions_max = number()?,
                "principal_sessions_max" => limits.principal_sessions_max = number()? as u32,
                "metadata_total_bytes_max" => limits.metadata_total_bytes_max = number()?,
                "names_total_bytes_max" => limits.names_total_bytes_max = number()?,
                "requests_total_bytes_max" => limits.requests_total_bytes_max = number()?,
                "queues_total_bytes_max" => limits.queues_total_bytes_max = number()?,
                "ended_total_bytes_max" => limits.ended_total_bytes_max = number()?,
                "principal_metadata_bytes_max" => limits.principal_metadata_bytes_max = number()?,
                "principal_names_bytes_max" => limits.principal_names_bytes_max = number()?,
                "principal_requests_bytes_max" => limits.principal_requests_bytes_max = number()?,
                "principal_queues_bytes_max" => limits.principal_queues_bytes_max = number()?,
                "principal_answered_max" => limits.principal_answered_max = number()?,
                "principal_ended_max" => limits.principal_ended_max = number()?,
                "principal_ended_bytes_max" => limits.principal_ended_bytes_max = number()?,
                "ttl_max" => limits.ttl_max = span(value)?,
                "grace_max" => limits.grace_max = span(value)?,
                "wait_max" => limits.wait_max = span(value)?,
                "session_ttl_max" => limits.session_ttl_max = span(value)?,
                "idle_retention" => limits.idle_retention = span(value)?,
                "ended_retention" => limits.ended_retention = span(value)?,
                "request_retention" => limits.request_retention = span(value)?,
                "park_max" => limits.park_max = span(value)?,
                "resume_park_max" => limits.resume_park_max = span(value)?,
                "held_warn" => limits.held_warn = span(value)?,
                "wait_warn" => limits.wait_warn = span(value)?,
                "deadlock_after" => limits.deadlock_after = span(value)?,
                "deadlock_edges_max" => limits.deadlock_edges_max = number()?,
                other => return Err(format!("no limit is called {other:?}")),
            }
        }
        Ok(limits)
    }

    pub(crate) fn command(&self, secret: Secret, machine: &Machine) -> Result<Command, String> {
        let dialect = Dialect(self.number("dialect")?.unwrap_or(0) as u8);
        let request_id = self.value("id").map(Box::from);
        Ok(match self.verb {
            "acquire" => Command::Acquire(self.acquire(secret, dialect)?),
            "acquire-all" => Command::AcquireAll(self.acquire_all(secret, dialect)?),
            "cancel" => Command::Cancel(Cancel {
                owner: self.owner()?,
                namespace: self.value("in").unwrap_or("default").into(),
                lock: self.target.map(Box::from),
                dialect,
                request_id: request_id.ok_or("cancel id=?")?,
            }),
            "renew" if self.target.is_some_and(|target| target.contains(',')) => {
                let (proofs, extend) = (self.proofs(machine)?, self.extend()?);
                Command::RenewAll(RenewAll { proofs, dialect, extend })
            }
            "renew" => Command::Renew(Renew {
                proof: self.proof(machine)?,
                dialect,
                extend: self.extend()?,
                request_id,
            }),
            "release" if self.target.is_some_and(|target| target.contains(',')) => {
                Command::ReleaseAll(ReleaseAll { proofs: self.proofs(machine)?, dialect })
            }
            "release" => {
                Command::Release(Release { proof: self.proof(machine)?, dialect, request_id })
            }
            "give_up" => {
                Command::GiveUp(GiveUp { lock: self.key()?, owner: self.owner()?, dialect })
            }
            "revoke" => Command::Revoke(Revoke {
                target: if self.flag("lock") {
                    Target::Lock(self.key()?)
                } else if self.flag("leases") {
                    let numbers = self.target()?.split(',').map(number_of);
                    Target::Leases(numbers.map(|n| n.map(LeaseNumber)).collect::<Result<_, _>>()?)
                } else {
                    Target::Lease(self.proof(machine)?, dialect)
                },
                reason: self.value("reason").unwrap_or("because").into(),
            }),
            "amend" => Command::Amend(Amend {
                proof: self.proof(machine)?,
                dialect,
                ttl: self.span("ttl")?.ok_or("amend ttl=?")?,
            }),
            "confirm" => Command::Confirm(Confirm { proof: self.proof(machine)?, dialect }),
            "leave" => Command::Leave(Leave(LeaseNumber(number_of(self.target()?)?))),
            "open" => Command::OpenSession(OpenSession {
                digest: digest(self.target()?),
                owner: self.owner()?,
                dialect,
                ttl: self.span("ttl")?.ok_or("open ttl=?")?,
                peer: self.number("peer")?.map(Peer),
                credential: None,
            }),
            "keep" => {
                let (session, principal) = (digest(self.target()?), self.principal());
                Command::KeepSession(KeepSession { session, principal, dialect })
            }
            "close" => {
                let (session, principal) = (digest(self.target()?), self.principal());
                Command::CloseSession(CloseSession { session, principal, dialect })
            }
            _ => self.operators(machine, dialect)?,
        })
    }

    /// Parses the commands of operators, of the server itself, and `prove`.
    fn operators(&self, machine: &Machine, dialect: Dialect) -> Result<Command, String> {
        Ok(match self.verb {
            "settle" => Command::Settle(Settle(self.key()?)),
            "sweep" => {
                let n_changes_max = self.number("n")?.unwrap_or(1000) as usize;
                Command::Sweep(Sweep { n_changes_max })
            }
            "resume" => Command::Resume(Resume::ALL),
            "restore" => Command::Restore(Restore),
            "end-session" => Command::EndSession(EndSession {
                number: SessionNumber(number_of(self.target()?)?),
            }),
            "prove" => Command::Prove(Prove { proof: self.proof(machine)?, dialect }),
            "maintenance" => Command::Maintain(Maintain { on: self.target()? == "on" }),
            other => return Err(format!("no command is called {other:?}")),
        })
    }

    fn extend(&self) -> Result<Extend, String> {
        Ok(match (self.span("by")?, self.span("to")?, self.span("more")?) {
            (Some(by), None, None) => Extend::AtLeast(by),
            (None, Some(to), None) => Extend::Exactly(to),
            (None, None, Some(by)) => Extend::By(by),
            _ => return Err("renew by=.. (at least), to=.. (exactly) or more=..".into()),
        })
    }

    /// Parses `a,b:shared,c:2`. The options of the first lock are as in `acquire`. Each of the others has a separate
    /// mode.
    fn acquire_all(&self, secret: Secret, dialect: Dialect) -> Result<AcquireAll, String> {
        let mut locks = self.target()?.split(',');
        let first = locks.next().ok_or("which locks?")?;
        let others = locks.enumerate().map(|(n, lock)| {
            let (name, mode) = lock.split_once(':').unwrap_or((lock, ""));
            let mode = match mode {
                "" => Mode::Exclusive,
                "shared" => Mode::Shared,
                limit => Mode::Counted(number_of(limit)? as u32),
            };
            Ok(Other { name: name.into(), mode, secret: Secret([secret.0[0] + 100 + n as u8; 16]) })
        });
        let others = others.collect::<Result<_, String>>()?;
        Ok(AcquireAll { first: self.acquire_of(first, secret, dialect)?, others })
    }

    /// Parses `#1,#2`: proofs by id.
    fn proofs(&self, machine: &Machine) -> Result<Vec<Proof>, String> {
        let owner = self.owner()?;
        let proof = |target: &str| {
            let number = LeaseNumber(number_of(target)?);
            let known = machine.lease(number).map(|lease| lease.id.secret);
            let id = LeaseId { number, secret: known.unwrap_or(Secret([0xFF; 16])) };
            Ok(Proof::Id { id, owner: owner.clone(), token: None, lock: None })
        };
        self.target()?.split(',').map(proof).collect()
    }

    fn acquire(&self, secret: Secret, dialect: Dialect) -> Result<Acquire, String> {
        self.acquire_of(self.target()?, secret, dialect)
    }

    fn acquire_of(&self, lock: &str, secret: Secret, dialect: Dialect) -> Result<Acquire, String> {
        let limit = self.number("limit")?;
        Ok(Acquire {
            lock: LockKey::new(self.value("in").unwrap_or("default"), lock),
            owner: self.owner()?,
            dialect,
            mode: match (self.flag("shared"), limit) {
                (false, None) => Mode::Exclusive,
                (true, None) => Mode::Shared,
                (_, Some(limit)) => Mode::Counted(limit as u32),
            },
            ttl: self.span("ttl")?,
            grace: self.span("grace")?.unwrap_or_default(),
            wait: match (self.span("wait")?, self.span("unattended")?) {
                (None, None) => Wait::No,
                (Some(wait), _) => Wait::Connected(wait),
                (None, Some(wait)) => Wait::Unattended(wait),
            },
            owner_per_lease: self.flag("owner_per_lease"),
            sticky: self.flag("sticky"),
            keep: self.flag("keep"),
            session: self.value("session").map(digest),
            metadata: self.value("metadata").map(|text| text.as_bytes().into()),
            request_id: self.value("id").map(Box::from),
            secret,
            peer: self.number("peer")?.map(Peer),
            quota: self.quota("quota")?,
            namespace_quota: self.quota("namespace_quota")?,
            bytes_quota: self.quota("bytes_quota")?,
        })
    }

    fn quota(&self, name: &'a str) -> Result<Option<Quota>, String> {
        Ok(self.number(name)?.map(|max| Quota { max: max as u32, line: 1 }))
    }

    /// Returns the principal the lease or session must belong to, if the script names one.
    fn principal(&self) -> Option<std::sync::Arc<str>> {
        self.value("principal").map(Into::into)
    }

    /// Parses a proof: `#3` by id, `number=3` by number, or a lock's name with an owner or a session.
    fn proof(&self, machine: &Machine) -> Result<Proof, String> {
        if let Some(number) = self.number("number")? {
            let principal = self.principal();
            return Ok(Proof::Number { number: LeaseNumber(number), principal });
        }
        if let Some(session) = self.value("session") {
            let (lock, principal) = (self.key()?, self.principal());
            return Ok(Proof::Session { lock, session: digest(session), principal });
        }
        let owner = self.owner()?;
        let Some(number) = self.target()?.strip_prefix('#') else {
            return Ok(Proof::Owner { lock: self.key()?, owner });
        };
        let number = LeaseNumber(number_of(number)?);
        let known = machine.lease(number).map(|lease| lease.id.secret);
        let secret = known.filter(|_| !self.flag("guessed")).unwrap_or(Secret([0xFF; 16]));
        Ok(Proof::Id {
            id: LeaseId { number, secret },
            owner,
            token: self.number("token")?.and_then(Token::new),
            lock: self.value("on").map(|name| LockKey::new("default", name)),
        })
    }

    fn key(&self) -> Result<LockKey, String> {
        Ok(LockKey::new(self.value("in").unwrap_or("default"), self.target()?))
    }

    /// Parses an owner: `owner=laptop` is anonymous, `owner=ann/laptop` belongs to `ann`.
    fn owner(&self) -> Result<Owner, String> {
        let owner = self.value("owner").ok_or("owner=?")?;
        let (principal, instance) = owner.split_once('/').unwrap_or(("anonymous", owner));
        Ok(Owner::new(principal, instance))
    }

    fn value(&self, key: &'a str) -> Option<&'a str> {
        self.used.borrow_mut().insert(key);
        self.words.iter().find(|(word, _)| *word == key).and_then(|(_, value)| *value)
    }

    fn flag(&self, key: &'a str) -> bool {
        self.used.borrow_mut().insert(key);
        self.words.iter().any(|(word, value)| *word == key && value.is_none())
    }

    fn number(&self, key: &'a str) -> Result<Option<u64>, String> {
        self.value(key).map(number_of).transpose()
    }

    fn span(&self, key: &'a str) -> Result<Option<Span>, String> {
        self.value(key).map(span).transpose()
    }
}

/// Parses `30s`, `500ms` or `1ns`.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let number = number_of(digits)?;
    match &text[digits.len()..] {
        "s" => Ok(Span::from_secs(number)),
        "ms" => Ok(Span::from_millis(number)),
        "ns" => Ok(Span::from_nanos(number)),
        unit => Err(format!("no unit is called {unit:?}")),
    }
}

fn number_of(text: &str) -> Result<u64, String> {
    text.trim_start_matches('#').parse().map_err(|_| format!("{text:?} is not a number"))
}

fn digest(name: &str) -> SessionDigest {
    let mut bytes = [0; 32];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    SessionDigest(bytes)
}
