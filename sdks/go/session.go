package leasehold

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Session is one keep-alive for any number of locks. It is kept alive until it is closed or lost, and every lock in it is
// lost with it. See [Holding] for what it promises. A lock of a session that is revoked by itself is noticed when it is
// released, or at once if it is [Watched].
type Session struct {
	*Holding
	opened *sessionOpened
}

// OpenSession opens a session. [TTL], [Margin], [Owner] and [WithRetry] mean what they mean for a lock; the others mean
// nothing. A try whose answer was lost may leave a session behind that nobody knows; it holds nothing and runs out.
func (c *Client) OpenSession(ctx context.Context, options ...Option) (*Session, error) {
	terms := c.terms(options)
	margin, err := terms.marginOrDefault()
	if err != nil {
		return nil, err
	}
	var opened *sessionOpened
	var sentAt moment
	err = persist(ctx, c.clock, terms.retry, func(bool) (err error) {
		sentAt = c.clock.now()
		opened, err = c.calls.openSession(ctx, &openSessionRequest{OwnerID: terms.owner, TTLMs: toMillis(terms.ttl)})
		return err
	})
	if err != nil {
		return nil, err
	}
	c.warnShort(terms.ttl)
	lasts := time.Duration(opened.ExpiresAfterSendMs) * time.Millisecond
	tenure := granted(c.clock, margin, sentAt, lasts, "the session")
	session := &Session{Holding: newHolding(ctx, c, tenure, "the session"), opened: opened}
	session.beat(&heartbeat{ttl: terms.ttl, end: sentAt.after(lasts), renew: func(ctx context.Context, patience time.Duration) (time.Duration, error) {
		kept, err := c.calls.keepSession(ctx, opened.SessionID, patience)
		if err != nil {
			return 0, err
		}
		return time.Duration(kept.ExpiresAfterSendMs) * time.Millisecond, nil
	}})
	return session, nil
}

// Lock asks for a lock that lasts as long as the session: its ttl, margin and owner are those of the session. Otherwise it
// is as [Client.Lock].
func (s *Session) Lock(ctx context.Context, name string, options ...Option) (*Lease, error) {
	terms := s.client.terms(options)
	if terms.isTimeSaid {
		return nil, invalid("ttl and margin of a session's lock are those of the session")
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	return s.client.lock(ctx, name, terms, s)
}

// ID of the session: a secret.
func (s *Session) ID() string { return s.opened.SessionID }

// Owner of the session and of its locks.
func (s *Session) Owner() string { return s.opened.OwnerID }

// Close ends the session and releases every lock in it. A failure that may be temporary is tried again. A [FailedError]
// with the code NO_SUCH_SESSION means that it was over before.
func (s *Session) Close(ctx context.Context) error {
	return s.letGo(ctx, func(ctx context.Context) error {
		return persist(ctx, s.client.clock, DefaultRetry, func(mayHaveTakenEffect bool) error {
			err := s.client.calls.closeSession(ctx, s.ID())
			var failed *FailedError
			// The try before may have done it.
			if mayHaveTakenEffect && errors.As(err, &failed) && failed.Status == http.StatusNotFound {
				return nil
			}
			return err
		})
	})
}

// Format prints a session without its secrets, whatever the verb.
func (s *Session) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "leasehold.Session{owner: %q, held: %v}", s.Owner(), s.Held())
}
