package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Servers and connections that have fallen silent: what is asked is asked elsewhere, or again.

func isAcquire(s seen) bool { return len(s.path) > 8 && s.path[len(s.path)-8:] == "/acquire" }

// swallowFirst acquires.
func (l *link) swallowFirst(n int) {
	l.setFate(func(s seen) fate {
		if isAcquire(s) && len(l.of("/acquire")) <= n {
			return swallow
		}
		return pass
	})
}

func TestByDefaultASilentServerLeavesTimeToAskAnother(t *testing.T) {
	settings, err := Options{}.settings(func(string) string { return "" })
	must(t, err)
	// A follower may hold a request for 5 s.
	if settings.timeout <= 5*time.Second || DefaultRetry.TotalMax < 3*settings.timeout {
		t.Fatal(settings.timeout, DefaultRetry)
	}
}

func TestASilentFirstURLCostsOneTimeout(t *testing.T) {
	server, ctx := startServer(t), background(t)
	silent, good := newLink(t, server.url), newLink(t, server.url)
	silent.all(swallow)
	client := server.client(Options{URLs: []string{silent.http.URL, good.http.URL}, Timeout: 4 * time.Second})
	lease, err := client.Lock(ctx, "a")
	must(t, err)
	first, second := silent.of("/acquire"), good.of("/acquire")
	if len(first) != 1 || len(second) != 1 || first[0].body["request_id"] != second[0].body["request_id"] {
		t.Fatal(first, second)
	}
	must(t, lease.Release(ctx))
}

// askedFor asks in the background.
func askedFor(t *testing.T, client *Client, lock string, options ...Option) chan *Lease {
	leases := make(chan *Lease, 1)
	go func() {
		lease, err := client.Lock(context.Background(), lock, options...)
		if err != nil {
			t.Error(err)
		}
		leases <- lease
	}()
	return leases
}

func leaseOf(t *testing.T, leases chan *Lease) *Lease {
	t.Helper()
	select {
	case lease := <-leases:
		if lease != nil {
			return lease
		}
	case <-time.After(patience):
	}
	t.Fatal("it is not granted")
	return nil
}

func TestALongWaitIsAskedForAgainAndKeepsItsPlace(t *testing.T) {
	server, ctx, clock := startServer(t), background(t), newFakeClock()
	link, direct := newLink(t, server.url), server.client(Options{})
	holder, err := direct.Lock(ctx, "a")
	must(t, err)
	client := server.client(Options{URLs: []string{link.http.URL}, clock: clock})
	retry := DefaultRetry
	retry.AttemptsMax = 1 // A part that is over is no failure.
	leases := askedFor(t, client, "a", Wait(time.Hour), WithRetry(retry))
	for n := 1; n <= 3; n++ {
		until(t, "it waits", func() bool {
			queue := look(t, direct, "a").Queue
			return len(link.of("/acquire")) == n && len(queue) == 1 && !queue[0].Parked
		})
		clock.advance(29 * time.Second)
		if len(link.of("/acquire")) != n {
			t.Fatal("asked again too early")
		}
		clock.advance(time.Second)
	}
	until(t, "it is asked again", func() bool { return len(link.of("/acquire")) == 4 })
	if nWaiting(t, direct, "a") != 1 {
		t.Fatal("more than one place")
	}
	must(t, holder.Release(ctx))
	lease := leaseOf(t, leases)
	if lease.FencingToken() != 2 {
		t.Fatal(lease)
	}
	if _, nIDs := link.requestIDs("/acquire"); nIDs != 1 {
		t.Fatal(nIDs)
	}
	if waitMs := link.of("/acquire")[3].body["wait_ms"]; waitMs != float64(3_510_000) {
		t.Fatal(waitMs)
	}
	must(t, lease.Release(ctx))
}

