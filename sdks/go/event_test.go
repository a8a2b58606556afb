package leasehold

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

func next(t *testing.T, events *Events) string {
	t.Helper()
	told, err := events.Next(background(t))
	must(t, err)
	if told.Gap != "" {
		return "gap: " + told.Gap
	}
	return fmt.Sprint(told.Event.Kind, " ", told.Event.LockName, " ", told.Event.FencingToken)
}

func touch(t *testing.T, client *Client, lock string) {
	t.Helper()
	lease, err := client.Lock(background(t), lock)
	must(t, err)
	must(t, lease.Release(background(t)))
}

func TestEventsAreToldAsTheyHappenOverCutsAndARestartEachOnce(t *testing.T) {
	server := startServer(t)
	link, client := newLink(t, server.url), server.client(Options{})
	events := link.client(t).Events(EventsQuery{Prefix: "e/"})
	defer events.Close()
	must(t, events.Connect(background(t)))
	touch(t, client, "e/1")
	touch(t, client, "other")
	told := []string{next(t, events), next(t, events)}
	link.http.CloseClientConnections()
	touch(t, client, "e/2")
	told = append(told, next(t, events))
	server.kill()
	server.start()
	touch(t, client, "e/3")
	told = append(told, next(t, events), next(t, events), next(t, events))
	want := []string{"granted e/1 1", "released e/1 1", "granted e/2 1", "released e/2 1", "granted e/3 1", "released e/3 1"}
	if !reflect.DeepEqual(told, want) {
		t.Fatal(told)
	}
}

func TestGaps(t *testing.T) {
	server := startServer(t)
	link, client := newLink(t, server.url), server.client(Options{})
	events := link.client(t).Events(EventsQuery{})
	defer events.Close()
	must(t, events.Connect(background(t)))
	link.http.CloseClientConnections()
	if told := next(t, events); told != "gap: the connection broke before the first event" {
		t.Fatal(told)
	}
	touch(t, client, "since")
	first, err := events.Next(background(t))
	must(t, err)
	again := client.Events(EventsQuery{Lock: "since", Since: first.ID})
	defer again.Close()
	if told := next(t, again); told != "released since 1" {
		t.Fatal(told)
	}
	unknown := client.Events(EventsQuery{Since: "1-1-1"})
	defer unknown.Close()
	if told := next(t, unknown); told[:4] != "gap:" {
		t.Fatal(told)
	}
}

func TestWaitingForAnEventEndsWithItsContextAndLosesNothing(t *testing.T) {
	client := startServer(t).client(Options{})
	events := client.Events(EventsQuery{})
	must(t, events.Connect(background(t)))
	brief, cancel := context.WithTimeout(background(t), 20*time.Millisecond)
	defer cancel()
	if _, err := events.Next(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	touch(t, client, "a")
	if told := next(t, events); told != "granted a 1" {
		t.Fatal(told)
	}
	events.Close()
	// What was read before the end may still be told.
	for {
		if _, err := events.Next(background(t)); err != nil {
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			return
		}
	}
}

func TestConnectingEndsWithItsContext(t *testing.T) {
	client, err := New(Options{URLs: []string{newStub(t, silent).URL}, Timeout: time.Hour})
	must(t, err)
	events := client.Events(EventsQuery{})
	defer events.Close()
	brief, cancel := context.WithTimeout(background(t), 20*time.Millisecond)
	defer cancel()
	if _, err := events.Next(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestAnObserverThatCouldNotLookLooksAgain(t *testing.T) {
	server, ctx := startServer(t), background(t)
	link := newLink(t, server.url)
	observer := link.client(t).Election("e").Observe()
	defer observer.Close()
	if leader, err := observer.Next(ctx); leader != nil || err != nil {
		t.Fatal(leader, err)
	}
	link.setFate(func(request seen) fate {
		if strings.HasSuffix(request.path, "/locks/e") {
			return cut
		}
		return pass
	})
	lease, err := server.client(Options{Owner: "ann"}).Lock(ctx, "e")
	must(t, err)
	if _, err := observer.Next(ctx); !MayHaveTakenEffect(err) {
		t.Fatal(err)
	}
	link.all(pass)
	leader, err := observer.Next(ctx)
	if must(t, err); leader == nil || leader.Owner != "ann" {
		t.Fatal(leader)
	}
	must(t, lease.Release(ctx))
}

func TestElection(t *testing.T) {
	server, ctx := startServer(t), background(t)
	ann, bob := server.client(Options{Owner: "ann"}).Election("scheduler"), server.client(Options{Owner: "bob"}).Election("scheduler")
	observer := bob.Observe()
	defer observer.Close()
	see := func(want *Leader) {
		t.Helper()
		leader, err := observer.Next(ctx)
		// Between two terms nobody may be seen to lead.
		if err == nil && leader == nil && want != nil {
			leader, err = observer.Next(ctx)
		}
		if must(t, err); !sameLeader(leader, want) {
			t.Fatal(leader, want)
		}
	}
	see(nil)
	first, err := ann.Campaign(ctx, map[string]string{"url": "http://a"})
	must(t, err)
	see(&Leader{Owner: "ann", FencingToken: first.FencingToken(), Value: []byte(`{"url":"http://a"}`)})
	look := server.client(Options{})
	go func() {
		until(t, "bob waits", func() bool { return nWaiting(t, look, "scheduler") == 1 })
		_ = first.Release(ctx)
	}()
	second, err := bob.Campaign(ctx, "b")
	must(t, err)
	if second.FencingToken() <= first.FencingToken() {
		t.Fatal(second)
	}
	see(&Leader{Owner: "bob", FencingToken: second.FencingToken(), Value: []byte(`"b"`)})
	must(t, second.Release(ctx))
}

func TestThatEventsCanBeLateIsToldAndThatTheyNoLongerAre(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: stale\ndata: {\"reason\":\"cut off\"}\n\nevent: current\ndata: {\"reason\":\"back\"}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	client, err := New(Options{URLs: []string{server.URL}})
	must(t, err)
	events := client.Events(EventsQuery{})
	defer events.Close()
	for _, want := range []Told{{Gap: "cut off", Stale: true}, {Gap: "back", Current: true}} {
		told, err := events.Next(background(t))
		must(t, err)
		if !reflect.DeepEqual(told, want) {
			t.Fatal(told)
		}
	}
}
