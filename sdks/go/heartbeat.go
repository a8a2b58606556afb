package leasehold

import (
	"context"
	"errors"
	"time"
)

// Parts of the ttl: when to renew, how long one try may take, and the pauses between tries that fail.
const (
	renewAfter = 3
	tryFor     = 6
	pauseMin   = 40
	pauseMax   = 10
	// However short the ttl, a try gets this long.
	tryForMin = 50 * time.Millisecond
)

// heartbeat renews in the background, for exactly as long as somebody wants it.
type heartbeat struct {
	ttl time.Duration
	// When the lease ends unless it is renewed.
	end moment
	// renew returns how long the lease lasts from when it was called. It gives up after the patience.
	renew func(ctx context.Context, patience time.Duration) (time.Duration, error)
	// failed is told of every failure.
	failed func(error)
}

// run renews until the tenure is lost. When it returns, nothing is sent any more.
func (h *heartbeat) run(t *tenure) {
	// Counted back from the end: after a wait in the queue, the send time is long ago.
	next := h.end.after(-(h.ttl - h.ttl/renewAfter))
	nFailed := 0
	for {
		if sleepUntil(t.done, t.clock, next) != nil || t.check() != nil {
			return
		}
		sentAt := t.clock.now()
		expiresIn, err := h.renew(t.done, h.patience())
		switch {
		case err == nil:
			if t.extend(sentAt, expiresIn) != nil {
				return
			}
			nFailed = 0
			next = sentAt.after(h.ttl / renewAfter)
		case isFinal(err):
			t.loseBy(Ended, said(err))
			return
		case t.check() != nil:
			return
		default:
			// Any other answer says nothing about the lease. It may be over then; the deadline will tell.
			h.failed(err)
			next = t.clock.now().after(pauseAfter(h.ttl, nFailed))
			nFailed++
		}
	}
}

func (h *heartbeat) patience() time.Duration {
	if patience := h.ttl / tryFor; patience > tryForMin {
		return patience
	}
	return tryForMin
}

// said is what the server said, and of which of several locks.
func said(err error) string {
	var no *NotRenewedError
	if errors.As(err, &no) && no.LockName != "" {
		return label(no.LockName) + ": " + err.Error()
	}
	return err.Error()
}

// isFinal: the server knows that there is nothing to renew.
func isFinal(err error) bool {
	var notRenewed *NotRenewedError
	return errors.As(err, &notRenewed) || hasCode(err, "NO_SUCH_SESSION")
}

func hasCode(err error, code string) bool {
	var failed *FailedError
	return errors.As(err, &failed) && failed.Failure.Code == code
}

func pauseAfter(ttl time.Duration, nFailed int) time.Duration {
	return jittered(doubled(ttl/pauseMin, nFailed, ttl/pauseMax))
}

// doubled is the pause, doubled so many times, but not longer than the longest.
func doubled(pause time.Duration, times int, longest time.Duration) time.Duration {
	for ; times > 0 && pause < longest; times-- {
		pause *= 2
	}
	if pause > longest {
		return longest
	}
	return pause
}
