package leasehold

import (
	"testing"
	"time"
)

const (
	tenureTTL    = 10 * time.Second
	tenureMargin = time.Second
)

func freshTenure() (*fakeClock, *tenure) {
	clock := newFakeClock()
	return clock, granted(clock, tenureMargin, clock.now(), tenureTTL, "")
}

func wantLost(t *testing.T, lost *LostError, want LostReason) {
	t.Helper()
	if want == "" && lost != nil || want != "" && (lost == nil || lost.Reason != want) {
		t.Fatalf("lost: %v, want %q", lost, want)
	}
}

func TestTheDeadlineIsTheSendTimeAndTheTTLLessDriftAndMargin(t *testing.T) {
	clock, tenure := freshTenure()
	if tenure.end() != moment(9900*time.Millisecond) || tenure.deadline() != moment(8900*time.Millisecond) {
		t.Fatal(tenure.end(), tenure.deadline())
	}
	clock.pause(8900*time.Millisecond - 1)
	wantLost(t, tenure.check(), "")
	clock.pause(1)
	wantLost(t, tenure.check(), OutOfTime)
}

func TestTheLossIsToldAtTheDeadlineAndNotBefore(t *testing.T) {
	clock, tenure := freshTenure()
	clock.advance(8900*time.Millisecond - 1)
	if tenure.done.Err() != nil {
		t.Fatal("told early")
	}
	clock.advance(1)
	if tenure.done.Err() == nil {
		t.Fatal("not told")
	}
}

func TestARenewalCountsFromWhenItWasSentAndNeverShortens(t *testing.T) {
	clock, tenure := freshTenure()
	clock.advance(5 * time.Second)
	wantLost(t, tenure.extend(moment(3*time.Second), tenureTTL), "")
	wantLost(t, tenure.extend(clock.now(), time.Second), "")
	if tenure.end() != moment(12900*time.Millisecond) {
		t.Fatal(tenure.end())
	}
	clock.advance(6900*time.Millisecond - 1)
	if tenure.done.Err() != nil {
		t.Fatal("the alarm was not moved")
	}
	clock.advance(1)
	if tenure.done.Err() == nil {
		t.Fatal("the alarm was not set again")
	}
}

func TestWhatWasLostIsNotBroughtBackByAnAnswerThatComesLate(t *testing.T) {
	clock, tenure := freshTenure()
	clock.pause(8 * time.Second)
	sentAt := clock.now()
	clock.pause(time.Second)
	wantLost(t, tenure.extend(sentAt, tenureTTL), OutOfTime)
	wantLost(t, tenure.check(), OutOfTime)
	wantLost(t, tenure.lose(Ended), OutOfTime)
}

func TestALockOfASessionGoesWithItAndNotTheOtherWayRound(t *testing.T) {
	_, session := freshTenure()
	kept, given := within(session, ""), within(session, "")
	given.lose(Released)
	wantLost(t, session.check(), "")
	wantLost(t, kept.check(), "")
	if kept.deadline() != session.deadline() {
		t.Fatal(kept.deadline())
	}
	session.lose(Ended)
	if kept.done.Err() == nil {
		t.Fatal("not told")
	}
	wantLost(t, kept.check(), Ended)
	wantLost(t, given.check(), Released)
	wantLost(t, within(session, "").check(), Ended)
}

func TestTheFirstQuestionAfterAPauseSaysLost(t *testing.T) {
	clock, session := freshTenure()
	lock := within(session, "")
	clock.pause(tenureTTL)
	wantLost(t, lock.check(), OutOfTime)
}
