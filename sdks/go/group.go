package leasehold

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Wanted is one lock of several.
type Wanted struct {
	Name string
	// Shared: share it with others that say so too.
	Shared bool
	// Limit, if not 0: share it with up to so many in all.
	Limit uint32
}

// LeaseSet is several locks that are ours, all of them, until they are released or one of them is lost. See [Holding] for
// what it promises.
type LeaseSet struct {
	*Holding
	acquired *acquiredAll
}

// Locks asks for several locks: all of them are granted at one instant, or none is. Otherwise it is as [Client.Lock].
func (c *Client) Locks(ctx context.Context, locks []Wanted, options ...Option) (*LeaseSet, error) {
	terms := c.terms(options)
	margin, err := terms.marginOrDefault()
	if err != nil {
		return nil, err
	}
	for _, lock := range locks {
		if err := terms.check(lock.Name); err != nil {
			return nil, err
		}
	}
	if terms.isShared || terms.limit != nil {
		return nil, invalid("of several locks, each says in Wanted how it is shared")
	}
	metadata, err := terms.metadataJSON()
	if err != nil {
		return nil, err
	}
	ttlMs := toMillis(terms.ttl)
	question := acquireAllRequest{OwnerID: terms.owner, Locks: wantedLocks(locks), TTLMs: &ttlMs, GraceMs: terms.graceMs(), Metadata: metadata}
	asking := &asking[*acquiredAll, *LeaseSet]{
		client: c, terms: terms, owner: terms.owner,
		ask: func(ctx context.Context, requestID string, waitMs *uint64) (*acquiredAll, error) {
			changed := question
			changed.RequestID, changed.WaitMs = &requestID, waitMs
			return c.calls.acquireAll(ctx, &changed)
		},
		take: func(_ context.Context, acquired *acquiredAll, sentAt moment) *LeaseSet {
			return c.leaseSet(ctx, acquired, terms.ttl, margin, sentAt)
		},
		giveBack: c.releaseAll,
	}
	set, err := asking.persevere(ctx)
	if err == nil && terms.isWatched {
		for _, lease := range set.acquired.Leases {
			proof := &watchLeaseRequest{OwnerID: set.Owner(), LeaseID: lease.LeaseID, FencingToken: lease.FencingToken}
			go set.watch(lease.LockName, proof)
		}
	}
	return set, err
}

func wantedLocks(locks []Wanted) []wantedLock {
	wanted := make([]wantedLock, len(locks))
	for n, lock := range locks {
		wanted[n] = wantedLock{LockName: lock.Name, Mode: modeOf(lock.Shared)}
		if lock.Limit > 0 {
			limit := lock.Limit
			wanted[n].Limit = &limit
		}
	}
	return wanted
}

func (c *Client) leaseSet(ctx context.Context, acquired *acquiredAll, ttl, margin time.Duration, sentAt moment) *LeaseSet {
	first := grant{sentAt: sentAt, expiresIn: expiresIn(acquired.ExpiresAfterSendMs)}
	g := c.afterWait(ttl, first, func() (time.Duration, error) {
		return c.renewAll(ctx, acquired, ttl, 0)
	})
	set := &LeaseSet{acquired: acquired}
	tenure := granted(c.clock, margin, g.sentAt, g.expiresIn, named(set.Names()))
	set.Holding = newHolding(ctx, c, tenure, named(set.Names()))
	set.beat(&heartbeat{ttl: ttl, end: g.sentAt.after(g.expiresIn), renew: func(ctx context.Context, patience time.Duration) (time.Duration, error) {
		return c.renewAll(ctx, acquired, ttl, patience)
	}})
	return set
}

// Names of the locks, in the order in which they were asked for.
func (s *LeaseSet) Names() []string {
	names := make([]string, len(s.acquired.Leases))
	for n, lease := range s.acquired.Leases {
		names[n] = lease.LockName
	}
	return names
}

// Owner of the leases.
func (s *LeaseSet) Owner() string { return s.acquired.OwnerID }

// FencingToken of one of the locks: send it along to whatever that lock protects. It is 0 if the lock is none of these.
func (s *LeaseSet) FencingToken(lock string) uint64 {
	for _, lease := range s.acquired.Leases {
		if lease.LockName == lock {
			return lease.FencingToken
		}
	}
	return 0
}

// Release gives all the locks back: as [Lease.Release].
func (s *LeaseSet) Release(ctx context.Context) error {
	return s.letGo(ctx, func(ctx context.Context) error { return s.client.releaseAll(ctx, s.acquired) })
}

// LeaveFor leaves all the locks held for so long from now: as [Lease.LeaveFor].
func (s *LeaseSet) LeaveFor(ctx context.Context, time time.Duration) error {
	return s.leaveHeld(ctx, time, func(ctx context.Context) error {
		return persist(ctx, s.client.clock, DefaultRetry, func(bool) error {
			_, err := s.client.renewAll(ctx, s.acquired, time, 0)
			return err
		})
	})
}

// Format prints the leases without their secrets, whatever the verb.
func (s *LeaseSet) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "leasehold.LeaseSet{locks: %s, owner: %q, held: %v}", strings.Join(s.Names(), ", "), s.Owner(), s.Held())
}

func (c *Client) renewAll(ctx context.Context, a *acquiredAll, ttl, patience time.Duration) (time.Duration, error) {
	body := &renewAllRequest{OwnerID: a.OwnerID, ExtendByMs: toMillis(ttl), Leases: a.Leases}
	renewed, err := c.calls.renewAll(ctx, body, patience)
	if err != nil {
		return 0, err
	}
	return expiresIn(renewed.ExpiresAfterSendMs), nil
}

const oneWasOver = "the lease was over before; another owner may have had the lock meanwhile"

// releaseAll releases those that are still active, and says which were not. A release that is repeated finds nothing left to
// release, which is as good; if it finds anything, the try before did nothing.
func (c *Client) releaseAll(ctx context.Context, a *acquiredAll) error {
	body := &releaseAllRequest{OwnerID: a.OwnerID, Leases: a.Leases}
	return persist(ctx, c.clock, DefaultRetry, func(mayHaveTakenEffect bool) error {
		released, err := c.calls.releaseAll(ctx, body)
		if err != nil {
			return err
		}
		no := &NotReleasedError{Refusal: NotReleased{Reason: "NOT_OWNER", Error: oneWasOver}}
		for _, lease := range released.Leases {
			if !lease.Released {
				no.Locks = append(no.Locks, lease.LockName)
				if lease.Reason != nil {
					no.Refusal.Reason = *lease.Reason
				}
			}
		}
		if len(no.Locks) == 0 || !released.Released && mayHaveTakenEffect {
			return nil
		}
		return no
	})
}
