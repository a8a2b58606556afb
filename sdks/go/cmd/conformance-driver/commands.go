package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	leasehold "leasehold.example/go"
)

var commands = map[string]func(d *driver, ctx context.Context, c *command) (object, error){
	"hello":         hello,
	"connect":       connect,
	"acquire":       acquire,
	"acquire_all":   acquireAll,
	"check":         check,
	"release":       release,
	"cancel":        cancel,
	"session_open":  sessionOpen,
	"session_close": sessionClose,
	"write":         write,
	"watch":         watch,
	"campaign":      campaign,
	"leader":        leader,
}

// holding is a lease or several.
type holding interface {
	Check() error
	Held() bool
	Lost() <-chan struct{}
	Release(context.Context) error
}

func hello(*driver, context.Context, *command) (object, error) {
	return object{"sdk": "go", "version": leasehold.Version, "protocol": 1}, nil
}

func connect(d *driver, _ context.Context, c *command) (object, error) {
	client, err := leasehold.New(leasehold.Options{
		URLs: c.URLs, Owner: c.Owner, Namespace: c.Namespace, APIKey: c.APIKey, Timeout: millis(c.TimeoutMs),
	})
	if err != nil {
		return nil, err
	}
	d.keep("client", c.Client, client)
	return object{}, nil
}

func acquire(d *driver, ctx context.Context, c *command) (object, error) {
	lease, err := ask(d, ctx, c)
	if err != nil {
		return nil, err
	}
	d.keepLease(c.Lease, lease)
	return object{"fencing_token": lease.FencingToken()}, nil
}

func ask(d *driver, ctx context.Context, c *command) (*leasehold.Lease, error) {
	if c.Session != "" {
		session, err := kept[*leasehold.Session](d, "session", c.Session)
		if err != nil {
			return nil, err
		}
		return session.Lock(ctx, c.Lock, c.options()...)
	}
	client, err := kept[*leasehold.Client](d, "client", c.Client)
	if err != nil {
		return nil, err
	}
	return client.Lock(ctx, c.Lock, c.options()...)
}

// options that the command names.
func (c *command) options() []leasehold.Option {
	var options []leasehold.Option
	for _, time := range []struct {
		ms     *int64
		option func(time.Duration) leasehold.Option
	}{{c.TTLMs, leasehold.TTL}, {c.WaitMs, leasehold.Wait}, {c.MarginMs, leasehold.Margin}, {c.GraceMs, leasehold.Grace}} {
		if time.ms != nil {
			options = append(options, time.option(millis(*time.ms)))
		}
	}
	if c.Shared {
		options = append(options, leasehold.Shared())
	}
	if c.Limit != nil {
		options = append(options, leasehold.Limit(*c.Limit))
	}
	if c.Metadata != nil {
		options = append(options, leasehold.Metadata(c.Metadata))
	}
	return options
}

func acquireAll(d *driver, ctx context.Context, c *command) (object, error) {
	client, err := kept[*leasehold.Client](d, "client", c.Client)
	if err != nil {
		return nil, err
	}
	var locks []leasehold.Wanted
	for _, lock := range c.Locks {
		locks = append(locks, leasehold.Wanted{Name: lock.Lock, Shared: lock.Shared, Limit: lock.Limit})
	}
	set, err := client.Locks(ctx, locks, c.options()...)
	if err != nil {
		return nil, err
	}
	d.keepLease(c.Lease, set)
	var tokens []uint64
	for _, lock := range c.Locks {
		tokens = append(tokens, set.FencingToken(lock.Lock))
	}
	return object{"fencing_tokens": tokens}, nil
}

func (d *driver) keepLease(name string, lease holding) {
	d.keep("lease", name, lease)
	go d.tellLoss("lease", name, lease.Lost(), lease.Check)
}

func (d *driver) tellLoss(kind, name string, isLost <-chan struct{}, check func() error) {
	<-isLost
	reasons := map[leasehold.LostReason]string{
		leasehold.OutOfTime: "out_of_time", leasehold.Ended: "ended", leasehold.Released: "released",
	}
	var lost *leasehold.LostError
	if errors.As(check(), &lost) {
		d.say(object{"event": "lost", kind: name, "reason": reasons[lost.Reason]})
	}
}

func check(d *driver, _ context.Context, c *command) (object, error) {
	lease, err := kept[holding](d, "lease", c.Lease)
	if err != nil {
		return nil, err
	}
	return object{"held": lease.Held()}, nil
}

func release(d *driver, ctx context.Context, c *command) (object, error) {
	lease, err := kept[holding](d, "lease", c.Lease)
	if err != nil {
		return nil, err
	}
	return object{}, lease.Release(ctx)
}

