package leasehold

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// What is promised when connections break and servers stop.

func kinds(t *testing.T, client *Client, lock string) []string {
	t.Helper()
	history, err := client.History(background(t), HistoryQuery{Lock: lock})
	must(t, err)
	var kinds []string
	for n := len(history.Events) - 1; n >= 0; n-- {
		if kind := history.Events[n].Kind; kind != "queued" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// cutFirst cuts the first n requests whose path ends so.
func cutFirst(l *link, end string, n int) {
	l.setFate(func(request seen) fate {
		if strings.HasSuffix(request.path, end) && len(l.of(end)) <= n {
			return cut
		}
		return pass
	})
}

func TestAnAcquireOrReleaseWhoseAnswerIsLostIsRepeatedUnderTheSameRequestID(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	cutFirst(link, "/acquire", 3)
	lease, err := link.client(t).Lock(ctx, "cut")
	must(t, err)
	if requests, ids := link.requestIDs("/acquire"); requests != 4 || ids != 1 {
		t.Fatal(requests, ids)
	}
	direct := server.client(Options{})
	next := make(chan *Lease)
	go func() {
		lease, err := direct.Lock(ctx, "cut", Wait(patience))
		if err != nil {
			t.Error(err)
		}
		next <- lease
	}()
	until(t, "another waits", func() bool { return nWaiting(t, direct, "cut") == 1 })
	cutFirst(link, "/release", 3)
	must(t, lease.Release(ctx))
	if requests, ids := link.requestIDs("/release"); requests != 4 || ids != 1 {
		t.Fatal(requests, ids)
	}
	other := <-next
	if got := kinds(t, direct, "cut"); !reflect.DeepEqual(got, []string{"granted", "released", "granted"}) || !other.Held() {
		t.Fatal(got)
	}
	must(t, other.Release(ctx))
}

func TestNothingIsRenewedAfterAReleaseThoughARenewalWasUnderWay(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	client := link.client(t)
	lease, err := client.Lock(ctx, "no-renewal", TTL(6*time.Second))
	must(t, err)
	link.setFate(func(request seen) fate {
		if strings.HasSuffix(request.path, "/renew") {
			return swallow
		}
		return pass
	})
	until(t, "a renewal is under way", func() bool { return len(link.of("/renew")) == 1 })
	must(t, lease.Release(ctx))
	n, over := len(link.of("")), client.clock.now().after(6100*time.Millisecond)
	until(t, "a ttl has passed", func() bool { return client.clock.now() > over })
	if all := link.of(""); len(all) != n || !strings.HasSuffix(all[n-1].path, "/release") {
		t.Fatal(all)
	}
}

func TestTheLossIsToldBeforeTheLeaseCanEndAndIsFinal(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	client, ttl := link.client(t), 10*time.Second
	sentAt := client.clock.now()
	lease, err := client.Lock(ctx, "swallowed", TTL(ttl), Margin(4*time.Second))
	must(t, err)
	// The server renews it, but we never hear of that.
	link.all(stall)
	reason := reasonOf(t, lease.Holding)
	if told := client.clock.now().since(sentAt); reason != OutOfTime || told >= ttl-50*time.Millisecond || told < ttl/2 {
		t.Fatal(reason, told)
	}
	if !look(t, server.client(Options{}), "swallowed").Held {
		t.Fatal("it has ended at the server")
	}
	link.all(pass)
	n, over := len(link.of("/renew")), client.clock.now().after(ttl)
	until(t, "a ttl has passed", func() bool { return client.clock.now() > over })
	if lease.Held() || len(link.of("/renew")) != n {
		t.Fatal("brought back")
	}
}

func TestAWaitAndALeaseSurviveARestartOfTheServer(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	direct := server.client(Options{})
	holder, err := direct.Lock(ctx, "restart", TTL(10*time.Minute))
	must(t, err)
	granted := make(chan *Lease, 1)
	go func() {
		lease, err := link.client(t).Lock(ctx, "restart", TTL(20*time.Second), Wait(10*time.Minute))
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	until(t, "it waits", func() bool { return nWaiting(t, direct, "restart") == 1 })
	server.kill()
	server.start()
	until(t, "it waits again", func() bool {
		queue := look(t, direct, "restart").Queue
		return len(queue) == 1 && !queue[0].Parked
	})
	must(t, holder.Release(ctx))
	lease := <-granted
	if requests, ids := link.requestIDs("/acquire"); lease.FencingToken() != 2 || requests < 2 || ids != 1 {
		t.Fatal(lease, requests, ids)
	}
	server.kill()
	server.start()
	end := lease.tenure.end()
	until(t, "it is renewed", func() bool { return lease.tenure.end() > end })
	if state := look(t, direct, "restart"); !lease.Held() || *state.FencingToken != 2 {
		t.Fatal(lease)
	}
	must(t, lease.Release(ctx))
}

func TestAReleaseThatCannotBeMadeSaysSoAndCanBeTriedAgain(t *testing.T) {
	server := startServer(t)
	client, ctx := server.client(Options{}), background(t)
	lease, err := client.Lock(ctx, "no-way")
	must(t, err)
	server.kill()
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := lease.Release(brief); err == nil {
		t.Fatal("released by nobody")
	}
	var unreachable *UnreachableError
	if err := lease.Release(ctx); !errors.As(err, &unreachable) || !strings.Contains(err.Error(), server.url()) {
		t.Fatal(err)
	}
	server.start()
	must(t, lease.Release(ctx))
	if look(t, client, "no-way").Held {
		t.Fatal("still held")
	}
}

func TestAReleaseThatWasNeverHeardAndIsTriedAgainIsStillThatOneRelease(t *testing.T) {
	link, ctx := newLink(t, startServer(t).url), background(t)
	lease, err := link.client(t).Lock(ctx, "unheard")
	must(t, err)
	link.all(cut)
	if err := lease.Release(ctx); !MayHaveTakenEffect(err) {
		t.Fatal(err)
	}
	link.all(pass)
	must(t, lease.Release(ctx))
	if requests, ids := link.requestIDs("/release"); requests < 9 || ids != 1 {
		t.Fatal(requests, ids)
	}
}

func TestAGrantThatComesAfterAWaitLongerThanTheTTLIsHeld(t *testing.T) {
	server := startServer(t)
	client, ctx := server.client(Options{}), background(t)
	holder, err := client.Lock(ctx, "long-wait")
	must(t, err)
	granted := make(chan *Lease, 1)
	go func() {
		lease, err := client.Lock(ctx, "long-wait", TTL(4500*time.Millisecond), Wait(10*time.Minute))
		if err != nil {
			t.Error(err)
		}
		granted <- lease
	}()
	until(t, "it waits", func() bool { return nWaiting(t, client, "long-wait") == 1 })
	over := client.clock.now().after(4600 * time.Millisecond)
	until(t, "a ttl has passed", func() bool { return client.clock.now() > over })
	must(t, holder.Release(ctx))
	lease := <-granted
	end := lease.tenure.end()
	until(t, "it is renewed", func() bool { return lease.tenure.end() > end })
	must(t, lease.Release(ctx))
}

func TestALockGrantedToOneWhoHasGivenUpIsGivenBack(t *testing.T) {
	server := startServer(t)
	link, direct := newLink(t, server.url), server.client(Options{})
	link.setFate(func(request seen) fate {
		if strings.HasSuffix(request.path, "/acquire") && len(link.of("/acquire")) == 1 {
			return stall
		}
		return pass
	})
	ctx, cancel := context.WithCancel(background(t))
	go func() {
		until(t, "it is granted", func() bool { return look(t, direct, "abandoned").Held })
		cancel()
	}()
	if _, err := link.client(t).Lock(ctx, "abandoned"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	until(t, "it is free", func() bool { return !look(t, direct, "abandoned").Held })
}
