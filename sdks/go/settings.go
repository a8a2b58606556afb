package leasehold

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// Options say where the server is and who we are. What is left out comes from the environment, or has a default.
type Options struct {
	// URLs (https://, http:// or unix:/path) of one server, or of several that stand in for each other; each text may have
	// several, with commas in between. Default: LEASEHOLD_URL, or http://127.0.0.1:8080.
	URLs []string
	// Direct asks a server that does not lead to say who does, and goes there, instead of letting it pass requests on. Where
	// the leader is at none of the URLs, it is asked to pass them on all the same. Default: DirectIfSeveral.
	Direct Direct
	// FollowAnyLeader goes to a leader whose URL was not given, too. Then whoever answers at one of the URLs decides where
	// requests, with the ids of leases in them, are sent; so it is refused together with an API key or a certificate. It does
	// not lead from https to http.
	FollowAnyLeader bool
	// Namespace of every lock. Default: LEASEHOLD_NAMESPACE, or the server's default.
	Namespace string
	// Owner of every lock. Default: host, process and random digits, so that no two clients are one owner.
	Owner string
	// APIKey is sent as "Authorization: Bearer" with every request. Default: LEASEHOLD_API_KEY.
	APIKey string
	// APIKeyFile has the API key. It takes precedence over the environment. Default: LEASEHOLD_API_KEY_FILE.
	APIKeyFile string
	// Insecure sends the API key over plain http to another machine too. Everybody in between can read it.
	Insecure bool
	// CAFile has the certificates to trust, in PEM. Default: LEASEHOLD_CA_FILE, or those that the system trusts.
	CAFile string
	// ClientCertFile and ClientKeyFile have the client's certificate and its key, in PEM. Default:
	// LEASEHOLD_CLIENT_CERT_FILE and LEASEHOLD_CLIENT_KEY_FILE.
	ClientCertFile, ClientKeyFile string
	// Timeout is how long an answer may take, beyond what was asked to be waited. Default: 6 s, longer than a follower holds
	// a request.
	Timeout time.Duration
	// ConnectTimeout is how long a connection may take. Default: 3 s.
	ConnectTimeout time.Duration
	// Logf is told what happens in the background: a renewal that failed, a lease that was lost, a TTL that is shorter than a
	// fail-over of the cluster. Never a secret. Default: log.Printf.
	Logf func(format string, args ...any)

	clock clock
}

// Direct is whether servers that do not lead are asked who does.
type Direct int

const (
	// DirectIfSeveral: yes if several URLs are given, or any leader is followed.
	DirectIfSeveral Direct = iota
	// DirectAlways: yes.
	DirectAlways
	// DirectNever: no, they pass requests on.
	DirectNever
)

const (
	urlDefault = "http://127.0.0.1:8080"
	// A server that follows may hold a request for 5 s before it says that nobody leads.
	timeoutDefault = 6 * time.Second
)

// settings are where to send requests, and with what.
type settings struct {
	// Each without a slash at its end. There is at least one.
	urls       []string
	isDirect   bool
	followsAny bool
	// A function, because fmt shows what is in a struct, but not what a function returns.
	apiKey         func() string
	tls            *tls.Config
	timeout        time.Duration
	connectTimeout time.Duration
}

