package leasehold

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSeveralLocksAreGrantedTogetherOrNotAtAll(t *testing.T) {
	client, ctx := startServer(t).client(Options{}), background(t)
	taken, err := client.Lock(ctx, "b")
	must(t, err)
	wanted := []Wanted{{Name: "a"}, {Name: "b"}, {Name: "c", Shared: true}, {Name: "d", Limit: 2}}
	_, err = client.Locks(ctx, wanted)
	wantRefused(t, err, "HELD")
	if look(t, client, "a").Held {
		t.Fatal("granted in part")
	}
	go func() {
		until(t, "it waits", func() bool { return nWaiting(t, client, "b") == 1 })
		_ = taken.Release(ctx)
	}()
	set, err := client.Locks(ctx, wanted, Wait(patience))
	must(t, err)
	if !reflect.DeepEqual(set.Names(), []string{"a", "b", "c", "d"}) || set.FencingToken("b") != 2 || set.FencingToken("x") != 0 {
		t.Fatal(set)
	}
	must(t, set.Release(ctx))
	if look(t, client, "a").Held {
		t.Fatal("still held")
	}
}

func TestSeveralLocksAreRenewedTogetherAndLostIfOneOfThemIs(t *testing.T) {
	client, ctx := startServer(t).client(Options{}), background(t)
	set, err := client.Locks(ctx, []Wanted{{Name: "e"}, {Name: "f"}}, TTL(9*time.Second))
	must(t, err)
	end := set.tenure.end()
	until(t, "they are renewed", func() bool { return set.tenure.end() > end })
	_, err = client.Revoke(ctx, "f", "host is gone")
	must(t, err)
	if reason := reasonOf(t, set.Holding); reason != Ended {
		t.Fatal(reason)
	}
	if err := set.Check(); !strings.HasPrefix(err.Error(), `locks "e", "f": the server reports that the lease has ended (lock "f": `) {
		t.Fatal(err)
	}
	wantNotReleased(t, set.Release(ctx), "f")
	if look(t, client, "e").Held {
		t.Fatal("what was left is not released")
	}
}

func wantNotReleased(t *testing.T, err error, locks ...string) {
	t.Helper()
	var no *NotReleasedError
	if !errors.As(err, &no) || !reflect.DeepEqual(no.Locks, locks) {
		t.Fatal(err)
	}
}

func TestThatOneOfSeveralWasTakenAwayIsTold(t *testing.T) {
	server, ctx := startServer(t), background(t)
	link := newLink(t, server.url)
	client := server.client(Options{URLs: []string{link.http.URL}, Timeout: 4 * time.Second})
	// Also if the first try was never heard: what the second one releases, the first one did not.
	for _, first := range []fate{pass, swallow} {
		set, err := client.Locks(ctx, []Wanted{{Name: "m"}, {Name: "n"}})
		must(t, err)
		_, err = client.Revoke(ctx, "n", "host is gone")
		must(t, err)
		other, err := client.Lock(ctx, "n", Owner("other"))
		must(t, err)
		nBefore := len(link.of("/release"))
		link.setFate(func(s seen) fate {
			if strings.HasSuffix(s.path, "/release") && len(link.of("/release")) == nBefore+1 {
				return first
			}
			return pass
		})
		wantNotReleased(t, set.Release(ctx), "n")
		if look(t, client, "m").Held || !other.Held() {
			t.Fatal("the wrong ones are released")
		}
		must(t, other.Release(ctx))
	}
}

func TestAReleaseOfSeveralThatWasNotHeardIsAsGood(t *testing.T) {
	server := startServer(t)
	link, ctx := newLink(t, server.url), background(t)
	set, err := link.client(t).Locks(ctx, []Wanted{{Name: "g"}, {Name: "h"}})
	must(t, err)
	cutFirst(link, "/release", 2)
	must(t, set.Release(ctx))
	if n := len(link.of("/release")); n != 3 {
		t.Fatal(n)
	}
	client := server.client(Options{})
	set, err = client.Locks(ctx, []Wanted{{Name: "i"}})
	must(t, err)
	_, err = client.Revoke(ctx, "i", "host is gone")
	must(t, err)
	var notReleased *NotReleasedError
	if err := set.Release(ctx); !errors.As(err, &notReleased) {
		t.Fatal(err)
	}
}

func TestSeveralLocksThatAreWatchedAreToldAtOnceOfARevocationAndWhyItWas(t *testing.T) {
	link, ctx := newLink(t, startServer(t).url), background(t)
	client := link.client(t)
	set, err := client.Locks(ctx, []Wanted{{Name: "j"}, {Name: "k"}}, TTL(10*time.Minute), Watched())
	must(t, err)
	until(t, "they are watched", func() bool { return len(link.of("/watch")) == 2 })
	look(t, client, "k")
	_, err = client.Revoke(ctx, "k", "host is gone")
	must(t, err)
	if reason := reasonOf(t, set.Holding); reason != Ended {
		t.Fatal(reason)
	}
	want := `locks "j", "k": the server reports that the lease has ended (lock "k": revoked: host is gone)`
	if err := set.Check(); err == nil || err.Error() != want {
		t.Fatal(err)
	}
}

func TestWhichOfSeveralLeasesOfOneLockIsOverIsToldAndIsASecret(t *testing.T) {
	client, ctx := startServer(t).client(Options{Owner: "ann"}), background(t)
	var leases []heldLease
	for n := 0; n < 2; n++ {
		lease, err := client.Lock(ctx, "l", Limit(2))
		must(t, err)
		leases = append(leases, heldLease{LockName: "l", LeaseID: lease.LeaseID(), FencingToken: lease.FencingToken()})
		if n == 1 {
			must(t, lease.Release(ctx))
		}
	}
	_, err := client.calls.renewAll(ctx, &renewAllRequest{OwnerID: "ann", ExtendByMs: 1000, Leases: leases}, 0)
	var notRenewed *NotRenewedError
	if !errors.As(err, &notRenewed) || notRenewed.LockName != "l" || notRenewed.LeaseID() != leases[1].LeaseID {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if said := fmt.Sprintf(verb, notRenewed); strings.Contains(said, leases[1].LeaseID) {
			t.Error(said)
		}
	}
}