func cancel(d *driver, _ context.Context, c *command) (object, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if cancel := d.waiting[c.Command]; cancel != nil {
		cancel()
	}
	return object{}, nil
}

func sessionOpen(d *driver, ctx context.Context, c *command) (object, error) {
	client, err := kept[*leasehold.Client](d, "client", c.Client)
	if err != nil {
		return nil, err
	}
	session, err := client.OpenSession(ctx, c.options()...)
	if err != nil {
		return nil, err
	}
	d.keep("session", c.Session, session)
	go d.tellLoss("session", c.Session, session.Lost(), session.Check)
	return object{}, nil
}

func sessionClose(d *driver, ctx context.Context, c *command) (object, error) {
	session, err := kept[*leasehold.Session](d, "session", c.Session)
	if err != nil {
		return nil, err
	}
	return object{}, session.Close(ctx)
}

func write(d *driver, _ context.Context, c *command) (object, error) {
	lease, err := kept[*leasehold.Lease](d, "lease", c.Lease)
	if err != nil {
		return nil, err
	}
	if c.Checked {
		if err := lease.Check(); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(object{"fencing_token": lease.FencingToken(), "value": c.Value})
	if err != nil {
		return nil, err
	}
	response, err := http.Post(c.URL, "application/json", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return object{"status": response.StatusCode}, response.Body.Close()
}

func watch(d *driver, ctx context.Context, c *command) (object, error) {
	client, err := kept[*leasehold.Client](d, "client", c.Client)
	if err != nil {
		return nil, err
	}
	events := client.Events(leasehold.EventsQuery{Prefix: c.Prefix})
	if err := events.Connect(ctx); err != nil {
		return nil, err
	}
	go d.tellEvents(c.Watch, events)
	return object{}, nil
}

func (d *driver) tellEvents(watch string, events *leasehold.Events) {
	for {
		told, err := events.Next(context.Background())
		switch {
		case err != nil:
			os.Stderr.WriteString("the watch ended: " + err.Error() + "\n")
			return
		case told.Stale || told.Current:
		case told.Gap != "":
			d.say(object{"event": "gap", "watch": watch, "why": told.Gap})
		default:
			d.say(object{"event": "happened", "watch": watch, "kind": told.Event.Kind, "lock": told.Event.LockName,
				"owner": told.Event.OwnerID, "fencing_token": told.Event.FencingToken, "id": told.ID})
		}
	}
}

func campaign(d *driver, ctx context.Context, c *command) (object, error) {
	client, err := kept[*leasehold.Client](d, "client", c.Client)
	if err != nil {
		return nil, err
	}
	lease, err := client.Election(c.Election, c.options()...).Campaign(ctx, c.Value)
	if err != nil {
		return nil, err
	}
	d.keepLease(c.Lease, lease)
	return object{"fencing_token": lease.FencingToken()}, nil
}

func leader(d *driver, ctx context.Context, c *command) (object, error) {
	client, err := kept[*leasehold.Client](d, "client", c.Client)
	if err != nil {
		return nil, err
	}
	leader, err := client.Election(c.Election).Leader(ctx)
	if err != nil || leader == nil {
		return object{"leader": nil}, err
	}
	return object{"leader": object{"owner": leader.Owner, "value": leader.Value, "fencing_token": leader.FencingToken}}, nil
}

// described is an error as the harness knows it.
func described(err error) object {
	said := object{"message": err.Error()}
	var notAcquired *leasehold.NotAcquiredError
	var failed *leasehold.FailedError
	switch {
	case errors.As(err, &notAcquired):
		said["name"], said["reason"] = "held", notAcquired.Refusal.Reason
		if notAcquired.Refusal.Reason == "WAIT_TIMEOUT" {
			said["name"] = "wait_timeout"
		}
	case errors.As(err, &failed):
		said["name"], said["code"] = "failed", failed.Failure.Code
		if failed.Failure.Code == "NO_SUCH_SESSION" {
			said["name"] = "session_over"
		}
	default:
		said["name"] = nameOf(err)
	}
	return said
}

func nameOf(err error) string {
	var notReleased *leasehold.NotReleasedError
	var lost *leasehold.LostError
	var unreachable *leasehold.UnreachableError
	var broken *leasehold.BrokenError
	var invalid *leasehold.InvalidError
	var known leasehold.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &notReleased):
		return "not_released"
	case errors.As(err, &lost):
		return "lost"
	case errors.As(err, &unreachable):
		return "unreachable"
	case errors.As(err, &broken):
		return "broken"
	case errors.As(err, &invalid):
		return "invalid"
	case errors.As(err, &known):
		return "failed"
	default:
		return "internal"
	}
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
