//! A client for programs without async: every call blocks, and leases are renewed in the background.
//!
//! A [`Client`] here has its own runtime with one thread, which renews the leases. Do not use it inside async code:
//! there every call panics, because blocking a runtime thread would stop all other tasks on it.
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

/// A client whose calls block.
#[derive(Clone)]
pub struct Client {
    client: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Creates a client for the server at `url`, with default settings.
    pub fn new(url: &str) -> Result<Self, Error> {
        Self::of(crate::Client::builder(url))
    }

    /// Creates a client with the settings of `builder`.
    pub fn of(builder: ClientBuilder) -> Result<Self, Error> {
        let client = builder.build()?;
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("leasehold").enable_all().build();
        let runtime = runtime.map_err(|error| Error::Invalid(format!("no runtime: {error}")))?;
        Ok(Self { client, runtime: Arc::new(runtime) })
    }

    /// Starts a request for a lock: see [`LockRequest`].
    pub fn lock(&self, name: impl Into<String>) -> LockRequest {
        LockRequest { client: self.clone(), request: self.client.lock(name) }
    }

    /// Starts a request for several locks that are granted all together: see [`LocksRequest`].
    pub fn locks(&self) -> LocksRequest {
        LocksRequest { client: self.clone(), request: self.client.locks() }
    }

    /// Watches the locks whose names begin with `prefix`, from now on: see [`Events`].
    pub fn watch(&self, prefix: impl Into<String>) -> Events {
        Events { client: self.clone(), events: self.client.watch(prefix) }
    }

    /// Returns the async client, for all other calls: `client.wait_for(client.inner().look("orders"))`.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// Blocks until the future completes.
    pub fn wait_for<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.client.fmt(f)
    }
}

/// Setters that pass on to the async request.
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

/// A blocking request and its guard.
macro_rules! request {
    ($request:ident, $guard:ident) => {
        #[doc = concat!("A request. It has the settings of [`crate::", stringify!($request), "`].")]
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
            /// Acquires the lock or locks, if they are free or become free within the wait.
            pub fn acquire(self) -> Result<$guard, Error> {
                let Self { client, request } = self;
                let guard = client.wait_for(request.acquire())?;
                Ok($guard { client, guard: Some(guard) })
            }

            /// Runs `work` while the lock or locks are held, and releases them however it ends, even by a panic. If
            /// they are lost during the work, `check` reports it, and so does the result.
            pub fn run<T>(self, work: impl FnOnce(&$guard) -> T) -> Result<T, Error> {
                let guard = self.acquire()?;
                let done = work(&guard);
                guard.check().map_err(|lost| crate::terms::Held::loss(&*guard, lost))?;
                match guard.release() {
                    Err(error @ Error::NotReleased(_)) => Err(error),
                    // The work is complete, and the lease expires automatically.
                    _ => Ok(done),
                }
            }
        }

        #[doc = concat!("Holds what was acquired: see [`crate::", stringify!($guard), "`]. Releases it when dropped.")]
        #[must_use = "the lock is released when the guard is dropped"]
        pub struct $guard {
            client: Client,
            /// `None` only while the guard is being dropped or released.
            guard: Option<crate::$guard>,
        }

        impl $guard {
            /// Releases what the guard holds.
            pub fn release(mut self) -> Result<(), Error> {
                match self.guard.take() {
                    Some(guard) => self.client.wait_for(guard.release()),
                    None => Ok(()),
                }
            }

            /// Blocks until the lease is lost, at most for `time`. Returns `None` if it is still held then.
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
                    // The thread that renewed the lease releases it.
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

/// A stream of lock events: see [`crate::Events`]. It is also an iterator that never ends.
#[derive(Debug)]
pub struct Events {
    client: Client,
    events: crate::Events,
}

impl Events {
    /// Connects now, so that no event from here on is missed.
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
