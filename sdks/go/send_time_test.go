package leasehold

import (
	"context"
	"net/http"
	"testing"
	"time"
)

const slowAnswer = `{"acquired":true,"renewed":true,"released":true,"lock_name":"a","owner_id":"ann","lease_id":"1.x","session_id":"s",
	"fencing_token":1,"leases":[{"lock_name":"a","lease_id":"1.x","fencing_token":1}],"lease_expiry_ms":0,"expires_in_ms":9000,
	"expires_after_send_ms":`

func TestAfterAWaitLongerThanTheTTLItIsRenewedAtOnceAndCountsFromThen(t *testing.T) {
	const ttl, waited = 9 * time.Second, 100 * time.Second
	clock := newFakeClock()
	var server *stub
	server = newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		if server.n() == 1 {
			clock.pause(waited)
			_, _ = w.Write([]byte(slowAnswer + "109000}"))
			return
		}
		clock.pause(time.Second)
		_, _ = w.Write([]byte(slowAnswer + "9000}"))
	})
	client, err := New(Options{URLs: []string{server.URL}, clock: clock})
	must(t, err)
	lease, err := client.Lock(background(t), "a", TTL(ttl), Wait(10*time.Minute))
	must(t, err)
	if end := lease.tenure.end(); server.n() != 2 || end != moment(waited+ttl-ttl/100) {
		t.Fatal(server.n(), end)
	}
	must(t, lease.Release(background(t)))
}

// Deadlines count from when a request was sent, however long its answer takes. Both sides are on the test's clock.
func TestDeadlinesCountFromTheSendTime(t *testing.T) {
	const ttl, took = 9 * time.Second, 2 * time.Second
	for name, hold := range map[string]func(*Client) (*Holding, error){
		"a lease": func(c *Client) (*Holding, error) {
			lease, err := c.Lock(background(t), "a", TTL(ttl))
			return lease.Holding, err
		},
		"several leases": func(c *Client) (*Holding, error) {
			set, err := c.Locks(background(t), []Wanted{{Name: "a"}}, TTL(ttl))
			return set.Holding, err
		},
		"a session": func(c *Client) (*Holding, error) {
			session, err := c.OpenSession(background(t), TTL(ttl))
			return session.Holding, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newFakeClock()
			server := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
				clock.pause(took)
				_, _ = w.Write([]byte(slowAnswer + "9000}"))
			})
			client, err := New(Options{URLs: []string{server.URL}, clock: clock})
			must(t, err)
			held, err := hold(client)
			must(t, err)
			if end := held.tenure.end(); end != moment(ttl-ttl/100) {
				t.Fatal("the grant:", end)
			}
			until(t, "it waits to be renewed", func() bool { return clock.waits(ttl/3-1, ttl/3) })
			clock.advance(ttl/3 - took)
			until(t, "it is renewed", func() bool { return held.tenure.end() > moment(ttl-ttl/100) })
			if end := held.tenure.end(); end != moment(ttl/3+ttl-ttl/100) {
				t.Fatal("the renewal:", end)
			}
			must(t, held.letGo(background(t), func(context.Context) error { return nil }))
		})
	}
}

func TestTheFirstQuestionToTheContextAfterAPauseIsAnsweredRight(t *testing.T) {
	clock := newFakeClock()
	server := newStub(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(slowAnswer + "9000}")) })
	client, err := New(Options{URLs: []string{server.URL}, clock: clock})
	must(t, err)
	lease, err := client.Lock(background(t), "a", TTL(9*time.Second))
	must(t, err)
	ctx := lease.Context()
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	if ctx.Err() != nil {
		t.Fatal(ctx.Err())
	}
	// No timer rings.
	clock.pause(9 * time.Second)
	if ctx.Err() != context.Canceled {
		t.Fatal("not told")
	}
	<-child.Done()
}