func TestAWaitOverASilentConnectionGoesOnOverAnother(t *testing.T) {
	server, ctx, clock := startServer(t), background(t), newFakeClock()
	link := newLink(t, server.url)
	link.swallowFirst(1)
	leases := askedFor(t, server.client(Options{URLs: []string{link.http.URL}, clock: clock}), "a", Wait(time.Minute))
	until(t, "it is asked", func() bool { return len(link.of("/acquire")) == 1 })
	clock.advance(waitSlice)
	must(t, leaseOf(t, leases).Release(ctx))
}

func TestAfterAPartOfAWaitAnotherServerIsAskedIfTheFirstIsSilent(t *testing.T) {
	server, ctx, clock := startServer(t), background(t), newFakeClock()
	silent, good := newLink(t, server.url), newLink(t, server.url)
	silent.all(swallow)
	options := Options{URLs: []string{silent.http.URL, good.http.URL}, Timeout: 500 * time.Millisecond, clock: clock}
	leases := askedFor(t, server.client(options), "a", Wait(time.Hour))
	until(t, "it is asked", func() bool { return len(silent.of("/acquire")) == 1 })
	clock.advance(waitSlice)
	until(t, "another one is asked", func() bool { return len(good.of("/acquire")) == 1 })
	must(t, leaseOf(t, leases).Release(ctx))
	if len(silent.of("/acquire")) != 1 {
		t.Fatal("asked again")
	}
}

// Whoever went to the silent one would lose the place in the queue.
func TestAWaitStaysWhereSomebodyAnswers(t *testing.T) {
	server, ctx, clock := startServer(t), background(t), newFakeClock()
	good, silent := newLink(t, server.url), newLink(t, server.url)
	silent.all(swallow)
	holder, err := server.client(Options{}).Lock(ctx, "a")
	must(t, err)
	options := Options{URLs: []string{good.http.URL, silent.http.URL}, Timeout: 500 * time.Millisecond, clock: clock}
	leases := askedFor(t, server.client(options), "a", Wait(time.Hour))
	for n := 1; n <= 3; n++ {
		until(t, "it waits", func() bool { return len(good.of("/acquire")) == n })
		clock.advance(waitSlice)
	}
	must(t, holder.Release(ctx))
	must(t, leaseOf(t, leases).Release(ctx))
	if len(silent.of("/acquire")) != 0 {
		t.Fatal("it went to the silent one")
	}
}

func TestAShortWaitThatNobodyAnsweredIsAskedForOnceMoreElsewhere(t *testing.T) {
	server, ctx := startServer(t), background(t)
	silent, good := newLink(t, server.url), newLink(t, server.url)
	silent.all(swallow)
	options := Options{URLs: []string{silent.http.URL, good.http.URL}, Timeout: 4 * time.Second}
	lease, err := server.client(options).Lock(ctx, "a", Wait(200*time.Millisecond))
	must(t, err)
	must(t, lease.Release(ctx))
	good.all(swallow)
	_, err = server.client(options).Lock(ctx, "a", Wait(200*time.Millisecond))
	var broken *BrokenError
	if !errors.As(err, &broken) || len(good.of("/acquire")) != 2 {
		t.Fatal(err, len(good.of("/acquire")))
	}
}

func TestACampaignIsAskedForInPartsToo(t *testing.T) {
	server, ctx, clock := startServer(t), background(t), newFakeClock()
	link := newLink(t, server.url)
	link.swallowFirst(2)
	client := server.client(Options{URLs: []string{link.http.URL}, clock: clock})
	leads := make(chan error, 1)
	go func() {
		term, err := client.Election("a").Campaign(ctx, "me")
		if err == nil {
			err = term.Release(ctx)
		}
		leads <- err
	}()
	for n := 1; n <= 2; n++ {
		until(t, "it is asked", func() bool { return len(link.of("/acquire")) == n && clock.waits(0, time.Hour) })
		clock.advance(waitSlice)
	}
	must(t, <-leads)
	if n, nIDs := link.requestIDs("/acquire"); n != 3 || nIDs != 1 {
		t.Fatal(n, nIDs)
	}
}
