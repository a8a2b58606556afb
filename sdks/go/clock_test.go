package leasehold

import (
	"context"
	"sync"
	"testing"
	"time"
)

// fakeClock stands still until it is told otherwise.
type fakeClock struct {
	mutex  sync.Mutex
	time   moment
	alarms map[*fakeAlarm]struct{}
}

type fakeAlarm struct {
	at   moment
	ring func()
}

func newFakeClock() *fakeClock { return &fakeClock{alarms: map[*fakeAlarm]struct{}{}} }

func (c *fakeClock) now() moment {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.time
}

func (c *fakeClock) at(at moment, ring func()) func() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	alarm := &fakeAlarm{at: at, ring: ring}
	c.alarms[alarm] = struct{}{}
	return func() {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		delete(c.alarms, alarm)
	}
}

// pause: time passes without anybody being woken, as in a pause of the process.
func (c *fakeClock) pause(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.time = c.time.after(d)
}

// advance: time passes, and those who wait for it are woken.
func (c *fakeClock) advance(d time.Duration) {
	c.pause(d)
	for {
		c.mutex.Lock()
		var due *fakeAlarm
		for alarm := range c.alarms {
			if alarm.at <= c.time && (due == nil || alarm.at < due.at) {
				due = alarm
			}
		}
		delete(c.alarms, due)
		c.mutex.Unlock()
		if due == nil {
			return
		}
		due.ring()
	}
}

// waits says whether somebody waits for a moment after one and not after another.
func (c *fakeClock) waits(from, to time.Duration) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for alarm := range c.alarms {
		if alarm.at > moment(from) && alarm.at <= moment(to) {
			return true
		}
	}
	return false
}

func TestTheMachinesClockWakesNobodyEarly(t *testing.T) {
	clock := machineClock{}
	for _, d := range []time.Duration{0, time.Millisecond, 30 * time.Millisecond} {
		at := clock.now().after(d)
		if err := sleepUntil(context.Background(), clock, at); err != nil || clock.now() < at {
			t.Fatalf("%v early, %v", at.since(clock.now()), err)
		}
	}
}

func TestASleepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := sleepUntil(ctx, machineClock{}, machineClock{}.now().after(time.Hour)); err != context.Canceled {
		t.Fatal(err)
	}
}

func TestACancelledAlarmDoesNotRing(t *testing.T) {
	clock := machineClock{}
	rung := make(chan string, 2)
	clock.at(clock.now().after(3*time.Second), func() { rung <- "cancelled" })()
	clock.at(clock.now().after(3100*time.Millisecond), func() { rung <- "other" })
	if first := <-rung; first != "other" {
		t.Fatal(first)
	}
}

func TestNeverStaysNever(t *testing.T) {
	if never.after(time.Second) != never || never.after(-time.Second) != never || moment(1).after(time.Duration(never)) != never {
		t.Fatal("never came")
	}
}
