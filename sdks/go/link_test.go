package leasehold

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fate is what becomes of a request: it is passed on and its answer passed back, its answer is lost, or nobody ever
// hears of it.
type fate int

const (
	pass fate = iota
	// cut: the server answers, and the connection breaks before the answer arrives.
	cut
	// stall: the server answers, and the answer never arrives.
	stall
	// swallow: the server never hears of it, and nobody answers.
	swallow
)

// seen is a request as it went over the link.
type seen struct {
	path   string
	header http.Header
	body   map[string]any
}

// link is a link to a server that can be cut and stalled, and that keeps what was sent over it.
type link struct {
	http   *httptest.Server
	target func() string

	mutex sync.Mutex
	seen  []seen
	fate  func(seen) fate
}

func newLink(t *testing.T, target func() string) *link {
	l := &link{target: target, fate: func(seen) fate { return pass }}
	l.http = httptest.NewServer(l)
	t.Cleanup(l.close)
	return l
}

func (l *link) close() {
	l.http.CloseClientConnections()
	l.http.Close()
}

func (l *link) setFate(fate func(seen) fate) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.fate = fate
}

func (l *link) all(f fate) { l.setFate(func(seen) fate { return f }) }

// of are those whose path ends so.
func (l *link) of(end string) []seen {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var found []seen
	for _, seen := range l.seen {
		if strings.HasSuffix(seen.path, end) {
			found = append(found, seen)
		}
	}
	return found
}

// requestIDs of those whose path ends so: how many requests, and how many different ids.
func (l *link) requestIDs(end string) (int, int) {
	ids := map[any]struct{}{}
	found := l.of(end)
	for _, seen := range found {
		ids[seen.body["request_id"]] = struct{}{}
	}
	return len(found), len(ids)
}

func (l *link) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := seen{path: r.URL.EscapedPath(), header: r.Header}
	_ = json.Unmarshal(body, &request.body)
	l.mutex.Lock()
	l.seen = append(l.seen, request)
	decide := l.fate
	l.mutex.Unlock()
	fate := decide(request)
	if fate == swallow {
		<-r.Context().Done()
		return
	}
	onward, _ := http.NewRequestWithContext(r.Context(), r.Method, l.target()+r.URL.RequestURI(), bytes.NewReader(body))
	onward.Header = r.Header.Clone()
	// Whoever hangs up here hangs up there, and no connection is used twice.
	transport := &http.Transport{DisableKeepAlives: true}
	answer, err := transport.RoundTrip(onward)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	switch fate {
	case cut:
		panic(http.ErrAbortHandler)
	case stall:
		<-r.Context().Done()
		return
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	relay(w, answer.Body)
}

// relay passes on what comes as it comes. If it breaks there, it breaks here.
func relay(w http.ResponseWriter, body io.Reader) {
	w.(http.Flusher).Flush()
	piece := make([]byte, 16<<10)
	for {
		n, err := body.Read(piece)
		_, _ = w.Write(piece[:n])
		w.(http.Flusher).Flush()
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

func (l *link) client(t *testing.T) *Client {
	t.Helper()
	client, err := New(Options{URLs: []string{l.http.URL}, Timeout: 6 * time.Second})
	must(t, err)
	return client
}
