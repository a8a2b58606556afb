package leasehold

import (
	"net/url"
	"strings"
	"sync"
	"time"
)

// Where the leader cannot be reached by us, those that follow it pass requests on. For so long they are asked to do so at
// once, instead of saying first that they do not lead.
const passedOnFor = 30 * time.Second

// routes are the URLs of one server, or of several that are one to their clients.
type routes struct {
	// At least one.
	given []string
	// Whoever does not lead is asked to say who does.
	isDirect bool
	// Also to a leader whose URL was not given.
	followsAny bool

	mutex sync.Mutex
	// Who is asked first: the one that answered last.
	chosen string
	// Until then nobody is asked who leads.
	passedOnUntil time.Time
}

func newRoutes(s *settings) *routes {
	return &routes{given: s.urls, isDirect: s.isDirect, followsAny: s.followsAny, chosen: s.urls[0]}
}

// trip is a request's way from URL to URL, as long as it is certain that nothing was done: at most once to each of them,
// and once more to one that is to pass it on.
type trip struct {
	routes *routes
	at     string
	tried  map[string]bool
	// The last that said that it does not lead.
	follower string
	isDirect bool
}

func (r *routes) begin() *trip {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	isDirect := r.isDirect && !time.Now().Before(r.passedOnUntil)
	return &trip{routes: r, at: r.chosen, tried: map[string]bool{r.chosen: true}, isDirect: isDirect}
}

// wasAnswered: the one asked is asked first from now on.
func (t *trip) wasAnswered() {
	t.routes.mutex.Lock()
	defer t.routes.mutex.Unlock()
	t.routes.chosen = t.at
	if t.follower != "" && !t.isDirect {
		t.routes.passedOnUntil = time.Now().Add(passedOnFor)
	}
}

// failed: whoever begins from now on begins at the next one. Of many that fail at once, only the first moves on.
func (t *trip) failed() {
	t.routes.mutex.Lock()
	defer t.routes.mutex.Unlock()
	if t.routes.chosen == t.at {
		t.routes.chosen = t.routes.after(t.at)
	}
}

// goOn goes to another one, if there is another to ask: where no connection came about.
func (t *trip) goOn() bool { return t.next("") }

// goOnFromFollower does so where the one asked does not lead, and says who does if it knows.
func (t *trip) goOnFromFollower(leader string) bool {
	t.follower = t.at
	return t.next(t.routes.leader(leader))
}

func (t *trip) next(leader string) bool {
	t.failed()
	next := leader
	if next == "" || t.tried[next] {
		next = t.at
		for range t.routes.given {
			if next = t.routes.after(next); !t.tried[next] {
				break
			}
		}
	}
	if !t.tried[next] {
		t.at, t.tried[next] = next, true
		return true
	}
	// Nobody whom we can reach leads: one of them is to pass it on.
	if t.follower == "" || !t.isDirect {
		return false
	}
	t.at, t.isDirect = t.follower, false
	return true
}

// after is the next one in the order they were given; the first after one that was not.
func (r *routes) after(at string) string {
	for n, known := range r.given {
		if known == at {
			return r.given[(n+1)%len(r.given)]
		}
	}
	return r.given[0]
}

// leader is where a server says the leader is, if we go there.
func (r *routes) leader(said string) string {
	parsed, err := url.Parse(said)
	if err != nil || said == "" || parsed.User != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return ""
	}
	leader, isSafe := normalURL(parsed), parsed.Scheme == "https"
	for _, known := range r.given {
		if known == leader {
			return leader
		}
		// Whoever speaks TLS with all servers does not begin to speak without.
		isSafe = isSafe || !strings.HasPrefix(known, "https://")
	}
	if r.followsAny && isSafe {
		return leader
	}
	return ""
}
