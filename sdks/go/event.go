package leasehold

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"time"
)

// silenceMax: the server says something at least every 15 s, if only a comment.
const silenceMax = 45 * time.Second

// Told is something a watcher is told: an event, or a gap.
type Told struct {
	// ID of the event: where to go on, see EventsQuery.
	ID    string
	Event Event
	// Gap, if not empty: something happened that this watcher will not be told, and why. There is no event then. Look at
	// the locks you care about, and go on.
	Gap string
	// Stale: the server cannot reach its store, so events can be late from here on; none is missing. Gap says so in words,
	// for code that knows only events and gaps.
	Stale bool
	// Current: the server reaches its store again, and what was late has been told or follows at once. Gap says so in words.
	Current bool
}

// EventsQuery is which events to tell. What is empty does not count.
type EventsQuery struct {
	// Prefix: only of locks whose name begins with this.
	Prefix string
	// Lock: only of this lock.
	Lock string
	// Since: go on after the event with this id instead of beginning now.
	Since string
}

// Events are what happens to locks, as it happens, over broken connections and restarts of the server. Whenever it cannot
// be sure to have told everything, it says so by a gap; while its server is cut off from the store, by [Told].Stale. It is for one goroutine at a time.
type Events struct {
	client *Client
	query  url.Values
	// Ends what is open.
	done   context.Context
	cancel context.CancelFunc

	lastID       string
	pieces       chan piece
	wasConnected bool
	ready        []message
	nFailures    int
}

// piece is what was read of the stream at once.
type piece struct {
	messages []message
	err      error
}

// Events of locks, from now on. Close ends them.
func (c *Client) Events(query EventsQuery) *Events {
	done, cancel := context.WithCancel(context.Background())
	values := url.Values{"prefix": {query.Prefix}, "lock": {query.Lock}}
	return &Events{client: c, query: values, lastID: query.Since, done: done, cancel: cancel}
}

// Close ends the events and their connection.
func (e *Events) Close() { e.cancel() }

// Connect, so that nothing that happens from here on is missed. Otherwise the first Next does.
func (e *Events) Connect(ctx context.Context) error {
	if e.pieces != nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	stream, err := e.open(ctx)
	if err != nil {
		return err
	}
	e.pieces = make(chan piece)
	go readPieces(e.done, stream, e.pieces)
	if e.wasConnected && e.lastID == "" {
		e.ready = append(e.ready, message{event: "gap", data: `{"reason":"the connection broke before the first event"}`})
	}
	e.wasConnected = true
	return nil
}

// open the stream. Until it is there the context can break it off; after that, only Close does.
func (e *Events) open(ctx context.Context) (io.ReadCloser, error) {
	opening, cancel := context.WithCancel(e.done)
	opened := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			select {
			case <-opened:
			default:
				cancel()
			}
		case <-opened:
		}
	}()
	stream, err := e.client.calls.events(opening, e.query, e.lastID)
	close(opened)
	if err == nil {
		return &openStream{ReadCloser: stream, cancel: cancel}, nil
	}
	cancel()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, err
}

// Next is the next event or gap, whenever it comes. It fails when the server cannot be reached for as often as
// [DefaultRetry] says, or does not let us watch; calling it again tries again, and misses nothing.
func (e *Events) Next(ctx context.Context) (Told, error) {
	for {
		if len(e.ready) > 0 {
			next := e.ready[0]
			e.ready = e.ready[1:]
			return next.told()
		}
		err := e.read(ctx)
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			// What is open stays open, and loses nothing.
			return Told{}, ctx.Err()
		}
		e.pieces = nil
		if err := e.pause(ctx, err); err != nil {
			return Told{}, err
		}
	}
}

// read takes one more piece of the stream.
func (e *Events) read(ctx context.Context) error {
	if err := e.Connect(ctx); err != nil {
		return err
	}
	if len(e.ready) > 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.done.Done():
		return e.done.Err()
	case piece := <-e.pieces:
		if piece.err != nil {
			return piece.err
		}
		e.nFailures = 0
		for _, message := range piece.messages {
			if message.id != "" {
				e.lastID = message.id
			}
			e.ready = append(e.ready, message)
		}
		return nil
	}
}

// pause returns the error if there is nothing more to try.
func (e *Events) pause(ctx context.Context, err error) error {
	e.nFailures++
	if !Retryable(err) || e.nFailures >= DefaultRetry.AttemptsMax {
		e.nFailures = 0
		return err
	}
	pause := jittered(doubled(DefaultRetry.PauseMin, e.nFailures-1, DefaultRetry.PauseMax))
	return sleepUntil(ctx, e.client.clock, e.client.clock.now().after(pause))
}

// readPieces reads until the stream breaks, falls silent, or nobody wants it any more.
func readPieces(done context.Context, stream io.ReadCloser, pieces chan<- piece) {
	defer stream.Close()
	silence := time.AfterFunc(silenceMax, func() { stream.Close() })
	defer silence.Stop()
	parser := &parser{}
	buffer := make([]byte, 16<<10)
	for {
		n, err := stream.Read(buffer)
		silence.Reset(silenceMax)
		messages, tooLong := parser.push(buffer[:n])
		next := piece{messages: messages}
		if tooLong != nil {
			next = piece{err: tooLong}
		} else if err != nil && len(messages) == 0 {
			next = piece{err: &BrokenError{Why: "the stream ended: " + err.Error()}}
		}
		select {
		case pieces <- next:
		case <-done.Done():
			return
		}
		if next.err != nil {
			return
		}
	}
}

func (m message) told() (Told, error) {
	switch m.event {
	case "gap", "stale", "current":
		var gap gap
		if json.Unmarshal([]byte(m.data), &gap) == nil && gap.Reason != "" {
			return Told{Gap: gap.Reason, Stale: m.event == "stale", Current: m.event == "current"}, nil
		}
	default:
		told := Told{ID: m.id}
		if json.Unmarshal([]byte(m.data), &told.Event) == nil {
			return told, nil
		}
	}
	return Told{}, &ForeignError{Status: 200, Body: m.data}
}
