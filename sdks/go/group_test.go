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
	set, err := client.Locks(ctx, []Wanted{{Name: "e"}, {Name: "f"}}, TTL(1500*time.Millisecond))
	must(t, err)
	end := set.tenure.end()
	until(t, "they are renewed", func() bool { return set.tenure.end() > end })
	_, err = client.Revoke(ctx, "f", "host is gone")
	must(t, err)
	if reason := reasonOf(t, set.Holding); reason != Ended {
		t.Fatal(reason)
	}
	must(t, set.Release(ctx))
	if look(t, client, "e").Held {
		t.Fatal("what was left is not released")
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

func TestSeveralLocksThatAreWatchedAreToldAtOnceOfARevocation(t *testing.T) {
	client, ctx := startServer(t).client(Options{}), background(t)
	set, err := client.Locks(ctx, []Wanted{{Name: "j"}, {Name: "k"}}, TTL(time.Minute), Watched())
	must(t, err)
	_, err = client.Revoke(ctx, "k", "host is gone")
	must(t, err)
	if reason := reasonOf(t, set.Holding); reason != Ended {
		t.Fatal(reason)
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
