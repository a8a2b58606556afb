//! Decides when to retry a request.

use std::time::Duration;

use leasehold_api::{Code, Reason};

use crate::clock::Moment;
use crate::{Client, Error, random};

/// How often and for how long a request is retried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Maximum number of tries. While waiting in a queue, only consecutive failures count. Repeating the wait after
    /// half a minute without a response is not a failure. Nor is 503 `BUSY` or `UNKNOWN`, which a server sends if it
    /// cannot reach its store: those are retried until the wait is over.
    pub attempts_max: u32,
    /// Time limit for starting another try, from the first one. For a request with a wait, the wait counts instead.
    pub total_max: Duration,
    /// The pause after the first failure. It doubles with each failure.
    pub pause_min: Duration,
    /// Maximum pause after a failure.
    pub pause_max: Duration,
}

impl Default for Retry {
    /// Up to 8 tries in 20 s, with pauses from 50 ms to 2 s.
    fn default() -> Self {
        Self {
            attempts_max: 8,
            total_max: Duration::from_secs(20),
            pause_min: Duration::from_millis(50),
            pause_max: Duration::from_secs(2),
        }
    }
}

/// What to do if another client holds the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// Return the error.
    Once,
    /// Wait in the queue of the lock.
    Queue,
    /// Retry when the server recommends it.
    Return,
}

/// A wait that ends earlier than its time by more than this was cancelled or revoked. Both limits must be exceeded,
/// because clocks differ and the server counts from when it received the request.
const EARLY_MIN: Duration = Duration::from_millis(100);
const EARLY_PART: u32 = 10;

/// The state of a request across its tries.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry: Retry,
    manner: Manner,
    give_up_at: Moment,
    /// When the latest try started.
    begun_at: Moment,
    /// The wait that the latest try requested, if an early end of it is final. Otherwise zero.
    wait: Duration,
    n_attempts: u32,
    /// Number of consecutive failures, which determines the pause.
    n_pauses: u32,
    /// Number of consecutive failures that count while waiting in a queue.
    n_failures: u32,
    /// The wait is over, and one more server is being tried.
    is_last: bool,
}

impl Attempts {
    pub(crate) fn new(retry: Retry, manner: Manner, give_up_at: Moment) -> Self {
        let begun_at = Moment::default();
        let wait = Duration::ZERO;
        Self {
            retry,
            manner,
            give_up_at,
            begun_at,
            wait,
            n_attempts: 0,
            n_pauses: 0,
            n_failures: 0,
            is_last: false,
        }
    }

    /// Starts the next try. If a wait of this length ends early, that is final; with zero, it never is.
    pub(crate) fn begin(&mut self, now: Moment, wait: Duration) {
        (self.begun_at, self.wait) = (now, wait);
    }

    /// Records that part of the wait passed without a response, which is normal if a lock is held for long.
    pub(crate) fn goes_on(&mut self) {
        (self.n_pauses, self.n_failures) = (0, 0);
    }

    /// Returns the pause before one more try, after a wait ended without a response: if there is another server, it
    /// might know the outcome. Returns `None` if this was already that try, or if the error is a response.
    pub(crate) fn once_more(&mut self, error: &Error) -> Option<Duration> {
        let is_silent = self.manner == Manner::Queue && matches!(error, Error::Broken(_));
        let is_left = self.n_failures < self.retry.attempts_max;
        (is_silent && is_left && !std::mem::replace(&mut self.is_last, true))
            .then_some(self.retry.pause_min)
    }

    /// Returns whether a wait that is now over was cancelled or revoked. Repeating the request would undo that.
    fn was_ended(&self, now: Moment) -> bool {
        let left = self.wait.saturating_sub(now.since(self.begun_at));
        left > EARLY_MIN && left > self.wait / EARLY_PART
    }

    /// Returns the pause before the next try, or `None` if the error is final.
    pub(crate) fn after(&mut self, error: &Error, now: Moment) -> Option<Duration> {
        self.n_attempts += 1;
        let pause = match error {
            Error::NotAcquired(no) => {
                self.goes_on();
                let returns = match no.reason {
                    Reason::BusyRetry => true,
                    Reason::WaitTimeout if self.was_ended(now) => false,
                    Reason::QueueFull | Reason::WaitTimeout => self.manner != Manner::Once,
                    _ => self.manner == Manner::Return,
                };
                let recommended = error.retry_after().filter(|_| returns)?;
                let pause = recommended + random::jittered(recommended / 4);
                // A request that waited until its time was over joins the back of the queue again without a pause.
                // But a server that ends the wait immediately is not tried more often than it recommends, or than any
                // failing server.
                if no.reason == Reason::WaitTimeout {
                    pause.max(self.retry.pause_min).saturating_sub(now.since(self.begun_at))
                } else {
                    pause
                }
            }
            // Maintenance lasts as long as the operator wants, so a request without a wait fails immediately.
            Error::Failed { failure, .. }
                if failure.code == Code::Maintenance && self.manner == Manner::Once =>
            {
                return None;
            }
            error if error.is_retryable() => {
                self.n_pauses += 1;
                self.n_failures = if error.is_outage() { 0 } else { self.n_failures + 1 };
                let doubled = 1 << (self.n_pauses - 1).min(16);
                random::jittered(
                    self.retry.pause_min.saturating_mul(doubled).min(self.retry.pause_max),
                )
            }
            _ => return None,
        };
        let n_counted =
            if self.manner == Manner::Queue { self.n_failures } else { self.n_attempts };
        let is_over = n_counted >= self.retry.attempts_max || now + pause >= self.give_up_at;
        (!is_over).then_some(pause)
    }
}

