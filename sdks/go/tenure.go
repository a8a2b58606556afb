package leasehold

import (
	"context"
	"sync"
	"time"
)

// drift: two clocks may drift apart by one in so many.
const drift = 100

// tenure is how long something is ours: the one place that compares a deadline with the clock.
//
// Every question looks at the clock first, and a loss once seen stays: no answer that comes later brings back what
// somebody was already told is lost.
type tenure struct {
	clock  clock
	margin time.Duration
	// For messages, set before anybody else knows of it.
	what string
	// It ends with this one at the latest.
	outer *tenure
	// done is cancelled by the loss.
	done   context.Context
	cancel context.CancelFunc

	mutex sync.Mutex
	// The lease lasts at least until then.
	until  moment
	lost   *LostError
	silent func()
	inner  map[*tenure]struct{}
}

func newTenure(clock clock, margin time.Duration, until moment, outer *tenure) *tenure {
	done, cancel := context.WithCancel(context.Background())
	return &tenure{clock: clock, margin: margin, outer: outer, done: done, cancel: cancel, until: until,
		silent: func() {}, inner: map[*tenure]struct{}{}}
}

// granted: for so long, by the answer to what was sent at sentAt.
func granted(clock clock, margin time.Duration, sentAt moment, expiresIn time.Duration, what string) *tenure {
	t := newTenure(clock, margin, endOf(sentAt, expiresIn), nil)
	t.what = what
	t.arm()
	return t
}

// within: as long as the outer one, unless it is released before.
func within(outer *tenure, what string) *tenure {
	t := newTenure(outer.clock, outer.margin, never, outer)
	t.what = what
	lost := outer.check()
	outer.mutex.Lock()
	if outer.lost == nil {
		outer.inner[t] = struct{}{}
	} else {
		lost = outer.lost
	}
	outer.mutex.Unlock()
	if lost != nil {
		t.loseBy(lost.Reason, lost.Detail)
	}
	return t
}

// deadline is when it counts as lost unless renewed.
func (t *tenure) deadline() moment { return t.end().after(-t.margin) }

// end is until when nobody else can have it, if clocks drift no more than they may.
func (t *tenure) end() moment {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.outer != nil {
		return t.outer.end()
	}
	return t.until
}

// check is why it is lost; nil as long as it is not.
func (t *tenure) check() *LostError {
	now := t.clock.now()
	if t.outer != nil {
		t.outer.check()
	}
	t.mutex.Lock()
	lost, isLate := t.lost, now >= t.until.after(-t.margin)
	t.mutex.Unlock()
	if lost == nil && isLate {
		lost = t.lose(OutOfTime)
	}
	return lost
}

// extend: a renewal sent at sentAt was answered. What is lost by then stays lost.
func (t *tenure) extend(sentAt moment, expiresIn time.Duration) *LostError {
	if lost := t.check(); lost != nil {
		return lost
	}
	t.mutex.Lock()
	if end := endOf(sentAt, expiresIn); t.lost == nil && end > t.until {
		t.until = end
	}
	t.mutex.Unlock()
	return t.check()
}

// lose: it is lost, unless it was before. Returns why.
func (t *tenure) lose(why LostReason) *LostError { return t.loseBy(why, "") }

// loseBy does so, with what the server said.
func (t *tenure) loseBy(why LostReason, detail string) *LostError {
	t.mutex.Lock()
	if t.lost != nil {
		defer t.mutex.Unlock()
		return t.lost
	}
	t.lost = &LostError{Reason: why, What: t.what, Detail: detail}
	lost, silence, inner := t.lost, t.silent, t.inner
	t.inner = nil
	t.mutex.Unlock()
	silence()
	t.cancel()
	if t.outer != nil {
		t.outer.forget(t)
	}
	for each := range inner {
		each.loseBy(why, detail)
	}
	return lost
}

func (t *tenure) forget(inner *tenure) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.inner, inner)
}

// arm rings at the deadline, and again if it was renewed by then.
func (t *tenure) arm() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.lost == nil && t.until != never {
		t.silent = t.clock.at(t.until.after(-t.margin), func() {
			if t.check() == nil {
				t.arm()
			}
		})
	}
}

// endOf is the end by our clock: never later than by the server's, which counts from when it received what we sent.
func endOf(sentAt moment, expiresIn time.Duration) moment {
	return sentAt.after(expiresIn - expiresIn/drift)
}
