package leasehold

import (
	"bytes"
	"context"
	"encoding/json"
	"time"
)

// Election: one leader at a time, and who it is.
//
// A leader is whoever holds a lock, and says who it is by the lock's metadata. It is a leader only as long as its lease
// lasts: what it does as one has to carry its fencing token, or check that it still is.
type Election struct {
	client  *Client
	name    string
	options []Option
}

// Leader is who leads.
type Leader struct {
	Owner string
	// FencingToken of its term: it grows with every term.
	FencingToken uint64
	// Value is what it said of itself in its campaign: an address, perhaps.
	Value json.RawMessage
}

// Election with this name. [TTL] is how long a leader that is not heard of stays one.
func (c *Client) Election(name string, options ...Option) *Election {
	return &Election{client: c, name: name, options: options}
}

// campaignMax is as good as for ever.
const campaignMax = 100 * 365 * 24 * time.Hour

// Campaign waits to be the leader, behind those that came before, and announces the value, which can be any JSON. The
// lease is the term: to resign is to release it.
func (e *Election) Campaign(ctx context.Context, value any) (*Lease, error) {
	options := append(append([]Option{}, e.options...), Wait(campaignMax), Metadata(value))
	return e.client.Lock(ctx, e.name, options...)
}

// Leader says who leads right now; nil if nobody does.
func (e *Election) Leader(ctx context.Context) (*Leader, error) {
	state, err := e.client.Look(ctx, e.name)
	if err != nil || len(state.Holders) == 0 {
		return nil, err
	}
	holder := state.Holders[0]
	value := holder.Metadata
	if value == nil {
		value = json.RawMessage("null")
	}
	return &Leader{Owner: holder.OwnerID, FencingToken: holder.FencingToken, Value: value}, nil
}

// Observe tells who leads. Close ends it.
func (e *Election) Observe() *Observer {
	return &Observer{election: e, events: e.client.Events(EventsQuery{Lock: e.name})}
}

// Observer tells who leads. It is for one goroutine at a time.
type Observer struct {
	election *Election
	events   *Events
	hasTold  bool
	told     *Leader
	// Something happened since we looked.
	isStale bool
}

// Next is who leads, at first, and then whenever that is another; nil if nobody does. Leaders of terms that were over
// before we looked are left out. An error is as those of [Events.Next].
func (o *Observer) Next(ctx context.Context) (*Leader, error) {
	for {
		// First listen, then look: so nothing is missed in between.
		if err := o.events.Connect(ctx); err != nil {
			return nil, err
		}
		if o.hasTold && !o.isStale {
			told, err := o.events.Next(ctx)
			if err != nil {
				return nil, err
			}
			if told.Stale || told.Current {
				continue // what happened, if anything, follows
			}
			o.isStale = true
		}
		leader, err := o.election.Leader(ctx)
		if err != nil {
			return nil, err
		}
		o.isStale = false
		if !o.hasTold || !sameLeader(leader, o.told) {
			o.hasTold, o.told = true, leader
			return leader, nil
		}
	}
}

// Close ends it.
func (o *Observer) Close() { o.events.Close() }

func sameLeader(a, b *Leader) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Owner == b.Owner && a.FencingToken == b.FencingToken && bytes.Equal(a.Value, b.Value)
}