/// Whether one of the tries so far might have taken effect.
#[derive(Debug, Default)]
pub(crate) struct Doubt(bool);

impl Doubt {
    /// Returns the error of the latest try, marked as uncertain if an earlier try might have taken effect.
    pub(crate) fn over(&mut self, error: Error) -> Error {
        let error = if self.0 { error.after_uncertain() } else { error };
        self.0 = error.may_have_taken_effect();
        error
    }

    /// Returns whether a try might have taken effect.
    pub(crate) fn is_left(&self) -> bool {
        self.0
    }

    /// Starts over, for a different request.
    pub(crate) fn end(&mut self) {
        self.0 = false;
    }
}

/// Repeats a request as long as that might help, within the limits of [`Retry::default`].
pub(crate) async fn persist<T, F>(client: &Client, question: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let (clock, retry) = (client.clock(), Retry::default());
    let mut attempts = Attempts::new(retry, Manner::Once, clock.now() + retry.total_max);
    let mut doubt = Doubt::default();
    loop {
        let error = match question().await {
            Ok(answer) => return Ok(answer),
            Err(error) => doubt.over(error),
        };
        let Some(pause) = attempts.after(&error, clock.now()) else { return Err(error) };
        clock.sleep_until(clock.now() + pause).await;
    }
}

#[cfg(test)]
mod tests {
    use leasehold_api::NotAcquired;

    use super::*;

    fn refusal(reason: Reason) -> Error {
        Error::NotAcquired(Box::new(NotAcquired {
            acquired: false,
            lock_name: "a".into(),
            current_owner_id: None,
            current_principal: None,
            current_expiry_ms: None,
            current_metadata: None,
            recommended_retry_ms: 400,
            reason,
            error: "no".into(),
        }))
    }

    fn attempts(manner: Manner) -> Attempts {
        let end = Moment::default() + Duration::from_secs(60);
        Attempts::new(Retry::default(), manner, end)
    }

    fn again(manner: Manner, error: &Error) -> Option<Duration> {
        attempts(manner).after(error, Moment::default())
    }

    #[test]
    fn a_held_lock_is_final_unless_the_caller_wants_to_retry() {
        let held = refusal(Reason::Held);
        assert_eq!(again(Manner::Once, &held), None);
        assert_eq!(again(Manner::Queue, &held), None);
        let pause = again(Manner::Return, &held).unwrap();
        let recommended = Duration::from_millis(400);
        assert!(pause > recommended && pause <= recommended * 5 / 4, "{pause:?}");
    }

    #[test]
    fn busy_and_broken_requests_are_retried_in_every_manner() {
        let broken = Error::Broken("cut".into());
        for manner in [Manner::Once, Manner::Queue, Manner::Return] {
            assert!(again(manner, &refusal(Reason::BusyRetry)).is_some());
            let pause = again(manner, &broken).unwrap();
            assert!((25..=50).contains(&pause.as_millis()), "{pause:?}");
        }
    }

    #[test]
    fn an_invalid_request_is_not_retried() {
        assert_eq!(again(Manner::Return, &Error::Invalid("no".into())), None);
        assert_eq!(again(Manner::Once, &refusal(Reason::QueueFull)), None);
    }

    #[test]
    fn maintenance_fails_a_request_that_does_not_wait() {
        let failure = leasehold_api::Failure::new(Code::Maintenance, "in maintenance");
        let maintenance = Error::Failed { status: 503, failure };
        assert_eq!(again(Manner::Once, &maintenance), None);
        assert!(again(Manner::Queue, &maintenance).is_some());
    }

    #[test]
    fn tries_are_bounded_by_number_and_by_time() {
        let broken = Error::Unreachable("refused".into());
        let mut by_number = attempts(Manner::Queue);
        let n = (0..).take_while(|_| by_number.after(&broken, Moment::default()).is_some()).count();
        assert_eq!(n, 7);
        let late = Moment::default() + Duration::from_secs(60);
        assert_eq!(attempts(Manner::Queue).after(&broken, late), None);
    }

    fn outage(code: Code) -> Error {
        Error::Failed { status: 503, failure: leasehold_api::Failure::new(code, "no") }
    }

