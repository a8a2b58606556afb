package leasehold

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func environment(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestURLsComeFromTheOptionsTheEnvironmentOrTheDefault(t *testing.T) {
	variable := map[string]string{"LEASEHOLD_URL": "http://a:1, http://B:80/base/"}
	for _, c := range []struct {
		options     Options
		environment map[string]string
		want        []string
	}{
		{Options{}, nil, []string{"http://127.0.0.1:8080"}},
		{Options{}, variable, []string{"http://a:1", "http://b/base"}},
		{Options{URLs: []string{"http://c", "https://d:443"}}, variable, []string{"http://c", "https://d"}},
	} {
		settings, err := c.options.settings(environment(c.environment))
		if err != nil || !reflect.DeepEqual(settings.urls, c.want) {
			t.Errorf("%v, %v, want %v", settings, err, c.want)
		}
	}
}

func TestWhatIsNoURLOfAServerIsRefused(t *testing.T) {
	for _, url := range []string{"a", "://", "unix:", "unix://", "ftp://a", "http://", "http://a?x=1", "http://a#x", "http://ann:secret@a"} {
		_, err := Options{URLs: []string{url}}.settings(environment(nil))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestTheAPIKeyComesFromTheOptionAFileOrTheEnvironmentInThisOrder(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	given, other, empty := file("given", "from-file\n"), file("other", "from-variable-file\n"), file("empty", "\n")
	both := map[string]string{"LEASEHOLD_API_KEY": "from-variable", "LEASEHOLD_API_KEY_FILE": other}
	for _, c := range []struct {
		options     Options
		environment map[string]string
		want        string
	}{
		{Options{APIKey: "from-option", APIKeyFile: given}, both, "from-option"},
		{Options{APIKeyFile: given}, both, "from-file"},
		{Options{}, both, "from-variable-file"},
		{Options{}, map[string]string{"LEASEHOLD_API_KEY": "from-variable"}, "from-variable"},
		{Options{}, nil, ""},
	} {
		settings, err := c.options.settings(environment(c.environment))
		if err != nil || settings.apiKey() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	for _, options := range []Options{{APIKey: "sec\nret"}, {APIKeyFile: empty}, {APIKeyFile: folder}, {ClientCertFile: "a"}, {CAFile: empty}} {
		options.URLs = []string{"https://a"}
		if _, err := options.settings(environment(nil)); err == nil || strings.Contains(err.Error(), "sec\nret") {
			t.Errorf("%v", err)
		}
	}
}

func TestAKeyIsNotSentOverPlainHTTPToAnotherMachine(t *testing.T) {
	for _, url := range []string{"http://example.org", "http://10.0.0.1:80", "http://127.0.0.1.example.org", "http://[::2]"} {
		options := Options{URLs: []string{"http://127.0.0.1:1", url}, APIKey: "secret"}
		if _, err := options.settings(environment(nil)); err == nil || !strings.Contains(err.Error(), "unencrypted") {
			t.Errorf("%s: %v", url, err)
		}
		options.Insecure = true
		if _, err := options.settings(environment(nil)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"https://example.org", "http://localhost:1", "http://a.localhost", "http://127.9.9.9", "http://[::1]:1"} {
		if _, err := (Options{URLs: []string{url}, APIKey: "secret"}).settings(environment(nil)); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestNothingThatPrintsAClientShowsItsKey(t *testing.T) {
	options := Options{URLs: []string{"http://127.0.0.1:1"}, APIKey: "very-secret"}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		for _, printed := range []any{client, *client, options, &options, client.calls, *client.calls.transport.settings} {
			if said := fmt.Sprintf(verb, printed); strings.Contains(said, "very-secret") || strings.Contains(said, fmt.Sprintf("%x", "very-secret")) {
				t.Errorf("%s of %T: %s", verb, printed, said)
			}
		}
	}
}