// settings are the options, if they make sense.
func (o Options) settings(getenv func(string) string) (*settings, error) {
	urls, err := o.urls(getenv)
	if err != nil {
		return nil, err
	}
	apiKey, err := o.apiKey(getenv)
	if err != nil {
		return nil, err
	}
	if apiKey != "" && !o.Insecure {
		for _, url := range urls {
			if err := refusePlainHTTP(url); err != nil {
				return nil, err
			}
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if strings.Contains(strings.Join(urls, " "), "https://") {
		if err := o.readTLS(getenv, config); err != nil {
			return nil, err
		}
	}
	if o.FollowAnyLeader && (apiKey != "" || o.ClientCertFile != "" || getenv("LEASEHOLD_CLIENT_CERT_FILE") != "") {
		return nil, invalid("an API key and a client certificate are sent only to servers whose URLs are given: give all of them instead of setting FollowAnyLeader")
	}
	isDirect := o.Direct == DirectAlways || o.Direct == DirectIfSeveral && (len(urls) > 1 || o.FollowAnyLeader)
	s := &settings{urls: urls, isDirect: isDirect, followsAny: o.FollowAnyLeader, apiKey: func() string { return apiKey }, tls: config, timeout: timeoutDefault, connectTimeout: 3 * time.Second}
	if o.Timeout > 0 {
		s.timeout = o.Timeout
	}
	if o.ConnectTimeout > 0 {
		s.connectTimeout = o.ConnectTimeout
	}
	return s, nil
}

func (o Options) urls(getenv func(string) string) ([]string, error) {
	given := o.URLs
	if variable := getenv("LEASEHOLD_URL"); len(given) == 0 && variable != "" {
		given = []string{variable}
	}
	if len(given) == 0 {
		given = []string{urlDefault}
	}
	var urls []string
	known := map[string]bool{}
	for _, text := range strings.Split(strings.Join(given, ","), ",") {
		url, err := checkedURL(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		place := url
		if path, isUnix := unixPath(url); isUnix {
			place = path
		}
		if known[place] {
			return nil, invalid("%q is given twice", strings.TrimSpace(text))
		}
		known[place] = true
		urls = append(urls, url)
	}
	return urls, nil
}

func checkedURL(text string) (string, error) {
	if text == "" {
		return "", invalid("a URL is empty: several are written with one comma in between, http://a,http://b")
	}
	if path, isUnix := unixPath(text); isUnix {
		if path == "" {
			return "", invalid("%q has no path: write unix:/run/leasehold.sock", text)
		}
		return text, nil
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || parsed.Host == "" && parsed.Scheme == "":
		return "", invalid("a URL cannot be read: it must begin with http://, https:// or unix:")
	case parsed.User != nil:
		// A password in a URL ends up in messages; so the URL is not shown here either.
		return "", invalid("a URL must have no user and no password: use APIKey")
	case parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		return "", invalid("%q must begin with http://, https:// or unix:", text)
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return "", invalid("%q must have no query and no fragment", text)
	}
	return normalURL(parsed), nil
}

// unixPath is the path of a Unix socket, if it is one: unix:/run/a.sock, or unix:///run/a.sock.
func unixPath(url string) (string, bool) {
	path := strings.TrimPrefix(url, "unix:")
	return strings.TrimPrefix(path, "//"), path != url
}

// normalURL is the same text for the same place.
func normalURL(u *url.URL) string {
	host := strings.ToLower(u.Host)
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")
}

var sendableKey = regexp.MustCompile(`^[\x21-\x7e]+$`)

func (o Options) apiKey(getenv func(string) string) (string, error) {
	key, file := o.APIKey, o.APIKeyFile
	if key == "" && file == "" {
		file = getenv("LEASEHOLD_API_KEY_FILE")
	}
	if key == "" && file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", invalid("cannot read the API key: %v", err)
		}
		if key = strings.TrimSpace(string(text)); key == "" {
			return "", invalid("%s has no API key in it", file)
		}
	}
	if key == "" {
		key = getenv("LEASEHOLD_API_KEY")
	}
	if key != "" && !sendableKey.MatchString(key) {
		return "", invalid("the API key cannot be sent in a header")
	}
	return key, nil
}

func refusePlainHTTP(text string) error {
	if _, isUnix := unixPath(text); isUnix {
		return nil
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "http" && !isLoopback(parsed.Hostname()) {
		return invalid("the API key would be sent unencrypted to %s: use https, or set Insecure", text)
	}
	return nil
}

func isLoopback(host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// readTLS reads whom to trust and what to show.
func (o Options) readTLS(getenv func(string) string, config *tls.Config) error {
	given := func(file, name string) string {
		if file == "" {
			return getenv(name)
		}
		return file
	}
	certFile := given(o.ClientCertFile, "LEASEHOLD_CLIENT_CERT_FILE")
	keyFile := given(o.ClientKeyFile, "LEASEHOLD_CLIENT_KEY_FILE")
	if (certFile == "") != (keyFile == "") {
		return invalid("ClientCertFile and ClientKeyFile must be given together")
	}
	if certFile != "" {
		certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return invalid("cannot read the client's certificate: %v", err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	if caFile := given(o.CAFile, "LEASEHOLD_CA_FILE"); caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return invalid("cannot read CAFile (LEASEHOLD_CA_FILE): %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return invalid("CAFile %s has no certificate in it that can be read: it must be PEM (LEASEHOLD_CA_FILE)", caFile)
		}
	}
	return nil
}
