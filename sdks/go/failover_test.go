package leasehold

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestATTLThatIsShorterThanAFailOverIsWarnedOfOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/single/") {
			w.Header().Set("Leasehold-Failover-Ms", "10000")
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/release"):
			fmt.Fprint(w, `{"released":true}`)
		case strings.HasSuffix(r.URL.Path, "/sessions"):
			fmt.Fprint(w, `{"session_id":"1.s","owner_id":"o","expires_in_ms":3000,"expires_after_send_ms":3000}`)
		case r.Method == http.MethodDelete:
			fmt.Fprint(w, `{}`)
		default:
			fmt.Fprint(w, `{"acquired":true,"lock_name":"a","owner_id":"o","lease_id":"1.a","fencing_token":1,`+
				`"lease_expiry_ms":null,"expires_in_ms":9000,"expires_after_send_ms":9000}`)
		}
	}))
	defer server.Close()
	ctx := background(t)
	lock := func(client *Client, ttl time.Duration) error {
		lease, err := client.Lock(ctx, "a", TTL(ttl))
		must(t, err)
		return lease.Release(ctx)
	}
	session := func(client *Client, ttl time.Duration) error {
		_, err := client.OpenSession(ctx, TTL(ttl))
		return err
	}
	for _, test := range []struct {
		path string
		ttl  time.Duration
		n    int
	}{{"", 3 * time.Second, 1}, {"", 10 * time.Second, 0}, {"/single", 3 * time.Second, 0}} {
		for what, take := range map[string]func(*Client, time.Duration) error{"lock": lock, "session": session} {
			var mutex sync.Mutex
			var lines []string
			client, err := New(Options{URLs: []string{server.URL + test.path}, Logf: func(format string, args ...any) {
				mutex.Lock()
				defer mutex.Unlock()
				lines = append(lines, fmt.Sprintf(format, args...))
			}})
			must(t, err)
			for n := 0; n < 2; n++ {
				must(t, take(client, test.ttl))
			}
			mutex.Lock()
			var warned []string
			for _, line := range lines {
				if strings.Contains(line, "fail-over") {
					warned = append(warned, line)
				}
			}
			mutex.Unlock()
			if len(warned) != test.n || test.n == 1 && !strings.Contains(warned[0], "at least 10s") {
				t.Errorf("%s %+v: %q", what, test, warned)
			}
		}
	}
}

func TestWithoutLogfTheWarningGoesToTheStandardLog(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := New(Options{URLs: []string{server.URL}})
	must(t, err)
	var logged strings.Builder
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	client.calls.transport.failover.ms.Store(10_000)
	client.warnShort(3 * time.Second)
	if !strings.Contains(logged.String(), "use at least 10s") {
		t.Fatal(logged.String())
	}
}

func TestAWaitOutlastsAnOutageOfTheStoreHoweverManyTriesThatTakes(t *testing.T) {
	var nAsked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/release"):
			fmt.Fprint(w, `{"released":true}`)
		case nAsked.Add(1) <= 30:
			code := []string{"UNKNOWN", "BUSY"}[nAsked.Load()%2]
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"error":"no","code":%q,"retryable":true,"may_have_taken_effect":false}`, code)
		default:
			fmt.Fprint(w, `{"acquired":true,"lock_name":"a","owner_id":"o","lease_id":"1.a","fencing_token":1,`+
				`"lease_expiry_ms":null,"expires_in_ms":60000,"expires_after_send_ms":60000}`)
		}
	}))
	defer server.Close()
	client, err := New(Options{URLs: []string{server.URL}})
	must(t, err)
	retry := DefaultRetry
	retry.PauseMin, retry.PauseMax = time.Millisecond, time.Millisecond
	lease, err := client.Lock(background(t), "a", Wait(10*time.Minute), WithRetry(retry))
	must(t, err)
	must(t, lease.Release(background(t)))
	if n := nAsked.Load(); n != 31 {
		t.Fatal(n)
	}
}
