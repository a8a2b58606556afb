package leasehold

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// Leases with a shorter TTL than this header says, in milliseconds, might end when the leader of a cluster changes.
const failoverMs = "Leasehold-Failover-Ms"

// failover is what the servers said last of leader changes, and whether it was warned of a TTL that is too short.
type failover struct {
	ms       atomic.Int64
	isWarned atomic.Bool
}

// learn takes note of what an answer says. A single server says nothing.
func (f *failover) learn(headers http.Header) {
	if ms, err := strconv.ParseInt(headers.Get(failoverMs), 10, 32); err == nil && ms > 0 {
		f.ms.Store(ms)
	}
}

// warnShort warns of a TTL that a leader change might outlast, but only once.
func (c *Client) warnShort(ttl time.Duration) {
	known := &c.calls.transport.failover
	least := time.Duration(known.ms.Load()) * time.Millisecond
	if ttl < least && !known.isWarned.Swap(true) {
		c.logf("leasehold: the TTL of %v is shorter than a fail-over of this cluster: a leader change might end the lease; use at least %v", ttl, least)
	}
}
