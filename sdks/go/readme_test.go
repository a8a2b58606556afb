package leasehold

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The examples are programs of other modules, as their readers' are.
func TestTheExamplesOfTheDocumentsRun(t *testing.T) {
	server := startServer(t)
	shared := append(blocks(t, "../../docs/reference/sdk.md", "go"), snippet(t, server))
	examples := append(blocks(t, "README.md", "go"), blocks(t, "../../docs/reference/sdk-go.md", "go")...)
	examples = append(examples, program(shared))
	want := []string{
		"writing with token 1\n", " leads: {\"url\":\"http://10.0.0.7:9000\"}\n", strings.Repeat("working with token 1\n", len(shared)),
	}
	if len(examples) != len(want) {
		t.Fatal(len(examples))
	}
	for n, example := range examples {
		folder := t.TempDir()
		must(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example\n\ngo 1.19\n"), 0o600))
		must(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(example), 0o600))
		use(t, folder)
		output, err := in(t, folder, "LEASEHOLD_URL="+server.url(), "go", "run", "-mod=vendor", ".")
		if err != nil || !strings.HasSuffix(output, want[n]) {
			t.Errorf("example %d: %v\n%s", n, err, output)
		}
	}
}

// use this module in another one, as the README says.
func use(t *testing.T, folder string) {
	t.Helper()
	here, err := filepath.Abs("../..")
	must(t, err)
	commands := blocks(t, "README.md", "sh")
	if len(commands) != 1 || !strings.Contains(commands[0], "@v"+Version+" ") {
		t.Fatalf("the README says how to use version %s: %q", Version, commands)
	}
	if output, err := in(t, folder, "LEASEHOLD="+here, "sh", "-ec", commands[0]); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if _, err := os.Stat(filepath.Join(folder, "vendor/leasehold.example/go/lease.go")); err != nil {
		t.Fatal(err)
	}
}

// in a folder and with this in its environment, runs a command.
func in(t *testing.T, folder, variable string, command ...string) (string, error) {
	// Without a limit, because some of these compile: the whole test run has one.
	run := exec.Command(command[0], command[1:]...)
	run.Dir = folder
	run.Env = append(os.Environ(), variable)
	output, err := run.CombinedOutput()
	return string(output), err
}

// snippet that the console shows of a lock with a name that has to be quoted.
func snippet(t *testing.T, server *server) string {
	t.Helper()
	query := url.Values{"name": {"a'b\"c\\d $x `y` \u202e\U000e0001 ü/1"}, "namespace": {"shop"}}
	answer, err := http.Get(server.url() + "/console/take?" + query.Encode())
	must(t, err)
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	must(t, err)
	found := regexp.MustCompile(`(?s)aria-label="Example for Go">(.*?)</pre>`).FindSubmatch(page)
	if found == nil {
		t.Fatalf("no example for Go: %d %s", answer.StatusCode, page)
	}
	return html.UnescapeString(string(found[1])) + "\n"
}

// blocks of a language on a page.
func blocks(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		found = append(found, string(block[1]))
	}
	return found
}

// program around the bodies of functions that a page shows, one after the other.
func program(bodies []string) string {
	text := `package main

import (
	"context"
	"fmt"
	"log"
	"time"

	leasehold "leasehold.example/go"
)

func work(ctx context.Context, fencingToken uint64) error {
	fmt.Println("working with token", fencingToken)
	return ctx.Err()
}

func main() {
	ctx := context.Background()
	client, err := leasehold.New(leasehold.Options{})
	if err != nil {
		log.Fatal(err)
	}
`
	for _, body := range bodies {
		text += "\tif err := func() error {\n" + body + "\t}(); err != nil {\n\t\tlog.Fatal(err)\n\t}\n"
	}
	return text + "\t_ = time.Second\n}\n"
}
