// Command conformance-driver does what the conformance harness says, by this SDK: see ../../../conformance/PROTOCOL.md.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

func main() {
	driver := &driver{out: json.NewEncoder(os.Stdout), made: map[string]any{}, waiting: map[int64]context.CancelFunc{}}
	driver.out.SetEscapeHTML(false)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		command := &command{}
		if err := json.Unmarshal(lines.Bytes(), command); err != nil {
			fmt.Fprintln(os.Stderr, "not a command:", err)
			os.Exit(1)
		}
		if command.Do == "exit" {
			return
		}
		// A cancel may come right behind what it cancels: so the context is made before the next line is read.
		ctx, cancel := context.WithCancel(context.Background())
		driver.expect(command.ID, cancel)
		go driver.answer(ctx, command)
	}
}

// command is a line of the harness, with the fields of all commands.
type command struct {
	ID        int64           `json:"id"`
	Do        string          `json:"do"`
	Client    string          `json:"client"`
	URLs      []string        `json:"urls"`
	Owner     string          `json:"owner"`
	Namespace string          `json:"namespace"`
	APIKey    string          `json:"api_key"`
	TimeoutMs int64           `json:"timeout_ms"`
	Lease     string          `json:"lease"`
	Lock      string          `json:"lock"`
	TTLMs     *int64          `json:"ttl_ms"`
	WaitMs    *int64          `json:"wait_ms"`
	MarginMs  *int64          `json:"margin_ms"`
	GraceMs   *int64          `json:"grace_ms"`
	Shared    bool            `json:"shared"`
	Limit     *uint32         `json:"limit"`
	Metadata  json.RawMessage `json:"metadata"`
	Session   string          `json:"session"`
	Locks     []wanted        `json:"locks"`
	Command   int64           `json:"command"`
	URL       string          `json:"url"`
	Value     json.RawMessage `json:"value"`
	Checked   bool            `json:"checked"`
	Watch     string          `json:"watch"`
	Prefix    string          `json:"prefix"`
	Election  string          `json:"election"`
}

type wanted struct {
	Lock   string `json:"lock"`
	Shared bool   `json:"shared"`
	Limit  uint32 `json:"limit"`
}

type object map[string]any

// driver keeps what commands made, under the harness's names for it.
type driver struct {
	outMutex sync.Mutex
	out      *json.Encoder

	mutex sync.Mutex
	made  map[string]any
	// What cancels the commands that are under way.
	waiting map[int64]context.CancelFunc
}

func (d *driver) say(message object) {
	d.outMutex.Lock()
	defer d.outMutex.Unlock()
	if err := d.out.Encode(message); err != nil {
		os.Exit(1)
	}
}

func (d *driver) expect(id int64, cancel context.CancelFunc) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.waiting[id] = cancel
}

func (d *driver) answer(ctx context.Context, c *command) {
	run, isKnown := commands[c.Do]
	if !isKnown {
		d.say(object{"id": c.ID, "error": object{"name": "unsupported", "message": "unknown command " + c.Do}})
		return
	}
	ok, err := run(d, ctx, c)
	// What was granted outlives the command, so its context is not cancelled here.
	d.mutex.Lock()
	delete(d.waiting, c.ID)
	d.mutex.Unlock()
	if err != nil {
		d.say(object{"id": c.ID, "error": described(err)})
	} else {
		d.say(object{"id": c.ID, "ok": ok})
	}
}

// keep something under a name. Names of different kinds do not meet.
func (d *driver) keep(kind, name string, made any) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.made[kind+" "+name] = made
}

// kept is what a command made before.
func kept[T any](d *driver, kind, name string) (T, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	made, isIt := d.made[kind+" "+name].(T)
	if !isIt {
		return made, fmt.Errorf("there is no %s %q", kind, name)
	}
	return made, nil
}