    /// Returns how long the retries continue if every try fails with this error.
    fn lasts(mut attempts: Attempts, error: &Error) -> Duration {
        let mut now = Moment::default();
        while let Some(pause) = attempts.after(error, now) {
            now = now + pause;
        }
        now.since(Moment::default())
    }

    #[test]
    fn a_wait_outlasts_a_store_outage_until_its_own_time_is_over() {
        for code in [Code::Unknown, Code::Busy] {
            let queued = lasts(attempts(Manner::Queue), &outage(code));
            assert!(queued > Duration::from_secs(57), "{code:?}: {queued:?}");
            let short = Moment::default() + Duration::from_secs(3);
            let short = lasts(Attempts::new(Retry::default(), Manner::Queue, short), &outage(code));
            assert!(short < Duration::from_secs(3), "{code:?}: {short:?}");
            let others = [Manner::Once, Manner::Return];
            assert!(
                others.iter().all(|manner| lasts(attempts(*manner), &outage(code)).as_secs() < 8)
            );
        }
        let full = lasts(attempts(Manner::Queue), &outage(Code::JournalFull));
        assert!(full < Duration::from_secs(8), "{full:?}");
    }

    #[test]
    fn a_wait_that_ends_immediately_is_not_repeated_immediately() {
        let begun_at = Moment::default() + Duration::from_secs(1);
        let pause = |took| {
            let mut queued = attempts(Manner::Queue);
            queued.begin(begun_at, Duration::ZERO);
            queued.after(&refusal(Reason::WaitTimeout), begun_at + took).unwrap()
        };
        assert!(pause(Duration::from_millis(1)) > Duration::from_millis(390));
        assert_eq!(pause(Duration::from_secs(10)), Duration::ZERO, "it has waited");
        let mut nothing = refusal(Reason::WaitTimeout);
        if let Error::NotAcquired(no) = &mut nothing {
            no.recommended_retry_ms = 0;
        }
        let mut queued = attempts(Manner::Queue);
        queued.begin(begun_at, Duration::ZERO);
        assert_eq!(queued.after(&nothing, begun_at), Some(Retry::default().pause_min));
    }

    #[test]
    fn a_wait_that_was_cancelled_or_revoked_is_not_repeated() {
        let begun_at = Moment::default() + Duration::from_secs(1);
        let again = |wait, took| {
            let mut queued = attempts(Manner::Queue);
            queued.begin(begun_at, Duration::from_millis(wait));
            let now = begun_at + Duration::from_millis(took);
            queued.after(&refusal(Reason::WaitTimeout), now).is_some()
        };
        assert!(!again(50_000, 0));
        assert!(!again(50_000, 44_000));
        assert!(again(50_000, 45_500), "within a tenth of its end");
        assert!(again(50_000, 50_000));
        assert!(!again(400, 200));
        assert!(again(400, 300), "100 ms are nothing");
    }

    #[test]
    fn an_uncertain_effect_stays_uncertain_until_there_is_a_response() {
        let mut doubt = Doubt::default();
        let unreachable = || Error::Unreachable("http://b: refused".into());
        assert!(!doubt.over(unreachable()).may_have_taken_effect());
        assert!(doubt.over(Error::Broken("cut".into())).may_have_taken_effect());
        let error = doubt.over(unreachable());
        assert!(error.may_have_taken_effect() && error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains("cannot connect to http://b: refused"), "{error}");
        let failure = leasehold_api::Failure::new(Code::Busy, "busy");
        assert!(doubt.over(Error::Failed { status: 503, failure }).may_have_taken_effect());
        let throttled = Error::Foreign { status: 429, body: String::new() };
        assert!(doubt.over(throttled).may_have_taken_effect());
        assert!(!doubt.over(refusal(Reason::Held)).may_have_taken_effect(), "that is an answer");
        assert!(!doubt.over(unreachable()).may_have_taken_effect());
    }

    #[test]
    fn a_wait_that_ends_without_a_response_is_followed_by_one_more_try() {
        let broken = Error::Broken("nothing came".into());
        let mut queued = attempts(Manner::Queue);
        assert_eq!(queued.once_more(&refusal(Reason::WaitTimeout)), None, "that is an answer");
        assert_eq!(queued.once_more(&broken), Some(Retry::default().pause_min));
        assert_eq!(queued.once_more(&broken), None);
        assert_eq!(attempts(Manner::Once).once_more(&broken), None);
    }

    #[test]
    fn a_part_of_a_wait_without_a_response_is_not_a_failure() {
        let mut queued = attempts(Manner::Queue);
        for _ in 0..20 {
            assert!(queued.after(&Error::Broken("cut".into()), Moment::default()).is_some());
            queued.goes_on();
        }
    }

    #[test]
    fn in_a_queue_only_failures_in_a_row_count() {
        let mut queued = attempts(Manner::Queue);
        for _ in 0..20 {
            assert!(queued.after(&Error::Broken("cut".into()), Moment::default()).is_some());
            assert!(queued.after(&refusal(Reason::WaitTimeout), Moment::default()).is_some());
        }
    }
}
