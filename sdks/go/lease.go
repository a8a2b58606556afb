package leasehold

import (
	"context"
	"fmt"
	"time"
)

// Lease is a lock that is ours until it is released or lost. See [Holding] for what it promises.
type Lease struct {
	*Holding
	acquired  *acquired
	releaseID string
}

// Lock asks for a lock. It is granted if it is free, or becomes free within [Wait]. A [NotAcquiredError] says who has it.
//
// Every try carries the same request id, so however often a connection breaks there is one lease, one place in the queue
// and one answer. If the context is done before, the queue is left. The context of the lease comes from this one: it
// should not have a timeout that is meant for the asking only, Wait is for that.
func (c *Client) Lock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	return c.lock(ctx, name, c.terms(options), nil)
}

func (c *Client) lock(ctx context.Context, name string, terms *terms, session *Session) (*Lease, error) {
	if err := terms.check(name); err != nil {
		return nil, err
	}
	margin, err := terms.marginOrDefault()
	if err != nil {
		return nil, err
	}
	question, err := acquireQuestion(terms, session)
	if err != nil {
		return nil, err
	}
	asking := &asking[*acquired, *Lease]{
		client: c, terms: terms, owner: question.OwnerID, earlyIsEnded: true,
		ask: func(ctx context.Context, requestID string, waitMs *uint64) (*acquired, error) {
			changed := *question
			changed.RequestID, changed.WaitMs = &requestID, waitMs
			return c.calls.acquire(ctx, name, &changed)
		},
		take: func(tryCtx context.Context, acquired *acquired, sentAt moment) *Lease {
			if session != nil {
				return c.leaseOfSession(ctx, acquired, session)
			}
			return c.leaseAlone(ctx, acquired, terms.ttl, margin, sentAt)
		},
		giveBack: func(ctx context.Context, acquired *acquired) error {
			return c.releaseLease(ctx, acquired, newRequestID())
		},
	}
	lease, err := asking.persevere(ctx)
	if err == nil && terms.isWatched {
		a := lease.acquired
		go lease.watch(lease.Name(), &watchLeaseRequest{OwnerID: a.OwnerID, LeaseID: a.LeaseID, FencingToken: a.FencingToken})
	}
	return lease, err
}

func acquireQuestion(terms *terms, session *Session) (*acquireRequest, error) {
	metadata, err := terms.metadataJSON()
	if err != nil {
		return nil, err
	}
	question := &acquireRequest{OwnerID: terms.owner, Mode: modeOf(terms.isShared), Limit: terms.limit, GraceMs: terms.graceMs(), Metadata: metadata}
	if session != nil {
		id := session.ID()
		question.OwnerID, question.SessionID = session.Owner(), &id
	} else {
		ttlMs := toMillis(terms.ttl)
		question.TTLMs = &ttlMs
	}
	return question, nil
}

// leaseAlone is a lease that is renewed by itself.
func (c *Client) leaseAlone(ctx context.Context, acquired *acquired, ttl, margin time.Duration, sentAt moment) *Lease {
	first := grant{sentAt: sentAt, expiresIn: expiresIn(acquired.ExpiresAfterSendMs)}
	g := c.afterWait(ttl, first, func() (time.Duration, error) {
		return c.renewLease(ctx, acquired, ttl, 0)
	})
	tenure := granted(c.clock, margin, g.sentAt, g.expiresIn, label(acquired.LockName))
	lease := &Lease{Holding: newHolding(ctx, c, tenure, label(acquired.LockName)), acquired: acquired, releaseID: newRequestID()}
	lease.beat(&heartbeat{ttl: ttl, end: g.sentAt.after(g.expiresIn), renew: func(ctx context.Context, patience time.Duration) (time.Duration, error) {
		return c.renewLease(ctx, acquired, ttl, patience)
	}})
	return lease
}

// leaseOfSession is a lease that lasts as long as its session.
func (c *Client) leaseOfSession(ctx context.Context, acquired *acquired, session *Session) *Lease {
	what := label(acquired.LockName)
	lease := &Lease{acquired: acquired, releaseID: newRequestID()}
	lease.Holding = newHolding(ctx, c, within(session.tenure, what), what)
	lease.unrenewed()
	return lease
}

func label(lock string) string { return named([]string{lock}) }

// Name of the lock.
func (l *Lease) Name() string { return l.acquired.LockName }

// Owner of the lease.
func (l *Lease) Owner() string { return l.acquired.OwnerID }

// LeaseID is the proof that the lease is ours: a secret.
func (l *Lease) LeaseID() string { return l.acquired.LeaseID }

// FencingToken grows with every grant of the lock. Send it along to whatever the lock protects.
func (l *Lease) FencingToken() uint64 { return l.acquired.FencingToken }

// Release gives the lock back: nothing is renewed from here on, and Context is cancelled. A failure that may be temporary
// is tried again, as often as [DefaultRetry] says. It can be called again, and releases once.
//
// A [NotReleasedError] means that the lease had ended before: another owner may have had the lock meanwhile.
func (l *Lease) Release(ctx context.Context) error {
	return l.letGo(ctx, func(ctx context.Context) error {
		return l.client.releaseLease(ctx, l.acquired, l.releaseID)
	})
}

// LeaveFor leaves the lock held for so long from now, or a little longer, with nobody to renew or release it: so that
// work that was quick is not done again at once by another. A lease is never made to end sooner, so the time should not
// be less than the ttl. If it fails, nothing is renewed any more all the same, and the lease can still be released.
func (l *Lease) LeaveFor(ctx context.Context, time time.Duration) error {
	return l.leaveHeld(ctx, time, func(ctx context.Context) error {
		return persist(ctx, l.client.clock, DefaultRetry, func(bool) error {
			_, err := l.client.renewLease(ctx, l.acquired, time, 0)
			return err
		})
	})
}

// Format prints a lease without its secrets, whatever the verb.
func (l *Lease) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "leasehold.Lease{lock: %q, owner: %q, fencing token: %d, held: %v}", l.Name(), l.Owner(), l.FencingToken(), l.Held())
}

// renewLease returns how long the lease lasts from when it was called.
func (c *Client) renewLease(ctx context.Context, a *acquired, ttl, patience time.Duration) (time.Duration, error) {
	// Without a request id: renewing twice is renewing once.
	body := &renewRequest{OwnerID: a.OwnerID, LeaseID: a.LeaseID, FencingToken: a.FencingToken, ExtendByMs: toMillis(ttl)}
	renewed, err := c.calls.renew(ctx, a.LockName, body, patience)
	if err != nil {
		return 0, err
	}
	return expiresIn(renewed.ExpiresAfterSendMs), nil
}

// releaseLease: every try carries the same request id, so it is released once.
func (c *Client) releaseLease(ctx context.Context, a *acquired, requestID string) error {
	body := &releaseRequest{OwnerID: a.OwnerID, LeaseID: a.LeaseID, FencingToken: a.FencingToken, RequestID: &requestID}
	return persist(ctx, c.clock, DefaultRetry, func(bool) error {
		return c.calls.release(ctx, a.LockName, body)
	})
}
