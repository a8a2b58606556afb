package leasehold

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stub answers as it is told, and keeps what it was asked.
type stub struct {
	*httptest.Server
	mutex    sync.Mutex
	requests []*http.Request
	ids      []string
}

func newStub(t *testing.T, answer http.HandlerFunc) *stub {
	s := &stub{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RequestID string `json:"request_id"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body)
		s.mutex.Lock()
		s.requests, s.ids = append(s.requests, r), append(s.ids, body.RequestID)
		s.mutex.Unlock()
		answer(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *stub) n() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.requests)
}

func good(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"lock_name":"a","held":false,"last_token":0}`))
}

func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func refusing(status int, code string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for n := 0; n < len(header); n += 2 {
			w.Header().Set(header[n], header[n+1])
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(Failure{Error: "no", Code: code, Retryable: status == 503})
	}
}

func clientOf(t *testing.T, urls ...string) *Client {
	t.Helper()
	client, err := New(Options{URLs: urls, APIKey: "key", Timeout: 5 * time.Second})
	must(t, err)
	return client
}

func TestWhereNoConnectionComesAboutTheNextURLIsAskedAtOnce(t *testing.T) {
	second := newStub(t, good)
	client := clientOf(t, "http://127.0.0.1:1", second.URL)
	look(t, client, "a")
	look(t, client, "a")
	if second.n() != 2 {
		t.Fatal(second.n())
	}
	_, err := clientOf(t, "http://127.0.0.1:1", "http://127.0.0.1:2").Look(background(t), "a")
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !Retryable(err) || MayHaveTakenEffect(err) || !strings.Contains(err.Error(), "connection refused, nor to http://127.0.0.1:1. Is the server running?") {
		t.Fatal(err)
	}
}

func TestAfterA503OrSilenceTheNextTryGoesToAnotherURLUnderTheSameRequestID(t *testing.T) {
	for _, answer := range []http.HandlerFunc{refusing(503, "OVERLOADED"), silent} {
		first, second := newStub(t, answer), newStub(t, refusing(409, "LIMIT_DIFFERS"))
		_, err := clientOf(t, first.URL, second.URL).Lock(background(t), "a")
		if !hasCode(err, "LIMIT_DIFFERS") || first.n() != 1 || second.n() != 1 || first.ids[0] != second.ids[0] || first.ids[0] == "" {
			t.Fatal(err, first.ids, second.ids)
		}
	}
}

func TestA421IsFollowedToAConfiguredLeaderOnly(t *testing.T) {
	leader, other := newStub(t, good), newStub(t, refusing(421, "NOT_LEADER"))
	follower := newStub(t, refusing(421, "NOT_LEADER", "Leasehold-Leader", leader.URL+"/"))
	look(t, clientOf(t, follower.URL, other.URL, leader.URL), "a")
	if follower.n() != 1 || other.n() != 0 || leader.n() != 1 {
		t.Fatal(follower.n(), other.n(), leader.n())
	}
	_, err := clientOf(t, follower.URL).Look(background(t), "a")
	if !hasCode(err, "NOT_LEADER") || !Retryable(err) || leader.n() != 1 {
		t.Fatal(err, leader.n())
	}
	_, err = clientOf(t, newStub(t, refusing(421, "HOST_NOT_ALLOWED")).URL, leader.URL).Look(background(t), "a")
	if !hasCode(err, "HOST_NOT_ALLOWED") || Retryable(err) {
		t.Fatal(err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	stranger := newStub(t, good)
	server := newStub(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, stranger.URL, http.StatusTemporaryRedirect)
	})
	_, err := clientOf(t, server.URL).Look(background(t), "a")
	var foreign *ForeignError
	if !errors.As(err, &foreign) || foreign.Status != 307 || stranger.n() != 0 {
		t.Fatal(err, stranger.n())
	}
	if key := server.requests[0].Header.Get("Authorization"); key != "Bearer key" {
		t.Fatal(key)
	}
}

