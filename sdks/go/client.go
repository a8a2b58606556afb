package leasehold

import (
	"fmt"
	"log"
	"os"
)

// Client is a client of one server, or of several that stand in for each other. It may be used by many goroutines.
type Client struct {
	owner string
	clock clock
	calls *calls
	logf  func(format string, args ...any)
}

// New is a client with these options. Nothing is sent yet.
func New(options Options) (*Client, error) {
	settings, err := options.settings(os.Getenv)
	if err != nil {
		return nil, err
	}
	client := &Client{owner: options.Owner, clock: options.clock, logf: options.Logf}
	if client.owner == "" {
		client.owner = newOwner()
	}
	if client.clock == nil {
		client.clock = machineClock{}
	}
	if client.logf == nil {
		client.logf = log.Printf
	}
	namespace := options.Namespace
	if namespace == "" {
		namespace = os.Getenv("LEASEHOLD_NAMESPACE")
	}
	client.calls = &calls{transport: newTransport(settings), namespace: namespace}
	return client, nil
}

// Owner of its locks unless another is named: different for each client.
func (c *Client) Owner() string { return c.owner }

// Close closes idle connections. They also close by themselves.
func (c *Client) Close() { c.calls.transport.http.CloseIdleConnections() }

// Format prints a client without its secrets, whatever the verb.
func (c *Client) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "leasehold.Client{owner: %q, urls: %q}", c.owner, c.calls.transport.settings.urls)
}

// Format prints options without their secrets, whatever the verb.
func (o Options) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "leasehold.Options{URLs: %q, Namespace: %q, Owner: %q}", o.URLs, o.Namespace, o.Owner)
}
