package leasehold

import (
	"context"
	"sync"
	"testing"
	"time"
)

const (
	beatTTL    = 6 * time.Second
	beatMargin = 600 * time.Millisecond
)

// beating renews on a clock of the test's.
type beating struct {
	clock   *fakeClock
	tenure  *tenure
	stopped chan struct{}

	mutex sync.Mutex
	calls []time.Duration
}

func startBeating(renew func(ctx context.Context) (time.Duration, error)) *beating {
	clock := newFakeClock()
	b := &beating{clock: clock, tenure: granted(clock, beatMargin, 0, beatTTL, ""), stopped: make(chan struct{})}
	beat := &heartbeat{ttl: beatTTL, end: moment(beatTTL), failed: func(error) {},
		renew: func(ctx context.Context, patience time.Duration) (time.Duration, error) {
			if patience != time.Second {
				panic("a try takes at most a sixth of the ttl")
			}
			b.mutex.Lock()
			b.calls = append(b.calls, time.Duration(clock.now()))
			b.mutex.Unlock()
			return renew(ctx)
		}}
	go func() {
		defer close(b.stopped)
		beat.run(b.tenure)
	}()
	return b
}

func (b *beating) nCalls() int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return len(b.calls)
}

func TestItRenewsAfterAThirdOfTheTTLForAsLongAsItIsHeld(t *testing.T) {
	b := startBeating(func(context.Context) (time.Duration, error) { return beatTTL, nil })
	for at := 2 * time.Second; at <= 20*time.Second; at += 2 * time.Second {
		until(t, "it waits", func() bool { return b.clock.waits(at-1, at) })
		b.clock.advance(2 * time.Second)
	}
	until(t, "it was renewed", func() bool { return b.nCalls() == 10 })
	b.tenure.lose(Released)
	<-b.stopped
	b.clock.advance(20 * time.Second)
	if b.nCalls() != 10 {
		t.Fatal("renewed after a release")
	}
}

func TestARenewalInFlightIsBrokenOffByARelease(t *testing.T) {
	b := startBeating(func(ctx context.Context) (time.Duration, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
	until(t, "it waits", func() bool { return b.clock.waits(0, 2*time.Second) })
	b.clock.advance(2 * time.Second)
	until(t, "it renews", func() bool { return b.nCalls() == 1 })
	b.tenure.lose(Released)
	<-b.stopped
}

func TestAnAnswerThatComesAfterTheLossChangesNothing(t *testing.T) {
	answer := make(chan time.Duration)
	b := startBeating(func(context.Context) (time.Duration, error) { return <-answer, nil })
	until(t, "it waits", func() bool { return b.clock.waits(0, 2*time.Second) })
	b.clock.advance(2 * time.Second)
	until(t, "it renews", func() bool { return b.nCalls() == 1 })
	b.clock.advance(3340 * time.Millisecond)
	wantLost(t, b.tenure.check(), OutOfTime)
	answer <- beatTTL
	<-b.stopped
	wantLost(t, b.tenure.check(), OutOfTime)
}

func TestAFailureIsTriedAgainAndARefusalEndsIt(t *testing.T) {
	answers := []error{&BrokenError{Why: "cut"}, nil, &NotRenewedError{}}
	n := 0
	b := startBeating(func(context.Context) (time.Duration, error) {
		err := answers[n]
		n++
		return beatTTL, err
	})
	until(t, "it waits", func() bool { return b.clock.waits(0, 2*time.Second) })
	b.clock.advance(2 * time.Second)
	until(t, "it tries again", func() bool { return b.clock.waits(2*time.Second, 2150*time.Millisecond) })
	b.clock.advance(150 * time.Millisecond)
	until(t, "it was renewed", func() bool { return b.clock.waits(4*time.Second, 4150*time.Millisecond) })
	wantLost(t, b.tenure.check(), "")
	b.clock.advance(2 * time.Second)
	<-b.stopped
	wantLost(t, b.tenure.check(), Ended)
}
