package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"
)

func refusal(reason string, retryMs uint64) error {
	return &NotAcquiredError{Refusal: NotAcquired{LockName: "a", Reason: reason, RecommendedRetryMs: retryMs}}
}

func newAttempts(manner manner) *attempts {
	return &attempts{retry: DefaultRetry, manner: manner, giveUpAt: moment(time.Minute)}
}

func again(manner manner, err error) (time.Duration, bool) {
	return newAttempts(manner).after(err, 0)
}

var broken = &BrokenError{Why: "cut"}

func TestAHeldLockIsAnAnswerUnlessOneMeansToComeBack(t *testing.T) {
	for _, manner := range []manner{once, inQueue} {
		if _, isAgain := again(manner, refusal("HELD", 400)); isAgain {
			t.Fatal(manner)
		}
	}
	pause, isAgain := again(comingBack, refusal("HELD", 400))
	if !isAgain || pause <= 400*time.Millisecond || pause > 500*time.Millisecond {
		t.Fatal(pause, isAgain)
	}
}

func TestBusyAndBrokenAreTriedAgainInEveryManner(t *testing.T) {
	for _, manner := range []manner{once, inQueue, comingBack} {
		if _, isAgain := again(manner, refusal("BUSY_RETRY", 50)); !isAgain {
			t.Fatal(manner)
		}
		pause, isAgain := again(manner, broken)
		if !isAgain || pause < 25*time.Millisecond || pause > 50*time.Millisecond {
			t.Fatal(pause, isAgain)
		}
	}
}

func TestWhatMakesNoSenseIsNotTriedAgain(t *testing.T) {
	for _, err := range []error{invalid("no"), refusal("QUEUE_FULL", 400), context.Canceled} {
		if _, isAgain := again(once, err); isAgain {
			t.Fatal(err)
		}
	}
}

func TestTriesAreBoundedByNumberAndByTime(t *testing.T) {
	queued, n := newAttempts(inQueue), 0
	for {
		if _, isAgain := queued.after(broken, 0); !isAgain {
			break
		}
		n++
	}
	if n != 7 {
		t.Fatal(n)
	}
	if _, isAgain := newAttempts(inQueue).after(broken, moment(time.Minute)); isAgain {
		t.Fatal("too late")
	}
}

// lasts is how long the tries go on where every one of them fails so.
func lasts(manner manner, giveUpAt moment, err error) time.Duration {
	tries, now := &attempts{retry: DefaultRetry, manner: manner, giveUpAt: giveUpAt}, moment(0)
	for {
		pause, isAgain := tries.after(err, now)
		if !isAgain {
			return now.since(0)
		}
		now = now.after(pause)
	}
}

func TestAnOutageOfTheStoreEndsAWaitOnlyWithItsTime(t *testing.T) {
	outage := func(code string) error {
		return &FailedError{Status: 503, Failure: Failure{Code: code, Retryable: true}}
	}
	for _, code := range []string{"UNKNOWN", "BUSY"} {
		if took := lasts(inQueue, moment(time.Minute), outage(code)); took < 57*time.Second {
			t.Error(code, took)
		}
		if took := lasts(inQueue, moment(3*time.Second), outage(code)); took >= 3*time.Second {
			t.Error(code, took)
		}
		for _, manner := range []manner{once, comingBack} {
			if took := lasts(manner, moment(time.Minute), outage(code)); took > 8*time.Second {
				t.Error(code, manner, took)
			}
		}
	}
	if took := lasts(inQueue, moment(time.Minute), outage("JOURNAL_FULL")); took > 8*time.Second {
		t.Error(took)
	}
}

func TestAWaitThatIsOverAtOnceIsNotBegunAgainAtOnce(t *testing.T) {
	pause := func(took time.Duration, retryMs uint64) time.Duration {
		queued := newAttempts(inQueue)
		queued.begunAt = moment(time.Second)
		pause, _ := queued.after(refusal("WAIT_TIMEOUT", retryMs), queued.begunAt.after(took))
		return pause
	}
	if pause(time.Millisecond, 400) < 390*time.Millisecond || pause(10*time.Second, 400) != 0 || pause(0, 0) != DefaultRetry.PauseMin {
		t.Fatal(pause(time.Millisecond, 400), pause(10*time.Second, 400), pause(0, 0))
	}
}

func TestInAQueueOnlyFailuresInARowCount(t *testing.T) {
	queued := newAttempts(inQueue)
	for n := 0; n < 20; n++ {
		_, first := queued.after(broken, 0)
		_, second := queued.after(refusal("WAIT_TIMEOUT", 400), 0)
		if !first || !second {
			t.Fatal(n)
		}
	}
}

func TestThatARequestMayHaveTakenEffectIsRememberedOverTheTries(t *testing.T) {
	retry := Retry{AttemptsMax: 3, TotalMax: time.Minute}
	n := 0
	err := persist(context.Background(), machineClock{}, retry, func(mayHaveTakenEffect bool) error {
		n++
		if mayHaveTakenEffect != (n > 1) {
			t.Error("told wrongly")
		}
		if n == 1 {
			return broken
		}
		return &UnreachableError{URL: "http://a", Err: errors.New("refused")}
	})
	var unreachable *UnreachableError
	if n != 3 || !errors.As(err, &unreachable) || !MayHaveTakenEffect(err) || !Retryable(err) {
		t.Fatal(n, err)
	}
}

func TestAWaitThatSomebodyEndedIsNotBegunAgain(t *testing.T) {
	isBegunAgain := func(wait, took time.Duration) bool {
		queued := &attempts{retry: DefaultRetry, manner: inQueue, giveUpAt: moment(time.Hour), begunAt: moment(time.Second), wait: wait}
		_, again := queued.after(refusal("WAIT_TIMEOUT", 400), queued.begunAt.after(took))
		return again
	}
	for _, c := range []struct {
		wait, took time.Duration
		want       bool
	}{
		{50 * time.Second, 0, false}, {50 * time.Second, 44 * time.Second, false}, {50 * time.Second, 46 * time.Second, true},
		{50 * time.Second, 50 * time.Second, true}, {400 * time.Millisecond, 200 * time.Millisecond, false},
		{400 * time.Millisecond, 300 * time.Millisecond, true},
	} {
		if isBegunAgain(c.wait, c.took) != c.want {
			t.Error(c)
		}
	}
}

func TestMaintenanceIsAnAnswerToThoseWhoDoNotWait(t *testing.T) {
	maintenance := &FailedError{Status: 503, Failure: Failure{Code: "MAINTENANCE", Retryable: true}}
	for _, manner := range []manner{once, inQueue} {
		tries := &attempts{retry: DefaultRetry, manner: manner, giveUpAt: moment(time.Hour)}
		if _, again := tries.after(maintenance, 0); again != (manner == inQueue) {
			t.Error(manner)
		}
	}
}
