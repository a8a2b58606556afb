package leasehold

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// A page of 1000 locks, each with everything it can show, is far smaller.
	answerBytesMax = 64 << 20
	// The server takes 64 KiB unless it is told otherwise. Whoever sends far more may be hung up on before all of it is sent,
	// and that looks like any connection that broke: it would be tried again and again.
	requestBytesMax = 1 << 20
	// How much of an answer that is none of ours is shown.
	foreignBytesShown = 200
	// A peer that is gone without a word is noticed after about 30 s, also while we wait in a queue.
	keepAlive = 3 * time.Second
	// The server closes idle connections after 2 min: we do before it does, and so seldom send into a closed one.
	idleMax = 30 * time.Second
)

// question is one request.
type question struct {
	method  string
	path    string
	body    any
	headers map[string]string
	// How much longer than usual the answer may take.
	longer time.Duration
	// How long the answer may take, if not as usual.
	patience time.Duration
}

// answer is a whole answer.
type answer struct {
	status int
	body   []byte
	leader string
}

func (a *answer) isSuccess() bool { return a.status >= 200 && a.status < 300 }

// transport is where the servers are and how to talk to them.
type transport struct {
	settings *settings
	routes   *routes
	http     *http.Client
	failover failover
}

func newTransport(s *settings) *transport {
	dialer := &net.Dialer{Timeout: s.connectTimeout, KeepAlive: keepAlive}
	return &transport{settings: s, routes: newRoutes(s), http: &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if path, ok := s.socketOf(address); ok {
					return dialer.DialContext(ctx, "unix", path)
				}
				return dialer.DialContext(ctx, network, address)
			},
			TLSClientConfig:     s.tls,
			TLSHandshakeTimeout: s.connectTimeout,
			IdleConnTimeout:     idleMax,
			MaxIdleConnsPerHost: 64,
			DisableCompression:  true,
		},
		// A key goes nowhere but to the URLs that were given.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// What follows the number of a Unix socket among the URLs in the host of its requests. Nobody looks it up.
const socketHost = ".leasehold.localhost"

// address is what a path is put behind.
func (s *settings) address(base string) string {
	if _, isUnix := unixPath(base); isUnix {
		for n, known := range s.urls {
			if known == base {
				return "http://" + strconv.Itoa(n) + socketHost
			}
		}
	}
	return base
}

// socketOf is the path of the Unix socket that is meant by a host and port.
func (s *settings) socketOf(address string) (string, bool) {
	host := strings.TrimSuffix(address, ":80")
	n, err := strconv.Atoi(strings.TrimSuffix(host, socketHost))
	if err != nil || !strings.HasSuffix(host, socketHost) || n >= len(s.urls) {
		return "", false
	}
	return unixPath(s.urls[n])
}

// call sends a request and waits for the whole answer.
func (t *transport) call(ctx context.Context, q question) (*answer, error) {
	return t.somewhere(ctx, q, func(ctx context.Context, trip *trip) (*answer, error) {
		q := q
		if trip.isDirect {
			q.headers = map[string]string{"Leasehold-Direct": "1"}
		}
		response, err := t.send(ctx, trip.at, q)
		if err != nil {
			return nil, err
		}
		t.failover.learn(response.Header)
		return whole(response)
	})
}

// sound finds out whether the server that would be asked is there at all. If not, the next one is asked from then on.
func (t *transport) sound(ctx context.Context) {
	if len(t.routes.given) > 1 {
		// Whatever it says, it has answered.
		_, _ = t.call(ctx, question{method: http.MethodGet, path: "/livez"})
	}
}

// stream asks for a stream that has no end. It ends with the context, or when it is closed.
func (t *transport) stream(ctx context.Context, q question) (io.ReadCloser, error) {
	var stream io.ReadCloser
	q.headers = withAccept(q.headers)
	// Every server tells of events, and may do so itself: nobody is asked who leads.
	answer, err := t.somewhere(ctx, q, func(limited context.Context, trip *trip) (*answer, error) {
		// The patience is for the head of the answer; the stream itself goes on.
		own, cancel := context.WithCancel(ctx)
		headCame := make(chan struct{})
		defer close(headCame)
		go func() {
			select {
			case <-limited.Done():
				// Its patience also ends when all is well.
				select {
				case <-headCame:
				default:
					cancel()
				}
			case <-headCame:
			}
		}()
		response, err := t.send(own, trip.at, q)
		if err != nil || response.StatusCode != http.StatusOK {
			defer cancel()
		}
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return whole(response)
		}
		stream = &openStream{ReadCloser: response.Body, cancel: cancel}
		return &answer{status: response.StatusCode}, nil
	})
	if err != nil {
		return nil, err
	}
	if stream == nil {
		return nil, failure(answer)
	}
	return stream, nil
}

// openStream is a stream whose connection ends with it.
type openStream struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (s *openStream) Close() error {
	s.cancel()
	return s.ReadCloser.Close()
}

