package leasehold

import (
	"context"
	"errors"
	"time"
)

// Retry is how often and how long something is tried. Everything is bounded.
type Retry struct {
	// AttemptsMax is the most tries. While waiting in a queue only those count that failed one after the other; 503 BUSY and
	// UNKNOWN, with which a server answers that cannot reach its store, do not: only the end of the wait ends that.
	AttemptsMax int
	// TotalMax: no try begins later than this after the first one; where a wait is given, that counts instead.
	TotalMax time.Duration
	// PauseMin is the pause after the first failure; it doubles with each.
	PauseMin time.Duration
	// PauseMax is the longest pause after a failure.
	PauseMax time.Duration
}

// DefaultRetry is 8 tries, none of which begins after 20 s, with pauses from 50 ms to 2 s: time for a few servers that do not
// answer.
var DefaultRetry = Retry{AttemptsMax: 8, TotalMax: 20 * time.Second, PauseMin: 50 * time.Millisecond, PauseMax: 2 * time.Second}

// manner is what is done about a lock that another owner has.
type manner int

const (
	// once: nothing, that is the answer.
	once manner = iota
	// inQueue: wait in its queue.
	inQueue
	// comingBack: come back when the server says so.
	comingBack
)

// A wait that ends so long, and by such a part of it, before its time was ended by somebody: cancelled, or revoked. Clocks
// differ, and the server counts from when it received what we sent.
const (
	earlyMin  = 100 * time.Millisecond
	earlyPart = 10
)

// attempts are the tries so far.
type attempts struct {
	retry    Retry
	manner   manner
	giveUpAt moment
	// There is another server that may answer.
	hasOther bool
	// When the latest try began, and the wait it asked for, if an early end of that is an answer.
	begunAt moment
	wait    time.Duration

	nAttempts int
	// Tries in a row that failed, for the length of the pause, and those of them that count while waiting in a queue.
	nPauses   int
	nFailures int
}

// after is the pause before the next try; false if this error is the answer.
func (a *attempts) after(err error, now moment) (time.Duration, bool) {
	if isSliceOver(err) && now < a.giveUpAt {
		a.nPauses, a.nFailures = 0, 0
		return 0, true
	}
	a.nAttempts++
	var pause time.Duration
	var refused *NotAcquiredError
	switch {
	case errors.As(err, &refused):
		a.nPauses, a.nFailures = 0, 0
		reason := refused.Refusal.Reason
		if !a.returnsAfter(reason) || reason == "WAIT_TIMEOUT" && a.wasEnded(now) {
			return 0, false
		}
		pause = a.afterRefusal(refused.Refusal, now)
	case hasCode(err, "MAINTENANCE") && a.manner == once:
		// It lasts as long as its operator wants: whoever does not wait has its answer.
		return 0, false
	case Retryable(err):
		a.nPauses++
		a.nFailures++
		if isToBeRepeated(err) {
			a.nFailures = 0
		}
		pause = jittered(doubled(a.retry.PauseMin, a.nPauses-1, a.retry.PauseMax))
	default:
		return 0, false
	}
	nCounted := a.nAttempts
	if a.manner == inQueue {
		nCounted = a.nFailures
	}
	if nCounted >= a.retry.AttemptsMax {
		return 0, false
	}
	if now.after(pause) < a.giveUpAt {
		return pause, true
	}
	return 0, a.asksOther(err)
}

// isToBeRepeated: a server says so that has no news from its store. It is there, and the wait goes on when the store is back.
func isToBeRepeated(err error) bool {
	var failed *FailedError
	return errors.As(err, &failed) && failed.Status == 503 && Retryable(err) && (hasCode(err, "UNKNOWN") || hasCode(err, "BUSY"))
}

// asksOther: the wait is over and nothing was answered. Another server is asked, once, because this one may be silent.
func (a *attempts) asksOther(err error) bool {
	var broken *BrokenError
	asksOther := a.hasOther && a.manner == inQueue && errors.As(err, &broken)
	a.hasOther = a.hasOther && !asksOther
	return asksOther
}

// wasEnded says whether a wait that is over now was ended by somebody. Asking again would undo that.
func (a *attempts) wasEnded(now moment) bool {
	left := a.wait - now.since(a.begunAt)
	return left > earlyMin && left > a.wait/earlyPart
}

func (a *attempts) returnsAfter(reason string) bool {
	switch reason {
	case "BUSY_RETRY":
		return true
	case "QUEUE_FULL", "WAIT_TIMEOUT":
		return a.manner != once
	default:
		return a.manner == comingBack
	}
}

func (a *attempts) afterRefusal(no NotAcquired, now moment) time.Duration {
	recommended := time.Duration(no.RecommendedRetryMs) * time.Millisecond
	pause := recommended + jittered(recommended/4)
	if no.Reason != "WAIT_TIMEOUT" {
		return pause
	}
	// Whoever kept its place until the wait was over goes straight to the back of the queue. But a server that says at
	// once that the wait is over is not asked more often than it recommends, or than any failing one.
	if pause < a.retry.PauseMin {
		pause = a.retry.PauseMin
	}
	if pause -= now.since(a.begunAt); pause < 0 {
		return 0
	}
	return pause
}

// persist asks the same again as long as that may help. Each try is told whether one before may have taken effect; so is
// whoever gets the error in the end.
func persist(ctx context.Context, clock clock, retry Retry, ask func(mayHaveTakenEffect bool) error) error {
	attempts := attempts{retry: retry, manner: once, giveUpAt: clock.now().after(retry.TotalMax)}
	mayHaveTakenEffect := false
	for {
		err := ask(mayHaveTakenEffect)
		if err == nil {
			return nil
		}
		mayHaveTakenEffect = mayHaveTakenEffect || MayHaveTakenEffect(err)
		pause, again := attempts.after(err, clock.now())
		if !again {
			if mayHaveTakenEffect {
				return uncertain(err)
			}
			return err
		}
		if err := sleepUntil(ctx, clock, clock.now().after(pause)); err != nil {
			return err
		}
	}
}
