//! Alternates between following and leading, in a process that outlives both.
//!
//! Clients use the same handle all the time. While this process follows, their requests are rejected immediately and
//! have no effect. The state of one leadership (machine, waiters, pending answers, closed connections) ends with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use leasehold_base::clock::{Clock, LockClock};
use leasehold_base::pace;
use leasehold_base::sync::lock;
use leasehold_core::mutant;

use super::chronicler::Chronicler;
use super::durability::Durability;
use super::event::EventLog;
use super::metrics::{EngineMetrics, Turn};
use super::rounds::{Habits, Lead};
use super::shared::Shared;
use super::writer::Writer;
use super::{EngineHandle, Options, run};
use leasehold_store::{self as store, Event, Followed, Loaded, News, Seat, Taken, Told};

/// A follower checks at least this often for new records and for a stop.
const FOLLOW_MAX: Duration = Duration::from_millis(250);
/// After handing over, a stopping leader tells clients the address of the new leader for up to this long.
const SEE_OFF_MAX: Duration = Duration::from_secs(1);
const SEE_OFF_PAUSE: Duration = Duration::from_millis(25);
/// The interval between attempts if following fails.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// A process that is part of a cluster.
pub(super) struct Roles {
    options: Options,
    seat: Box<dyn Seat>,
    lead: Arc<Lead<Writer>>,
    shared: Arc<Shared>,
    clock: LockClock,
    events: Arc<EventLog>,
    metrics: Arc<EngineMetrics>,
    /// Dropped last, after it has written all events.
    chronicler: Option<Chronicler>,
}

impl Roles {
    /// Reads the shared state as a follower.
    pub(super) fn start(
        options: Options,
        mut seat: Box<dyn Seat>,
        clock: Arc<dyn Clock>,
        metrics: Arc<EngineMetrics>,
    ) -> Result<(Self, EngineHandle), store::Error> {
        let News::State(Followed { generation, seq, last, told_after, told }) =
            seat.follow(FOLLOW_MAX)?
        else {
            return Err(store::Error::Refused("there is no state to follow from".into()));
        };
        let clock = LockClock::resume(clock, Some(last));
        let (told, ours) = sorted(told);
        if let Some((audit, data)) = &options.audit {
            let wall_ms = clock.moment().wall_ms;
            // Records of other servers are in their own audit files.
            let ours: Vec<_> = told.iter().filter(|event| ours.contains(&event.id.seq)).collect();
            audit.tell_late(generation, &mut ours.into_iter());
            audit.begin((generation, seq), &[], data.as_deref(), wall_ms);
        }
        let events = Arc::new(EventLog::new(generation, seq, Vec::new(), options.kept()));
        let chronicler = options.history.clone().map(|history| {
            let read = (&*told, told_after, seq);
            Chronicler::start(history, events.clone(), clock.clone(), read)
        });
        let chronicler = chronicler.transpose()?;
        events.recall(told_after, seq, told);
        let shared = Arc::new(Shared::new(options.queue_max));
        drop(shared.follow());
        let habits = Habits { is_near: seat.is_near(), ..Habits::default() };
        let lead = Arc::new(Lead::vacant(shared.inbox.clone(), habits));
        let handle = EngineHandle::new(
            lead.clone(),
            shared.clone(),
            clock.clone(),
            events.clone(),
            metrics.clone(),
        );
        let handle = handle.with_health(seat.health());
        metrics.cluster.leads(None);
        Ok((Self { options, seat, lead, shared, clock, events, metrics, chronicler }, handle))
    }

    /// Follows and leads until the process stops or cannot continue.
    pub(super) fn live(mut self) -> Result<(), store::Error> {
        let ended = loop {
            let Some(taken) = self.follow() else { break Ok(()) };
            match self.write(taken) {
                Err(store::Error::Fenced(why)) => {
                    tracing::warn!(%why, "lost leadership");
                    self.metrics.cluster.leads(None);
                    self.metrics.cluster.count(Turn::Lost);
                    drop(self.shared.follow());
                    self.shared.led_by(self.seat.find_leader());
                }
                Ok(()) => {
                    self.see_off();
                    break Ok(());
                }
                // The server stops, so the failure does not matter to any client.
                Err(_) if self.shared.is_stopping() => break Ok(()),
                ended => break ended,
            }
        };
        self.seat.leave();
        drop(self.shared.inbox.close());
        self.shared.stopped.send_replace(true);
        ended
    }

