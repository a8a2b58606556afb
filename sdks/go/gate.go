package leasehold

import (
	"fmt"
	"sync"
)

// Gate is the other side of a fencing token: it lets a write through only if no newer token was seen for the same
// resource. The comparison and the write are one step.
//
// This gate forgets with its process. What outlives the process needs a gate that does too: keep the token in the same
// database as the data, and compare it in the same transaction. The zero value is ready to use.
type Gate struct {
	mutex     sync.Mutex
	resources map[string]*resource
}

type resource struct {
	writer sync.Mutex
	newest uint64
}

// StaleError: a newer token was seen. Whoever sent this one has lost its lock.
type StaleError struct {
	Token, Newest uint64
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("fencing token %d is stale: %d was seen already", e.Token, e.Newest)
}

// Write runs write if the token is not older than the newest seen for the resource, which it then is. Writes to one
// resource go one after the other; others are not held up.
func (g *Gate) Write(name string, token uint64, write func() error) error {
	resource := g.resource(name)
	resource.writer.Lock()
	defer resource.writer.Unlock()
	if token < resource.newest {
		return &StaleError{Token: token, Newest: resource.newest}
	}
	resource.newest = token
	return write()
}

func (g *Gate) resource(name string) *resource {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.resources == nil {
		g.resources = map[string]*resource{}
	}
	if g.resources[name] == nil {
		g.resources[name] = &resource{}
	}
	return g.resources[name]
}