// somewhere asks one URL after the other, as long as it is certain that nothing was done: no connection came about, or the
// server says that another one leads. Anything else is the answer; the next request may go elsewhere then.
func (t *transport) somewhere(ctx context.Context, q question, ask func(context.Context, *trip) (*answer, error)) (*answer, error) {
	if ctx == nil {
		return nil, errNoContext
	}
	trip := t.routes.begin()
	var tried []*UnreachableError
	var misfit *TLSError
	for {
		answer, err := t.inTime(ctx, q, trip, ask)
		var unreachable *UnreachableError
		switch {
		case err == nil && isNotLeader(answer):
			if !trip.goOnFromFollower(answer.leader) {
				return answer, nil
			}
		case err == nil:
			if isOfGateway(answer.status) {
				trip.failed()
			} else {
				trip.wasAnswered()
			}
			return answer, nil
		case errors.As(err, &unreachable):
			tried = append(tried, unreachable)
			if !trip.goOn() {
				if misfit != nil {
					// That a server is not there may change; this does not, so it is what to mend.
					return nil, misfit
				}
				return nil, allUnreachable(tried)
			}
		case errors.As(err, &misfit):
			if !trip.goOn() {
				return nil, err
			}
		default:
			if MayHaveTakenEffect(err) {
				trip.failed()
			}
			return nil, err
		}
	}
}

func (t *transport) inTime(ctx context.Context, q question, trip *trip, ask func(context.Context, *trip) (*answer, error)) (*answer, error) {
	patience := q.patience
	if patience == 0 {
		patience = t.settings.timeout + q.longer
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := ask(limited, trip)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		// Whoever asked does not want to know any more.
		return nil, ctx.Err()
	case limited.Err() != nil:
		var unreachable *UnreachableError
		if errors.As(err, &unreachable) {
			return nil, err
		}
		return nil, &BrokenError{Why: "nothing came within " + patience.String()}
	default:
		return nil, err
	}
}

// isOfGateway: what a gateway says whose server is not there. Another URL may be that of one whose server is.
func isOfGateway(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// allUnreachable names every server that was tried.
func allUnreachable(tried []*UnreachableError) error {
	last := *tried[len(tried)-1]
	for _, before := range tried[:len(tried)-1] {
		last.Others = append(last.Others, before.URL)
	}
	return &last
}

func (t *transport) send(ctx context.Context, base string, q question) (*http.Response, error) {
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return nil, invalid("cannot be sent as JSON: %v", err)
		}
		if len(text) > requestBytesMax {
			return nil, invalid("a request of %d bytes is too large: at most %d are sent", len(text), requestBytesMax)
		}
		body = bytes.NewReader(text)
	}
	var isConnected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { isConnected.Store(true) }}
	request, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), q.method, t.settings.address(base)+q.path, body)
	if err != nil {
		return nil, invalid("%v", err)
	}
	if q.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key := t.settings.apiKey(); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range q.headers {
		request.Header.Set(name, value)
	}
	response, err := t.http.Do(request)
	if err == nil {
		return response, nil
	}
	// What net/http says around the reason names the path, with the ids in it.
	var around *url.Error
	if errors.As(err, &around) {
		err = around.Err
	}
	if misfit := tlsMisfit(base, err); misfit != nil {
		return nil, misfit
	}
	if isConnected.Load() {
		return nil, &BrokenError{Why: err.Error()}
	}
	return nil, &UnreachableError{URL: base, Err: err}
}

// tlsAlert is how net/http shows what a server that speaks TLS says to whoever does not.
const tlsAlert = `malformed HTTP response "\x15\x03`

// tlsMisfit is why TLS and the settings do not fit each other, if that is the error.
func tlsMisfit(base string, err error) error {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var certificate x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &certificate):
		return &TLSError{URL: base, Why: "has a certificate that cannot be verified: " + err.Error() +
			". Is it signed by a certificate in CAFile (LEASEHOLD_CA_FILE)?"}
	case strings.Contains(err.Error(), tlsAlert):
		return &TLSError{URL: base, Why: "speaks TLS: use https (LEASEHOLD_URL)"}
	}
	return nil
}

func whole(response *http.Response) (*answer, error) {
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		return nil, &BrokenError{Why: err.Error()}
	}
	if len(body) > answerBytesMax {
		return nil, &BrokenError{Why: "the answer is too long"}
	}
	return &answer{status: response.StatusCode, body: body, leader: response.Header.Get("Leasehold-Leader")}, nil
}

func withAccept(headers map[string]string) map[string]string {
	all := map[string]string{"Accept": "text/event-stream"}
	for name, value := range headers {
		all[name] = value
	}
	return all
}

func isNotLeader(a *answer) bool {
	return a.status == http.StatusMisdirectedRequest && hasCode(failure(a), "NOT_LEADER")
}

// failure is what an answer says that is no 2xx.
func failure(a *answer) error {
	var said Failure
	if json.Unmarshal(a.body, &said) != nil || said.Code == "" || said.Error == "" {
		return foreign(a)
	}
	if said.Code == "NOT_LEADER" {
		said.Retryable = true
	}
	return &FailedError{Status: a.status, Failure: said}
}

// secrets are ids that prove something: an answer that is only nearly one of ours may have them.
var secrets = regexp.MustCompile(`("(?:lease_id|session_id)"\s*:\s*)"[^"]*"?`)

func foreign(a *answer) error {
	shown := secrets.ReplaceAll(a.body, []byte(`$1"..."`))
	if len(shown) > foreignBytesShown {
		shown = shown[:foreignBytesShown]
	}
	return &ForeignError{Status: a.status, Body: string(shown)}
}