    /// Follows until this process becomes the leader. Returns `None` when it is time to stop.
    fn follow(&mut self) -> Option<Taken> {
        let mut trouble = None;
        while !self.shared.is_stopping() {
            self.shared.alive_at.store(self.clock.now().as_nanos(), Relaxed);
            let step = self.step();
            if self.seat.is_whole() {
                *lock(&self.shared.whole_at) = Some(self.clock.instant());
            }
            self.shared.led_by(self.seat.leader());
            match step {
                Ok(None) => trouble = None,
                Ok(Some(taken)) => return Some(taken),
                Err(error) => {
                    let why = error.to_string();
                    // Logged once, not every second.
                    if trouble.as_ref() != Some(&why) {
                        tracing::error!(%why, "cannot follow");
                    }
                    trouble = Some(why);
                    pace::park(TROUBLE_PAUSE);
                }
            }
        }
        None
    }

    /// Tells clients that still arrive here, for a moment, the address of the new leader.
    fn see_off(&mut self) {
        drop(self.shared.follow());
        let began = pace::now();
        let is_reached = self.seat.leader().is_some_and(|own| own.peering.is_some());
        while is_reached && pace::now().saturating_sub(began) < SEE_OFF_MAX {
            self.shared.led_by(self.seat.find_leader());
            pace::sleep(SEE_OFF_PAUSE);
        }
    }

    fn step(&mut self) -> Result<Option<Taken>, store::Error> {
        match self.seat.follow(FOLLOW_MAX)? {
            News::State(Followed { generation, seq, last, told_after, told }) => {
                self.clock.go_on(last);
                self.events.start_over(generation, told_after);
                let (told, ours) = sorted(told);
                if let Some((audit, _)) = &self.options.audit {
                    let mut ours = told.iter().filter(|event| ours.contains(&event.id.seq));
                    audit.tell_late(generation, &mut ours);
                }
                if let Some(chronicler) = &self.chronicler {
                    chronicler.add(generation, &told, told_after, seq);
                }
                self.events.catch_up(told_after, seq, told);
            }
            News::Records(records) => {
                for Told { seq, wall_ms, facts, moment, is_ours } in records {
                    self.clock.go_on(moment);
                    if let Some((audit, _)) = self.options.audit.as_ref().filter(|_| is_ours) {
                        audit.tell_late_record((self.events.generation(), seq), &facts, wall_ms);
                    }
                    self.events.overhear(seq, facts, wall_ms);
                }
            }
            News::Vacant => return self.seat.take(),
            News::Quiet => {}
        }
        Ok(None)
    }

    /// Leads until another server takes over or it is time to stop.
    fn write(&mut self, (store, loaded): Taken) -> Result<(), store::Error> {
        let Loaded { machine, last, epoch, seq, told, .. } = loaded;
        self.clock.go_on(last.unwrap_or_default());
        // Earlier events were published while following.
        self.events.catch_up(0, seq, told);
        let mut writer = Writer::new(
            (self.options.clone(), Durability::Shared),
            (store, epoch),
            machine,
            self.clock.clone(),
            self.shared.clone(),
            self.events.clone(),
            self.metrics.clone(),
        );
        if !mutant!(AnswerBeforeEpochRecord) {
            writer.begin()?;
        }
        tracing::info!(epoch, "became leader");
        self.shared.alive_at.store(self.clock.now().as_nanos(), Relaxed);
        self.metrics.cluster.leads(Some(epoch));
        self.metrics.cluster.count(Turn::Taken);
        self.lead.install(writer);
        self.shared.lead();
        run(&self.lead, &self.shared)
    }
}

/// Converts records to events. Also returns the numbers of the records that this server wrote.
fn sorted(told: Vec<Told>) -> (Vec<Event>, BTreeSet<u64>) {
    let ours = told.iter().filter(|told| told.is_ours).map(|told| told.seq).collect();
    (told.into_iter().flat_map(Told::events).collect(), ours)
}
