package leasehold

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

const (
	// The longest wait the server allows unless it is set otherwise. A longer wait is several, one after the other.
	waitMax = 24 * time.Hour
	// No try of a longer wait lasts longer than this. Whoever is not answered cannot tell a wait from a connection that has fallen
	// silent; asking again, over another one, keeps the place and finds out.
	waitSlice = 30 * time.Second
	// How long whoever gives up waits for the server to know of it.
	leaveMax = time.Second
)

// leaveRetry is how a queue is left. If it does not work, the place is kept for 10 s at most.
var leaveRetry = Retry{AttemptsMax: 4, TotalMax: 2 * time.Second, PauseMin: 50 * time.Millisecond, PauseMax: 500 * time.Millisecond}

// asking is what is asked for, one lock or several. G is the answer, H is what is held then.
type asking[G any, H interface{ held() bool }] struct {
	client *Client
	terms  *terms
	owner  string
	// A wait that is over early was ended by somebody, and is not begun again.
	earlyIsEnded bool

	ask func(ctx context.Context, requestID string, waitMs *uint64) (G, error)
	// take makes of the answer what is held.
	take func(ctx context.Context, granted G, sentAt moment) H
	// giveBack releases what nobody wants any more.
	giveBack func(ctx context.Context, granted G) error
}

// persevere asks until it is granted, or certain not to be.
func (a *asking[G, H]) persevere(ctx context.Context) (H, error) {
	var none H
	if ctx == nil {
		return none, errNoContext
	}
	clock, manner := a.client.clock, a.terms.manner()
	total := a.terms.retry.TotalMax
	if a.terms.wait > 0 {
		total = a.terms.wait
	}
	attempts := attempts{retry: a.terms.retry, manner: manner, giveUpAt: clock.now().after(total)}
	attempts.hasOther = len(a.client.calls.transport.settings.urls) > 1
	place := &place[G, H]{asking: a, requestID: newRequestID()}
	for {
		if err := ctx.Err(); err != nil {
			place.leave()
			return none, err
		}
		attempts.begunAt = clock.now()
		if a.earlyIsEnded && manner == inQueue {
			attempts.wait = waitFrom(attempts.begunAt, attempts.giveUpAt)
		}
		held, err := a.try(ctx, place, manner, attempts.giveUpAt)
		if err == nil {
			a.client.warnShort(a.terms.ttl)
			return held, nil
		}
		if isOver(err) {
			// This id has had its lease.
			place.requestID, place.mayBeTaken = newRequestID(), false
		}
		pause, again := attempts.after(err, clock.now())
		if !again {
			if place.mayBeTaken {
				err = uncertain(err)
			}
			if manner == inQueue || ctx.Err() != nil {
				place.leave()
			}
			return none, err
		}
		if pause > 0 {
			// If the context is done meanwhile, the next round sees it.
			_ = sleepUntil(ctx, clock, clock.now().after(pause))
		}
	}
}

func (a *asking[G, H]) try(ctx context.Context, place *place[G, H], manner manner, giveUpAt moment) (H, error) {
	sentAt := a.client.clock.now()
	var waitMs *uint64
	if manner == inQueue {
		ms := toMillis(waitFrom(sentAt, giveUpAt))
		waitMs = &ms
	}
	var none H
	granted, err := place.ask(ctx, waitMs)
	if hasCode(err, "REQUEST_ID_SPENT") {
		return none, errOver
	}
	if err != nil {
		return none, err
	}
	held := a.take(ctx, granted, sentAt)
	if !held.held() {
		// We slept through a lease. What may be left of it is given back.
		go func() { _ = a.giveBack(context.Background(), granted) }()
		return none, errOver
	}
	return held, nil
}

// waitFrom is how long one request waits.
func waitFrom(sentAt, giveUpAt moment) time.Duration {
	wait := giveUpAt.since(sentAt)
	switch {
	case wait < 0:
		return 0
	case wait > waitMax:
		return waitMax
	}
	return wait
}

// errSliceOver: a part of a wait is over without an answer. That is no failure: it is asked for again under the same request id.
var errSliceOver error = &BrokenError{Why: "nothing came within " + waitSlice.String()}

func isSliceOver(err error) bool { return errors.Is(err, errSliceOver) }

// errOver: a lease was granted and is over, because we slept or because a broken connection kept it from us.
var errOver error = &BrokenError{Why: "the lease had ended before the client received it: the ttl may be too short"}

func isOver(err error) bool { return errors.Is(err, errOver) }

// place is where a request waits, under its request id.
type place[G any, H interface{ held() bool }] struct {
	asking    *asking[G, H]
	requestID string
	// The server may have something under this id: a waiter, or a lease.
	mayBeTaken bool
}

func (p *place[G, H]) ask(ctx context.Context, waitMs *uint64) (G, error) {
	granted, err := p.askForSlice(ctx, waitMs)
	if isSliceOver(err) {
		// Nobody was to answer before. Unless nobody is there.
		p.asking.client.calls.transport.sound(ctx)
	}
	var refused *NotAcquiredError
	switch {
	case err == nil || errors.As(err, &refused):
		p.mayBeTaken = false
	case ctx.Err() != nil || MayHaveTakenEffect(err):
		p.mayBeTaken = true
	}
	return granted, err
}

func (p *place[G, H]) askForSlice(ctx context.Context, waitMs *uint64) (G, error) {
	if fromMillis(waitMs) <= waitSlice {
		return p.asking.ask(ctx, p.requestID, waitMs)
	}
	slice, cancel := context.WithCancel(ctx)
	defer cancel()
	var isOver atomic.Bool
	clock := p.asking.client.clock
	silence := clock.at(clock.now().after(waitSlice), func() {
		isOver.Store(true)
		cancel()
	})
	defer silence()
	granted, err := p.asking.ask(slice, p.requestID, waitMs)
	if ctx.Err() == nil && isOver.Load() && errors.Is(err, context.Canceled) {
		return granted, errSliceOver
	}
	return granted, err
}

// leave tells the server that nobody waits here any more. It takes a moment at most; what takes longer goes on in the
// background.
func (p *place[G, H]) leave() {
	if !p.mayBeTaken {
		return
	}
	p.mayBeTaken = false
	left := make(chan struct{})
	go func() {
		defer close(left)
		p.cancel()
	}()
	select {
	case <-left:
	case <-time.After(leaveMax):
	}
}

func (p *place[G, H]) cancel() {
	ctx, client := context.Background(), p.asking.client
	isCancelled := false
	err := persist(ctx, client.clock, leaveRetry, func(bool) (err error) {
		isCancelled, err = client.calls.cancel(ctx, &cancelRequest{OwnerID: p.asking.owner, RequestID: p.requestID})
		return err
	})
	if err != nil || isCancelled {
		return
	}
	// Perhaps it was granted in the meantime. Whoever asks again learns of it.
	if granted, err := p.asking.ask(ctx, p.requestID, nil); err == nil {
		_ = p.asking.giveBack(ctx, granted)
	}
}

// grant is when something was granted, and for how long from then on.
type grant struct {
	sentAt    moment
	expiresIn time.Duration
}

// afterWait: what the server gave counts from the send time, and clocks may have drifted apart over the wait by more than
// the whole lease. A renewal counts from now.
func (c *Client) afterWait(ttl time.Duration, first grant, renew func() (time.Duration, error)) grant {
	sentAt := c.clock.now()
	if sentAt.since(first.sentAt) <= ttl {
		return first
	}
	expiresIn, err := renew()
	if err != nil {
		return first
	}
	return grant{sentAt: sentAt, expiresIn: expiresIn}
}