func TestAnAnswerThatIsNoneOfOursOrBreaksOffIsTold(t *testing.T) {
	proxy := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(502)
		_, _ = w.Write([]byte(strings.Repeat("x", 999)))
	})
	_, err := clientOf(t, proxy.URL).Look(background(t), "a")
	var foreign *ForeignError
	if !errors.As(err, &foreign) || len(foreign.Body) != 200 || !Retryable(err) {
		t.Fatal(err)
	}
	breaking := newStub(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = w.Write([]byte("{"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	_, err = clientOf(t, breaking.URL).Revoke(background(t), "a", "test")
	if !MayHaveTakenEffect(err) || breaking.n() != 1 {
		t.Fatal(err, breaking.n())
	}
}

func TestTLS(t *testing.T) {
	certFile, keyFile := certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	must(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "nobody"
		if len(r.TLS.PeerCertificates) > 0 {
			name = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		_ = json.NewEncoder(w).Encode(LockState{LockName: name})
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	known := func(options Options) (string, error) {
		options.URLs = []string{server.URL}
		client, err := New(options)
		must(t, err)
		state, err := client.Look(background(t), "a")
		if err != nil {
			return "", err
		}
		return state.LockName, nil
	}
	if name, err := known(Options{CAFile: certFile}); name != "nobody" {
		t.Fatal(name, err)
	}
	if name, err := known(Options{CAFile: certFile, ClientCertFile: certFile, ClientKeyFile: keyFile, APIKey: "key"}); name != "test" {
		t.Fatal(name, err)
	}
	_, err = known(Options{})
	wantTLSError(t, err, "LEASEHOLD_CA_FILE")
	other := newLink(t, startServer(t).url)
	both, err := New(Options{URLs: []string{server.URL, other.http.URL}})
	must(t, err)
	// One server's certificate does not keep others from answering.
	look(t, both, "a")
	both, err = New(Options{URLs: []string{server.URL, "http://127.0.0.1:1"}})
	must(t, err)
	_, err = both.Lock(background(t), "a")
	wantTLSError(t, err, "LEASEHOLD_CA_FILE")
}

func wantTLSError(t *testing.T, err error, hint string) {
	t.Helper()
	var misfit *TLSError
	if !errors.As(err, &misfit) || Retryable(err) || MayHaveTakenEffect(err) || !strings.Contains(err.Error(), hint) {
		t.Fatal(err)
	}
}

func TestAServerThatSpeaksTLSKnowsAClientByItsCertificate(t *testing.T) {
	certFile, keyFile := certificate(t)
	authFile := filepath.Join(filepath.Dir(certFile), "auth.toml")
	rule := "[[rule]]\nname = \"web\"\nwho = [\"mtls:web-1\"]\nmay = [\"acquire\"]\nnamespaces = [\"*\"]\n"
	mtls := "version = 1\n[mtls]\nca-file = \"cert.pem\"\nprincipal = \"dns\"\n"
	must(t, os.WriteFile(authFile, []byte(mtls+rule), 0o600))
	server := startServerBy(t, "https", "--tls-cert-file", certFile, "--tls-key-file", keyFile, "--auth-file", authFile)
	known := server.client(Options{CAFile: certFile, ClientCertFile: certFile, ClientKeyFile: keyFile})
	lease, err := known.Lock(background(t), "a")
	must(t, err)
	if state := look(t, known, "a"); state.Principal == nil || *state.Principal != "mtls:web-1" {
		t.Fatal(state.Principal)
	}
	must(t, lease.Release(background(t)))
	_, err = server.client(Options{CAFile: certFile}).Look(background(t), "a")
	if !hasCode(err, "UNAUTHENTICATED") {
		t.Fatal(err)
	}
	t.Setenv("LEASEHOLD_CA_FILE", certFile)
	if _, err = server.client(Options{}).Look(background(t), "a"); !hasCode(err, "UNAUTHENTICATED") {
		t.Fatal("the environment names the CA", err)
	}
	t.Setenv("LEASEHOLD_CA_FILE", "")
	// If one of these were tried again, it would be after half a minute.
	retry := DefaultRetry
	retry.PauseMin, retry.PauseMax, retry.TotalMax = time.Minute, time.Minute, time.Hour
	begunAt := time.Now()
	_, err = server.client(Options{}).Lock(background(t), "a", WithRetry(retry))
	wantTLSError(t, err, "LEASEHOLD_CA_FILE")
	plain := strings.Replace(server.url(), "https", "http", 1)
	_, err = server.client(Options{URLs: []string{plain}}).Lock(background(t), "a", WithRetry(retry))
	wantTLSError(t, err, "speaks TLS: use https")
	if took := time.Since(begunAt); took > 30*time.Second {
		t.Fatal("tried again", took)
	}
}

func TestAUnixSocket(t *testing.T) {
	url := "unix:" + filepath.Join(t.TempDir(), "a.sock")
	startServerBy(t, "http", "--listen", url)
	client := clientOf(t, "http://127.0.0.1:1", url)
	lease, err := client.Lock(background(t), "a")
	must(t, err)
	if !look(t, client, "a").Held {
		t.Fatal("not held")
	}
	must(t, lease.Release(background(t)))
	var unreachable *UnreachableError
	if _, err := clientOf(t, url+"x").Look(background(t), "a"); !errors.As(err, &unreachable) {
		t.Fatal(err)
	}
}

// certificate is one for 127.0.0.1 that is good for servers, clients and as its own authority.
func certificate(t *testing.T) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"web-1"}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}

// A 2xx that is none of ours grants nothing and renews nothing.
func TestWhatIsNoAnswerGrantsNothing(t *testing.T) {
	lease := map[string]any{
		"acquired": true, "lock_name": "a", "owner_id": "me", "lease_id": "1.a", "fencing_token": 1, "expires_after_send_ms": 9000,
	}
	without := func(name string, instead ...any) string {
		other := map[string]any{}
		for known, value := range lease {
			other[known] = value
		}
		delete(other, name)
		for _, value := range instead {
			other[name] = value
		}
		text, err := json.Marshal(other)
		must(t, err)
		return string(text)
	}
	odd := []string{"", "<html>", strings.Repeat("[", 100_000), "null", "[]", "{}", "7",
		without("expires_after_send_ms", "soon"), without("expires_after_send_ms", -1), without("fencing_token", "1"), without("lease_id", 5)}
	for name := range lease {
		if name != "acquired" {
			odd = append(odd, without(name))
		}
	}
	var said atomic.Value
	s := newStub(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, said.Load().(string)) })
	client, err := New(Options{URLs: []string{s.URL}})
	must(t, err)
	var foreign *ForeignError
	for _, text := range odd {
		said.Store(text)
		if _, err := client.Lock(background(t), "a"); !errors.As(err, &foreign) {
			t.Errorf("%.80q: %v", text, err)
		}
		if _, err := client.Locks(background(t), []Wanted{{Name: "a"}, {Name: "b"}}); !errors.As(err, &foreign) {
			t.Errorf("%.80q of several: %v", text, err)
		}
	}
	said.Store("{}")
	if _, err := client.OpenSession(background(t)); !errors.As(err, &foreign) {
		t.Error(err)
	}
	said.Store(without("expires_after_send_ms", 1000))
	held, err := client.Lock(background(t), "a", TTL(time.Second))
	must(t, err)
	said.Store("{}")
	<-held.Context().Done()
	var lost *LostError
	if !errors.As(held.Check(), &lost) || lost.Reason != OutOfTime {
		t.Error(held.Check())
	}
}

func TestAnAnswerThatIsNoneOfOursIsShownWithoutSecrets(t *testing.T) {
	err := foreign(&answer{status: 200, body: []byte(`{"lease_id": "1.secret", "session_id":"secret`)})
	if text := err.Error(); strings.Contains(text, "secret") || !strings.Contains(text, `"lease_id": "..."`) {
		t.Fatal(text)
	}
}
