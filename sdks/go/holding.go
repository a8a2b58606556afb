package leasehold

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Holding is something that is ours until it is released or lost: a lease, several leases, or a session.
//
// It promises:
//
//   - Context is cancelled, and Check fails, before the lease can have ended at the server, as long as this process is
//     scheduled and clocks drift by less than 1 %. After a pause, the first question is answered right: Check, and also
//     the context's Err.
//   - A loss is final. No renewal that is answered late brings it back.
//   - It is released once, however often the connection breaks, and nothing is renewed after that.
//
// It does not promise that you stop. Between a Check and what you do next the process can be paused for longer than the
// lease lasts. Send the fencing token along, and let the other side refuse what is stale.
type Holding struct {
	client *Client
	tenure *tenure
	ctx    context.Context
	// What it is called in messages.
	label string
	// Closed when nothing is renewed any more.
	stopped chan struct{}

	mutex sync.Mutex
	// Whether the server knows that it is over, and what it said.
	isOver bool
	result error
}

func newHolding(ctx context.Context, client *Client, tenure *tenure, label string) *Holding {
	inner, cancel := context.WithCancel(ctx)
	h := &Holding{client: client, tenure: tenure, label: label, stopped: make(chan struct{})}
	h.ctx = &heldContext{Context: inner, tenure: tenure}
	go func() {
		<-tenure.done.Done()
		cancel()
		if lost := tenure.check(); lost.Reason != Released {
			client.logf("leasehold: lost: %v", lost)
		}
	}()
	return h
}

// heldContext looks at the clock before it says that all is well.
type heldContext struct {
	context.Context
	tenure *tenure
}

func (c *heldContext) Err() error {
	if c.tenure.check() != nil {
		// The cancellation is under way.
		<-c.Context.Done()
	}
	return c.Context.Err()
}

// Context is cancelled when it is lost or released, and when the context it was acquired with is done. Hand it to
// whatever should stop then. Being done with that other context does not release it: Release does.
func (h *Holding) Context() context.Context { return h.ctx }

// Check is nil as long as it is ours, and a [LostError] afterwards. It looks at the clock first.
func (h *Holding) Check() error {
	if lost := h.tenure.check(); lost != nil {
		return lost
	}
	return nil
}

// Held says whether it is ours.
func (h *Holding) Held() bool { return h.tenure.check() == nil }

func (h *Holding) held() bool { return h.Held() }

// Lost is closed when it is lost or released. Check says why.
func (h *Holding) Lost() <-chan struct{} { return h.tenure.done.Done() }

// beat renews it in the background until it is lost or released.
func (h *Holding) beat(beat *heartbeat) {
	beat.failed = func(err error) {
		h.client.logf("leasehold: %s: a renewal failed and is tried again: %v", h.label, err)
	}
	go func() {
		defer close(h.stopped)
		beat.run(h.tenure)
	}()
}

// unrenewed has nothing to renew: it lasts as long as its session.
func (h *Holding) unrenewed() { close(h.stopped) }

// letGo does `last` once nothing is renewed any more. If the context ends it, it can be tried again.
func (h *Holding) letGo(ctx context.Context, last func(context.Context) error) error {
	return h.end(ctx, last, func(err error) bool { return !Retryable(err) && !errors.Is(err, ctx.Err()) })
}

// leaveHeld leaves it held for so long, as `last` does. What the server refuses can still be released.
func (h *Holding) leaveHeld(ctx context.Context, d time.Duration, last func(context.Context) error) error {
	if d <= 0 {
		return invalid("a lease can be left held only for more than 0, got %v", d)
	}
	return h.end(ctx, last, func(error) bool { return false })
}

func (h *Holding) end(ctx context.Context, last func(context.Context) error, isFinal func(error) bool) error {
	h.tenure.lose(Released)
	<-h.stopped
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.isOver {
		return h.result
	}
	err := last(ctx)
	if err == nil || isFinal(err) {
		h.isOver, h.result = true, err
	}
	return err
}
