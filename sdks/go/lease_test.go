package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

func wantRefused(t *testing.T, err error, reason string) {
	t.Helper()
	var refused *NotAcquiredError
	if !errors.As(err, &refused) || refused.Refusal.Reason != reason {
		t.Fatalf("%v, want %s", err, reason)
	}
}

func TestLease(t *testing.T) {
	server := startServer(t)
	t.Run("is held until it is released", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{Owner: "ann"})
		lease, err := client.Lock(ctx, "held", Metadata(map[string]string{"host": "a1"}))
		must(t, err)
		if lease.Name() != "held" || lease.Owner() != "ann" || lease.FencingToken() != 1 || !lease.Held() || lease.Context().Err() != nil {
			t.Fatal(lease)
		}
		if state := look(t, client, "held"); *state.OwnerID != "ann" || string(state.Metadata) != `{"host":"a1"}` {
			t.Fatal(state)
		}
		must(t, lease.Release(ctx))
		must(t, lease.Release(ctx))
		if lease.Context().Err() == nil || lease.Check() == nil || look(t, client, "held").Held {
			t.Fatal("still held")
		}
	})
	t.Run("of another is refused, and the refusal says who has it", func(t *testing.T) {
		ctx := background(t)
		lease, err := server.client(Options{Owner: "ann"}).Lock(ctx, "taken")
		must(t, err)
		_, err = server.client(Options{Owner: "bob"}).Lock(ctx, "taken")
		wantRefused(t, err, "HELD")
		if err.Error() != `lock "taken": the lock is held, held by ann` || !Retryable(err) || MayHaveTakenEffect(err) {
			t.Fatal(err)
		}
		must(t, lease.Release(ctx))
	})
	t.Run("goes to waiters in order", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		first, err := client.Lock(ctx, "queue")
		must(t, err)
		tokens := make(chan uint64)
		for n := uint64(1); n <= 3; n++ {
			go func() {
				lease, err := client.Lock(ctx, "queue", Wait(patience))
				if err == nil {
					tokens <- lease.FencingToken()
					err = lease.Release(ctx)
				}
				if err != nil {
					t.Error(err)
				}
			}()
			until(t, "it waits", func() bool { return nWaiting(t, client, "queue") == n })
		}
		must(t, first.Release(ctx))
		for want := uint64(2); want <= 4; want++ {
			if token := <-tokens; token != want {
				t.Fatal(token, want)
			}
		}
		first, err = client.Lock(ctx, "queue", Wait(patience))
		must(t, err)
		_, err = client.Lock(ctx, "queue", Wait(50*time.Millisecond))
		wantRefused(t, err, "WAIT_TIMEOUT")
		must(t, first.Release(ctx))
	})
	t.Run("is not waited for by whoever gives up", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		lease, err := client.Lock(ctx, "impatient")
		must(t, err)
		waiting, cancel := context.WithCancel(ctx)
		go func() {
			until(t, "it waits", func() bool { return nWaiting(t, client, "impatient") == 1 })
			cancel()
		}()
		if _, err := client.Lock(waiting, "impatient", Wait(time.Minute)); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if nWaiting(t, client, "impatient") != 0 {
			t.Fatal("it still waits")
		}
		must(t, lease.Release(ctx))
	})
	t.Run("is lost when it is revoked: with the next renewal, or at once", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		for _, options := range [][]Option{{TTL(9 * time.Second)}, {TTL(10 * time.Minute), Watched()}} {
			lease, err := client.Lock(ctx, "revoked", options...)
			must(t, err)
			_, err = client.Revoke(ctx, "revoked", "host is gone")
			must(t, err)
			if reason := reasonOf(t, lease.Holding); reason != Ended {
				t.Fatal(reason)
			}
			var notReleased *NotReleasedError
			if err := lease.Release(ctx); !errors.As(err, &notReleased) {
				t.Fatal(err)
			}
		}
	})
	t.Run("outlives its ttl while it is held, and can be left", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		lease, err := client.Lock(ctx, "renewed", TTL(4500*time.Millisecond))
		must(t, err)
		end := lease.tenure.end()
		until(t, "two ttls have passed", func() bool { return client.clock.now() > end.after(4500*time.Millisecond) })
		if state := look(t, client, "renewed"); !lease.Held() || *state.FencingToken != lease.FencingToken() {
			t.Fatal(lease)
		}
		must(t, lease.LeaveFor(ctx, time.Minute))
		must(t, lease.Release(ctx))
		if state := look(t, client, "renewed"); *state.Holders[0].ExpiresInMs < 50_000 || lease.Held() {
			t.Fatal(state)
		}
	})
	t.Run("is left for no time that makes no sense, and can be released if the server refuses", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		lease, err := client.Lock(ctx, "left")
		must(t, err)
		for _, d := range []time.Duration{0, -1} {
			var invalid *InvalidError
			if err := lease.LeaveFor(ctx, d); !errors.As(err, &invalid) || !lease.Held() {
				t.Fatal(d, err)
			}
		}
		if err := lease.LeaveFor(ctx, 25*time.Hour); !hasCode(err, "INVALID_REQUEST") || !look(t, client, "left").Held {
			t.Fatal(err)
		}
		must(t, lease.Release(ctx))
		if look(t, client, "left").Held {
			t.Fatal("not released")
		}
	})
	t.Run("is not asked for without a context, and nil is no option", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		var none context.Context
		var invalid *InvalidError
		if _, err := client.Lock(none, "nil"); !errors.As(err, &invalid) {
			t.Fatal(err)
		}
		if _, err := client.Look(none, "nil"); !errors.As(err, &invalid) {
			t.Fatal(err)
		}
		if _, err := client.OpenSession(none); !errors.As(err, &invalid) {
			t.Fatal(err)
		}
		lease, err := client.Lock(ctx, "nil", nil)
		must(t, err)
		must(t, lease.Release(ctx))
	})
	t.Run("is shared, or counted", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		for n := 0; n < 3; n++ {
			lease, err := client.Lock(ctx, "shared", Shared())
			must(t, err)
			defer lease.Release(ctx)
		}
		_, err := client.Lock(ctx, "shared")
		wantRefused(t, err, "HELD")
		for n := 0; n < 2; n++ {
			lease, err := client.Lock(ctx, "pool", Limit(2))
			must(t, err)
			defer lease.Release(ctx)
		}
		_, err = client.Lock(ctx, "pool", Limit(2))
		wantRefused(t, err, "HELD")
		if _, err = client.Lock(ctx, "pool", Limit(3)); !hasCode(err, "LIMIT_DIFFERS") {
			t.Fatal(err)
		}
	})
	t.Run("can be had by coming back", func(t *testing.T) {
		ctx, client := background(t), server.client(Options{})
		lease, err := client.Lock(ctx, "returning")
		must(t, err)
		go func() { _ = lease.Release(ctx) }()
		lease, err = client.Lock(ctx, "returning", ComeBack())
		must(t, err)
		must(t, lease.Release(ctx))
	})
	t.Run("may have any name, in any namespace", func(t *testing.T) {
		ctx := background(t)
		for _, name := range []string{"a/b c", "ü?#%", "..", "(it's)*!"} {
			client := server.client(Options{Namespace: "of " + name})
			lease, err := client.Lock(ctx, name)
			must(t, err)
			list, err := client.List(ctx, ListQuery{State: "held"})
			must(t, err)
			if lease.Name() != name || len(list.Locks) != 1 || list.Locks[0].LockName != name {
				t.Fatal(name, list)
			}
			must(t, lease.Release(ctx))
		}
	})
	t.Run("comes from its context, and shows no secret", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.WithValue(background(t), "key", "value"))
		lease, err := server.client(Options{}).Lock(ctx, "context")
		must(t, err)
		cancel()
		if lease.Context().Err() == nil || lease.Context().Value("key") != "value" || !lease.Held() {
			t.Fatal("the context of the lease is another's, or its end is a loss")
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
			if said := fmt.Sprintf(verb, lease); strings.Contains(said, lease.LeaseID()) {
				t.Error(said)
			}
		}
		must(t, lease.Release(background(t)))
	})
	t.Run("that makes no sense is not asked for", func(t *testing.T) {
		client := server.client(Options{URLs: []string{"http://127.0.0.1:1"}})
		for _, options := range [][]Option{{TTL(time.Second), Margin(501 * time.Millisecond)}, {TTL(0)}, {Metadata(func() {})}} {
			var invalid *InvalidError
			if _, err := client.Lock(background(t), "a", options...); !errors.As(err, &invalid) {
				t.Error(err)
			}
		}
		if _, err := client.Lock(background(t), ""); err == nil {
			t.Error("a lock without a name")
		}
	})
}

