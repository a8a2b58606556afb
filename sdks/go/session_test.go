package leasehold

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOneKeepAliveHoldsManyLocksAndClosingReleasesThem(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	client := link.client(t)
	session, err := client.OpenSession(ctx, TTL(6*time.Second))
	must(t, err)
	var leases []*Lease
	for n := 0; n < 3; n++ {
		lease, err := session.Lock(ctx, fmt.Sprintf("shard-%d", n))
		must(t, err)
		leases = append(leases, lease)
	}
	until(t, "it is kept alive", func() bool { return len(link.of("/keepalive")) >= 3 })
	must(t, leases[0].Release(ctx))
	if !session.Held() || leases[0].Held() || !leases[1].Held() {
		t.Fatal(session, leases)
	}
	if strings.Contains(fmt.Sprintf("%#v", session), session.ID()) {
		t.Fatal("the id is shown")
	}
	must(t, session.Close(ctx))
	list, err := client.List(ctx, ListQuery{State: "held"})
	must(t, err)
	if leases[1].Held() || leases[2].Held() || len(list.Locks) != 0 || len(link.of("/renew")) != 0 {
		t.Fatal(leases, list)
	}
}

func TestALostSessionTakesItsLocksWithIt(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	session, err := link.client(t).OpenSession(ctx, TTL(6*time.Second))
	must(t, err)
	lease, err := session.Lock(ctx, "lost")
	must(t, err)
	link.all(swallow)
	if first, second := reasonOf(t, session.Holding), reasonOf(t, lease.Holding); first != OutOfTime || second != OutOfTime {
		t.Fatal(first, second)
	}
	var lost *LostError
	if _, err := session.Lock(ctx, "another"); !errors.As(err, &lost) {
		t.Fatal(err)
	}
}

func TestASessionThatTheServerHasEndedIsLost(t *testing.T) {
	client, ctx := startServer(t).client(Options{}), background(t)
	session, err := client.OpenSession(ctx, TTL(6*time.Second))
	must(t, err)
	must(t, client.calls.closeSession(ctx, session.ID()))
	if reason := reasonOf(t, session.Holding); reason != Ended {
		t.Fatal(reason)
	}
	if err := session.Close(ctx); !hasCode(err, "NO_SUCH_SESSION") {
		t.Fatal(err)
	}
}

func TestASessionWhoseClosingWasNotHeardIsClosed(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	session, err := link.client(t).OpenSession(ctx)
	must(t, err)
	_, err = session.Lock(ctx, "a", TTL(time.Second))
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal("a session's lock has no time of its own:", err)
	}
	before := len(link.of(""))
	link.setFate(func(seen) fate {
		if len(link.of("")) <= before+2 {
			return cut
		}
		return pass
	})
	must(t, session.Close(ctx))
	if n := len(link.of("")) - before; n != 3 {
		t.Fatal(n)
	}
}
