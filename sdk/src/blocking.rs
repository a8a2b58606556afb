//! The same for programs without async: every call blocks, and renewals go on meanwhile.
//!
//! A [`Client`] here has a runtime of its own with one thread, which renews. Do not use it inside of async code: there
//! every call panics, as blocking a runtime would stop everything else in it.
//!
//! ```no_run
//! # fn work(_token: u64) {}
//! # fn run() -> Result<(), leasehold::Error> {
//! use std::time::Duration;
//!
//! let client = leasehold::blocking::Client::new("http://127.0.0.1:8080")?;
//! let guard = client.lock("orders").wait(Duration::from_secs(60)).acquire()?;
//! work(guard.fencing_token());
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::{ClientBuilder, Error, Lost, Retry, Watched};

/// A server, for programs that block.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// A client of the server at `url`, with defaults for the rest.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::of(crate::Client::builder(url))
    }

    /// A client with these settings.
    pub fn of(builder: ClientBuilder) -> Result<Self, Error> {
        let client = builder.build()?;
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("leasehold").enable_all().build();
        let runtime = runtime.map_err(|error| Error::Invalid(format!("no runtime: {error}")))?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// Asks for a lock: see [`LockRequest`].
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest { client: self.clone(), request: self.client.lock(name) }
    }

    /// Asks for several locks or none: see [`LocksRequest`].
    pub fn locks(&self) -> LocksRequest {
        LocksRequest { client: self.clone(), request: self.client.locks() }
    }

    /// What happens to locks whose name begins with `prefix`, from now on: see [`Events`].
    pub fn watch(&self, prefix: impl Into<String>) -> Events {
        Events { client: self.clone(), events: self.client.watch(prefix) }
    }

    /// The client for async code, for every other call: `client.wait_for(client.inner().look("orders"))`.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// Blocks until the future is done.
    pub fn wait_for<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

/// Setters that are handed on.
macro_rules! settings {
    ($request:ident: $($name:ident($($argument:ident: $kind:ty),*);)*) => {
        impl $request {
            $(#[doc = concat!("See [`crate::", stringify!($request), "::", stringify!($name), "`].")]
            pub fn $name(mut self $(, $argument: $kind)*) -> Self {
                self.request = self.request.$name($($argument),*);
                self
            })*
        }
    };
}

/// A request and its guard, which block.
macro_rules! request {
    ($request:ident, $guard:ident) => {
        #[doc = concat!("What is asked for. Every setting is that of [`crate::", stringify!($request), "`].")]
        #[derive(Clone, Debug)]
        #[must_use = "nothing is asked before `acquire`"]
        pub struct $request {
            client: Client,
            request: crate::$request,
        }

        settings! { $request:
            owner(owner: impl Into<String>);
            ttl(ttl: Duration);
            wait(wait: Duration);
            margin(margin: Duration);
            metadata(metadata: impl Into<Value>);
            watched();
            retry(retry: Retry);
        }

        impl $request {
            /// Asks: granted if it is free or becomes free within the wait.
            pub fn acquire(self) -> Result<$guard, Error> {
                let Self { client, request } = self;
                let guard = client.wait_for(request.acquire())?;
                Ok($guard { client, guard: Some(guard) })
            }

            /// Does the work while it is held, and gives it back in every way out, a panic included. It can be lost
            /// meanwhile: `check` tells, and so does the result.
            pub fn run<T>(self, work: impl FnOnce(&$guard) -> T) -> Result<T, Error> {
                let guard = self.acquire()?;
                let done = work(&guard);
                guard.check().map_err(|lost| crate::terms::Held::loss(&*guard, lost))?;
                match guard.release() {
                    Err(error @ Error::NotReleased(_)) => Err(error),
                    // The work is done, and the lease runs out by itself.
                    _ => Ok(done),
                }
            }
        }

        #[doc = concat!("What is ours: see [`crate::", stringify!($guard), "`]. Given back when dropped.")]
        #[must_use = "it is given back when the guard is dropped"]
        pub struct $guard {
            client: Client,
            /// `None` only while it is being dropped or released.
            guard: Option<crate::$guard>,
        }

        impl $guard {
            /// Gives it back.
            pub fn release(mut self) -> Result<(), Error> {
                match self.guard.take() {
                    Some(guard) => self.client.wait_for(guard.release()),
                    None => Ok(()),
                }
            }

            /// Blocks until it is lost, or for so long. `None` if it is still ours then.
            pub fn lost_within(&self, time: Duration) -> Option<Lost> {
                let lost = self.lost();
                self.client.wait_for(async { tokio::time::timeout(time, lost).await.ok() })
            }
        }

        impl Deref for $guard {
            type Target = crate::$guard;

            fn deref(&self) -> &crate::$guard {
                self.guard.as_ref().expect("it is there until it is released")
            }
        }

        impl Drop for $guard {
            fn drop(&mut self) {
                if let Some(guard) = self.guard.take() {
                    // It is given back by the thread that renewed it.
                    let _in_runtime = self.client.runtime.enter();
                    drop(guard);
                }
            }
        }

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.guard.fmt(f)
            }
        }
    };
}

request!(LockRequest, LockGuard);
request!(LocksRequest, MultiGuard);

settings! { LockRequest:
    shared();
    limit(limit: u32);
    grace(grace: Duration);
}

settings! { LocksRequest:
    lock(name: impl Into<String>);
    shared(name: impl Into<String>);
    counted(name: impl Into<String>, limit: u32);
}

/// What happens to locks: see [`crate::Events`]. Also an iterator, which never ends by itself.
#[derive(Debug)]
pub struct Events {
    client: Client,
    events: crate::Events,
}

impl Events {
    /// Connects, so that nothing that happens from here on is missed.
    pub fn connect(&mut self) -> Result<(), Error> {
        self.client.runtime.block_on(self.events.connect())
    }
}

impl Iterator for Events {
    type Item = Result<Watched, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.client.runtime.block_on(self.events.next()))
    }
}
