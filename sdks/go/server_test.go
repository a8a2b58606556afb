package leasehold

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for anything. Only what hangs takes that long, however busy the machine is.
const patience = 120 * time.Second

// until waits for a condition, never for longer than the patience.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for giveUpAt := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(giveUpAt) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// background is a context that ends with the test's patience.
func background(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a real server, on a port and in a folder of its own.
type server struct {
	t       *testing.T
	folder  string
	scheme  string
	port    string
	options []string
	process *exec.Cmd
}

func startServer(t *testing.T) *server { return startServerBy(t, "http") }

// startServerBy has one that speaks http or https, with these options.
func startServerBy(t *testing.T, scheme string, options ...string) *server {
	s := &server{t: t, folder: t.TempDir(), scheme: scheme, port: freePort(), options: options}
	t.Cleanup(s.kill)
	s.start()
	return s
}

// freePort is below the ports that the system gives to connections and to those who listen on any port, so that none of
// these takes it while the server is restarted.
func freePort() string {
	for {
		port := strconv.FormatInt(10_000+time.Now().UnixNano()%22_000, 10)
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = listener.Close()
			return port
		}
	}
}

// start it, on the port it had before.
func (s *server) start() {
	s.t.Helper()
	binary := os.Getenv("LEASEHOLD_BIN")
	if binary == "" {
		s.t.Fatal("LEASEHOLD_BIN must name the server's binary")
	}
	portFile := filepath.Join(s.folder, "port")
	_ = os.Remove(portFile)
	options := append([]string{"serve", "--listen", s.url(), "--port-file", portFile,
		"--data", filepath.Join(s.folder, "data"), "--log", "error"}, s.options...)
	s.process = exec.Command(binary, options...)
	must(s.t, s.process.Start())
	until(s.t, "the server listens", func() bool {
		text, err := os.ReadFile(portFile)
		return err == nil && strings.TrimSpace(string(text)) != ""
	})
}

// kill it without a warning, as kill -9 does.
func (s *server) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *server) url() string { return s.scheme + "://127.0.0.1:" + s.port }

func (s *server) client(options Options) *Client {
	s.t.Helper()
	if options.URLs == nil {
		options.URLs = []string{s.url()}
	}
	client, err := New(options)
	must(s.t, err)
	return client
}

func look(t *testing.T, client *Client, lock string) *LockState {
	t.Helper()
	state, err := client.Look(background(t), lock)
	must(t, err)
	return state
}

func nWaiting(t *testing.T, client *Client, lock string) uint64 {
	t.Helper()
	if state := look(t, client, lock); state.NWaiting != nil {
		return *state.NWaiting
	}
	return 0
}

// reasonOf waits for the loss.
func reasonOf(t *testing.T, holding *Holding) LostReason {
	t.Helper()
	select {
	case <-holding.Lost():
	case <-time.After(patience):
		t.Fatal("the loss is not told")
	}
	until(t, "the context is cancelled", func() bool { return holding.Context().Err() != nil })
	return holding.tenure.check().Reason
}
