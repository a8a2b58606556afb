//! When to ask again.

use std::time::Duration;

use leasehold_api::{Code, Reason};

use crate::clock::Moment;
use crate::{Client, Error, random};

/// How often and how long something is tried. Everything is bounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// Most tries. While waiting in a queue only those count that failed one after the other; that a wait is asked for
    /// again after half a minute without a word is no failure. Nor is 503 `BUSY` or `UNKNOWN` there, with which a
    /// server answers that cannot reach its store: only the end of the wait ends that.
    pub attempts_max: u32,
    /// No try begins later than this after the first one; where a wait is given, that counts instead.
    pub total_max: Duration,
    /// The pause after the first failure; it doubles with each.
    pub pause_min: Duration,
    /// The longest pause after a failure.
    pub pause_max: Duration,
}

impl Default for Retry {
    /// 8 tries in 20 s, with pauses from 50 ms to 2 s.
    fn default() -> Self {
        Self {
            attempts_max: 8,
            total_max: Duration::from_secs(20),
            pause_min: Duration::from_millis(50),
            pause_max: Duration::from_secs(2),
        }
    }
}

/// What is done about a lock that somebody else has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// Nothing: that is the answer.
    Once,
    /// Wait in its queue.
    Queue,
    /// Come back when the server says so.
    Return,
}

/// A wait that ends so long before its time was ended by somebody: cancelled, or revoked. Both must be exceeded: clocks
/// differ, and the server counts from when it received what we sent.
const EARLY_MIN: Duration = Duration::from_millis(100);
const EARLY_PART: u32 = 10;

/// The tries so far.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry: Retry,
    manner: Manner,
    give_up_at: Moment,
    /// When the latest try began.
    begun_at: Moment,
    /// The wait it asked for, if an early end of that is an answer.
    wait: Duration,
    n_attempts: u32,
    /// Tries in a row that failed, for the length of the pause.
    n_pauses: u32,
    /// Those of them that count while waiting in a queue.
    n_failures: u32,
    /// The wait is over, and one more server is asked.
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

    /// The next try begins. A wait of this length that ends early is the answer; with zero none is.
    pub(crate) fn begin(&mut self, now: Moment, wait: Duration) {
        (self.begun_at, self.wait) = (now, wait);
    }

    /// Nothing was said for a part of the wait, as is usual where a lock is held for long.
    pub(crate) fn goes_on(&mut self) {
        (self.n_pauses, self.n_failures) = (0, 0);
    }

    /// The pause before one more try after a wait that ended with no word from its server: another one, if there is
    /// another, may know better. `None` if this was that try, or if it has an answer.
    pub(crate) fn once_more(&mut self, error: &Error) -> Option<Duration> {
        let is_silent = self.manner == Manner::Queue && matches!(error, Error::Broken(_));
        let is_left = self.n_failures < self.retry.attempts_max;
        (is_silent && is_left && !std::mem::replace(&mut self.is_last, true))
            .then_some(self.retry.pause_min)
    }

    /// Whether a wait that is over now was ended by somebody. Asking again would undo that.
    fn was_ended(&self, now: Moment) -> bool {
        let left = self.wait.saturating_sub(now.since(self.begun_at));
        left > EARLY_MIN && left > self.wait / EARLY_PART
    }

    /// The pause before the next try; `None` if this error is the answer.
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
                // Whoever kept its place until the wait was over goes straight to the back of the queue. But a server
                // that says at once that the wait is over is not asked more often than it recommends, or than any
                // failing one.
                if no.reason == Reason::WaitTimeout {
                    pause.max(self.retry.pause_min).saturating_sub(now.since(self.begun_at))
                } else {
                    pause
                }
            }
            // It lasts as long as its operator wants: whoever does not wait has its answer.
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

/// Whether one of the tries so far may have taken effect.
#[derive(Debug, Default)]
pub(crate) struct Doubt(bool);

impl Doubt {
    /// The error of the latest try, and whether any of them may have taken effect.
    pub(crate) fn over(&mut self, error: Error) -> Error {
        let error = if self.0 { error.after_uncertain() } else { error };
        self.0 = error.may_have_taken_effect();
        error
    }

    /// May a try have taken effect?
    pub(crate) fn is_left(&self) -> bool {
        self.0
    }

    /// Something else is asked from now on.
    pub(crate) fn end(&mut self) {
        self.0 = false;
    }
}

/// Asks the same again as long as that may help, as often as [`Retry::default`] says.
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
    fn a_held_lock_is_an_answer_unless_one_means_to_come_back() {
        let held = refusal(Reason::Held);
        assert_eq!(again(Manner::Once, &held), None);
        assert_eq!(again(Manner::Queue, &held), None);
        let pause = again(Manner::Return, &held).unwrap();
        let recommended = Duration::from_millis(400);
        assert!(pause > recommended && pause <= recommended * 5 / 4, "{pause:?}");
    }

    #[test]
    fn busy_and_broken_are_tried_again_in_every_manner() {
        let broken = Error::Broken("cut".into());
        for manner in [Manner::Once, Manner::Queue, Manner::Return] {
            assert!(again(manner, &refusal(Reason::BusyRetry)).is_some());
            let pause = again(manner, &broken).unwrap();
            assert!((25..=50).contains(&pause.as_millis()), "{pause:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_tried_again() {
        assert_eq!(again(Manner::Return, &Error::Invalid("no".into())), None);
        assert_eq!(again(Manner::Once, &refusal(Reason::QueueFull)), None);
    }

    #[test]
    fn maintenance_is_an_answer_to_those_who_do_not_wait() {
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

    /// How long these tries go on where every one of them fails so.
    fn lasts(mut attempts: Attempts, error: &Error) -> Duration {
        let mut now = Moment::default();
        while let Some(pause) = attempts.after(error, now) {
            now = now + pause;
        }
        now.since(Moment::default())
    }

    #[test]
    fn an_outage_of_the_store_ends_a_wait_only_with_its_time() {
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
    fn a_wait_that_is_over_at_once_is_not_begun_again_at_once() {
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
    fn a_wait_that_somebody_ended_is_not_begun_again() {
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
    fn what_may_have_taken_effect_once_may_have_until_there_is_an_answer() {
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
    fn a_wait_that_ends_in_silence_is_followed_by_one_more_try() {
        let broken = Error::Broken("nothing came".into());
        let mut queued = attempts(Manner::Queue);
        assert_eq!(queued.once_more(&refusal(Reason::WaitTimeout)), None, "that is an answer");
        assert_eq!(queued.once_more(&broken), Some(Retry::default().pause_min));
        assert_eq!(queued.once_more(&broken), None);
        assert_eq!(attempts(Manner::Once).once_more(&broken), None);
    }

    #[test]
    fn a_part_of_a_wait_without_a_word_is_no_failure() {
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
