package leasehold

import (
	"context"
	"math"
	"sync"
	"time"
)

// moment is a time on the machine's clock, counted from a beginning of its own.
type moment time.Duration

// never is a moment that never comes.
const never = moment(math.MaxInt64)

// after is the moment so much later. Never stays never.
func (m moment) after(d time.Duration) moment {
	if m == never || d > 0 && m > never-moment(d) {
		return never
	}
	return m + moment(d)
}

// since is how long after earlier this is.
func (m moment) since(earlier moment) time.Duration {
	return time.Duration(m - earlier)
}

// clock tells the time and rings. Tests have one of their own.
type clock interface {
	now() moment
	// at calls ring once, at that moment or soon after, never before. What it returns cancels that.
	at(at moment, ring func()) (cancel func())
}

// tick is how late an alarm can be after a suspend: the timers of the runtime stand still meanwhile, a lease does not.
const tick = time.Second

// machineClock goes on while the machine is suspended, where the system has such a clock.
type machineClock struct{}

func (machineClock) now() moment { return moment(sinceBoot()) }

func (c machineClock) at(at moment, ring func()) func() {
	alarm := &alarm{clock: c, at: at, ring: ring}
	alarm.mutex.Lock()
	defer alarm.mutex.Unlock()
	alarm.wait()
	return alarm.cancel
}

type alarm struct {
	clock clock
	at    moment
	ring  func()

	mutex       sync.Mutex
	timer       *time.Timer
	isCancelled bool
}

func (a *alarm) wait() {
	left := a.at.since(a.clock.now())
	if left > tick {
		left = tick
	}
	a.timer = time.AfterFunc(left, a.look)
}

func (a *alarm) look() {
	a.mutex.Lock()
	if a.isCancelled {
		a.mutex.Unlock()
		return
	}
	if a.clock.now() < a.at {
		a.wait()
		a.mutex.Unlock()
		return
	}
	a.mutex.Unlock()
	a.ring()
}

func (a *alarm) cancel() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.isCancelled = true
	a.timer.Stop()
}

// sleepUntil returns at that moment, or with the context's error.
func sleepUntil(ctx context.Context, clock clock, at moment) error {
	rung := make(chan struct{})
	cancel := clock.at(at, func() { close(rung) })
	defer cancel()
	select {
	case <-rung:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
