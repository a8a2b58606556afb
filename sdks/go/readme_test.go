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

// The examples of the README are programs of other modules, as their readers' are.
func TestTheExamplesOfTheREADMERun(t *testing.T) {
	server := startServer(t)
	here, err := filepath.Abs(".")
	must(t, err)
	readme, err := os.ReadFile("README.md")
	must(t, err)
	examples := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllSubmatch(readme, -1)
	if len(examples) != 2 {
		t.Fatal(len(examples))
	}
	want := []string{"writing with token 1\n", " leads: {\"url\":\"http://10.0.0.7:9000\"}\n"}
	for n, example := range examples {
		folder := t.TempDir()
		module := "module example\n\ngo 1.19\n\nrequire leasehold.example/go v0.0.0\n\nreplace leasehold.example/go => " + here + "\n"
		must(t, os.WriteFile(filepath.Join(folder, "go.mod"), []byte(module), 0o600))
		must(t, os.WriteFile(filepath.Join(folder, "main.go"), example[1], 0o600))
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
