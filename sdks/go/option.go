package leasehold

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Option is one of the terms on which leases are asked for.
type Option func(*terms)

// terms are what the options add up to.
type terms struct {
	owner      string
	ttl        time.Duration
	wait       time.Duration
	margin     *time.Duration
	isShared   bool
	limit      *uint32
	grace      *time.Duration
	metadata   any
	isWatched  bool
	comesBack  bool
	retry      Retry
	isTimeSaid bool
}

const ttlDefault = 30 * time.Second

// TTL is how long the lease lasts if it is not renewed: 30 s unless given. It is renewed after a third of that.
func TTL(ttl time.Duration) Option { return func(t *terms) { t.ttl, t.isTimeSaid = ttl, true } }

// Wait in the queue for so long: not at all unless given. The queue is first come, first served.
func Wait(wait time.Duration) Option { return func(t *terms) { t.wait = wait } }

// Margin is how long before its end the lease counts as lost: the time you need to stop. Unless given, 250 ms or a tenth
// of the ttl, whichever is less. At most half of the ttl.
func Margin(margin time.Duration) Option {
	return func(t *terms) { t.margin, t.isTimeSaid = &margin, true }
}

// Owner of the lease, if not the client's. A session's locks are its owner's.
func Owner(owner string) Option { return func(t *terms) { t.owner = owner } }

// Shared: share the lock with others that say so too.
func Shared() Option { return func(t *terms) { t.isShared = true } }

// Limit: share the lock with up to so many in all, who all name the same number. Tokens of such leases fence nothing.
func Limit(limit uint32) Option { return func(t *terms) { t.limit = &limit } }

// Grace: if the lease expires, keep the lock for this owner so long. Exclusive locks only.
func Grace(grace time.Duration) Option { return func(t *terms) { t.grace = &grace } }

// Metadata is any JSON, shown to whoever looks at the lock.
func Metadata(metadata any) Option { return func(t *terms) { t.metadata = metadata } }

// Watched: be told at once if a lock is revoked, not with the next renewal. It takes a connection of its own for each lock
// for as long as it is held.
func Watched() Option { return func(t *terms) { t.isWatched = true } }

// ComeBack for the lock whenever the server recommends it, instead of queueing. Whoever queues goes first.
func ComeBack() Option { return func(t *terms) { t.comesBack = true } }

// WithRetry is how failures are tried again, if not by [DefaultRetry].
func WithRetry(retry Retry) Option { return func(t *terms) { t.retry = retry } }

func (c *Client) terms(options []Option) *terms {
	t := &terms{owner: c.owner, ttl: ttlDefault, retry: DefaultRetry}
	for _, option := range options {
		if option != nil {
			option(t)
		}
	}
	return t
}

// check says what makes no sense with these locks.
func (t *terms) check(locks ...string) error {
	for _, text := range append(locks, t.owner) {
		if !utf8.ValidString(text) {
			// JSON would have others in their place, and two owners could become one.
			return invalid("%q is not valid UTF-8", text)
		}
	}
	if t.wait < 0 {
		return invalid("the wait must not be less than 0, got %v", t.wait)
	}
	if t.grace != nil && *t.grace < 0 {
		return invalid("the grace must not be less than 0, got %v", *t.grace)
	}
	return nil
}

// marginOrDefault is the margin that was asked for, or the usual one.
func (t *terms) marginOrDefault() (time.Duration, error) {
	if t.ttl <= 0 {
		return 0, invalid("the ttl must be more than 0, got %v", t.ttl)
	}
	margin := t.ttl / 10
	if margin > 250*time.Millisecond {
		margin = 250 * time.Millisecond
	}
	if t.margin != nil {
		margin = *t.margin
	}
	if margin < 0 || margin > t.ttl/2 {
		return 0, invalid("the margin must be from 0 to half of the ttl (%v), got %v", t.ttl/2, margin)
	}
	return margin, nil
}

func (t *terms) manner() manner {
	switch {
	case t.comesBack:
		return comingBack
	case t.wait > 0:
		return inQueue
	default:
		return once
	}
}

func (t *terms) metadataJSON() (json.RawMessage, error) {
	if t.metadata == nil {
		return nil, nil
	}
	text, err := json.Marshal(t.metadata)
	if err != nil {
		return nil, invalid("the metadata cannot be sent as JSON: %v", err)
	}
	return text, nil
}

func (t *terms) graceMs() *uint64 {
	if t.grace == nil {
		return nil
	}
	ms := toMillis(*t.grace)
	return &ms
}

func modeOf(isShared bool) *string {
	if !isShared {
		return nil
	}
	shared := "shared"
	return &shared
}
