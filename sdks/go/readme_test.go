package leasehold

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The examples are programs of other modules, as their readers' are.
func TestTheExamplesOfTheDocumentsRun(t *testing.T) {
	server := startServer(t)
	here, err := filepath.Abs(".")
	must(t, err)
	examples := append(blocks(t, "README.md"), program(blocks(t, "../../docs/sdk.md")))
	want := []string{"writing with token 1\n", " leads: {\"url\":\"http://10.0.0.7:9000\"}\n", "working with token 1\n"}
	if len(examples) != len(want) {
		t.Fatal(len(examples))
	}
	for n, example := range examples {
		folder := t.TempDir()
		module := "module example\n\ngo 1.19\n\nrequire leasehold.example/go v0.0.0\n\nreplace leasehold.example/go => " + here + "\n"
		must(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(module), 0o600))
		must(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(example), 0o600))
		ctx, cancel := context.WithTimeout(background(t), time.Minute)
		defer cancel()
		run := exec.CommandContext(ctx, "go", "run", ".")
		run.Dir = folder
		run.Env = append(os.Environ(), "LEASEHOLD_URL="+server.url())
		output, err := run.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(output), want[n]) {
			t.Errorf("example %d: %v\n%s", n, err, output)
		}
	}
}

// blocks of Go on a page.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	var found []string
	for _, block := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(text, -1) {
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