func TestAnAdminRevokesAllThatAnOwnerHas(t *testing.T) {
	client, ctx, owner := startServer(t).client(Options{}), background(t), "ann"
	lease, err := client.Lock(ctx, "a", Owner(owner), TTL(9*time.Second))
	must(t, err)
	would, err := client.RevokeAll(ctx, RevokeAllRequest{Owner: &owner, Reason: "test", DryRun: true})
	must(t, err)
	if would.NRevoked != 1 || !lease.Held() {
		t.Fatal(would)
	}
	revoked, err := client.RevokeAll(ctx, RevokeAllRequest{Owner: &owner, Reason: "test"})
	must(t, err)
	if len(revoked.Revoked) != 1 || revoked.Revoked[0].LockName != "a" || revoked.Revoked[0].FencingToken != 1 {
		t.Fatal(revoked)
	}
	if reason := reasonOf(t, lease.Holding); reason != Ended {
		t.Fatal(reason)
	}
	must(t, client.Ready(ctx))
	if _, err := client.TakeBackup(ctx); !hasCode(err, "BACKUPS_OFF") {
		t.Fatal(err)
	}
}

func TestWhatMakesNoSenseIsNotSent(t *testing.T) {
	client, ctx := startServer(t).client(Options{}), background(t)
	var none *InvalidError
	for _, option := range []Option{
		TTL(-1), Wait(-1), Grace(-1), Owner("\xff"), Metadata(math.NaN()), Metadata(make(chan int)), Metadata(strings.Repeat("x", 1<<20)),
	} {
		if _, err := client.Lock(ctx, "a", option); !errors.As(err, &none) {
			t.Error(err)
		}
	}
	if _, err := client.Lock(ctx, "\xff"); !errors.As(err, &none) {
		t.Error(err)
	}
	if _, err := client.Locks(ctx, []Wanted{{Name: "\xff"}}); !errors.As(err, &none) {
		t.Error(err)
	}
}
