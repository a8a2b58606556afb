package leasehold

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Error is what every error of a server answers: may it be tried again, and could it have happened?
type Error interface {
	error
	// Retryable: the same request may be answered otherwise later.
	Retryable() bool
	// MayHaveTakenEffect: the request may have been applied all the same.
	MayHaveTakenEffect() bool
}

// Retryable says whether the same request may be answered otherwise later.
func Retryable(err error) bool {
	var known Error
	return errors.As(err, &known) && known.Retryable()
}

// MayHaveTakenEffect says whether the request may have been applied all the same.
func MayHaveTakenEffect(err error) bool {
	var known Error
	return errors.As(err, &known) && known.MayHaveTakenEffect()
}

// NotAcquiredError: the lock is held by another owner, or another owner goes first.
type NotAcquiredError struct{ Refusal NotAcquired }

func (e *NotAcquiredError) Error() string {
	if e.Refusal.CurrentOwnerID == nil {
		return fmt.Sprintf("lock %q: %s", e.Refusal.LockName, e.Refusal.Error)
	}
	return fmt.Sprintf("lock %q: %s, held by %s", e.Refusal.LockName, e.Refusal.Error, *e.Refusal.CurrentOwnerID)
}

func (*NotAcquiredError) Retryable() bool          { return true }
func (*NotAcquiredError) MayHaveTakenEffect() bool { return false }

// NotRenewedError: the lease cannot be renewed, it is over.
type NotRenewedError struct {
	Refusal NotRenewed
	// LockName of the first of several leases that is over; none of them was renewed then.
	LockName string
	// A function, because fmt shows what is in a struct, but not what a function returns.
	leaseID func() string
}

// LeaseID of that lease, a secret: whoever prints the error does not see it.
func (e *NotRenewedError) LeaseID() string {
	if e.leaseID == nil {
		return ""
	}
	return e.leaseID()
}

func (e *NotRenewedError) Error() string          { return e.Refusal.Error }
func (*NotRenewedError) Retryable() bool          { return false }
func (*NotRenewedError) MayHaveTakenEffect() bool { return false }

// NotReleasedError: the lease was over before. Another owner may have had the lock meanwhile.
type NotReleasedError struct {
	Refusal NotReleased
	// Locks whose leases were over: of several, those that were released are not among them.
	Locks []string
}

func (e *NotReleasedError) Error() string {
	if len(e.Locks) == 0 {
		return e.Refusal.Error
	}
	return named(e.Locks) + ": " + e.Refusal.Error
}
func (*NotReleasedError) Retryable() bool          { return false }
func (*NotReleasedError) MayHaveTakenEffect() bool { return false }

// named is locks in a message: lock "a", or locks "a", "b".
func named(locks []string) string {
	quoted := make([]string, len(locks))
	for n, lock := range locks {
		quoted[n] = strconv.Quote(lock)
	}
	if len(locks) == 1 {
		return "lock " + quoted[0]
	}
	return "locks " + strings.Join(quoted, ", ")
}

// LostReason is why a lease counts as lost.
type LostReason string

const (
	// OutOfTime: it was not renewed in time. It ends within the margin, or ended while this process was paused.
	OutOfTime LostReason = "the lease could not be renewed in time"
	// Ended: the server says that it is over, expired or revoked.
	Ended LostReason = "the server reports that the lease has ended"
	// Released: it was released, or its session was closed.
	Released LostReason = "the lease was released"
)

// LostError: the lease is lost.
type LostError struct {
	Reason LostReason
	// What is lost: lock "a", locks "a", "b", or the session.
	What string
	// Detail is what the server said of its end, if it said anything: which of several locks it was, and why it was revoked if it is
	// [Watched].
	Detail string
}

func (e *LostError) Error() string {
	text := string(e.Reason)
	if e.What != "" {
		text = e.What + ": " + text
	}
	if e.Detail != "" {
		text += " (" + e.Detail + ")"
	}
	return text
}
func (*LostError) Retryable() bool          { return false }
func (*LostError) MayHaveTakenEffect() bool { return false }

// FailedError: the server refused the request, or failed and said so.
type FailedError struct {
	// Status of the HTTP answer.
	Status  int
	Failure Failure
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("%s (%d %s)", e.Failure.Error, e.Status, e.Failure.Code)
}
func (e *FailedError) Retryable() bool          { return e.Failure.Retryable }
func (e *FailedError) MayHaveTakenEffect() bool { return e.Failure.MayHaveTakenEffect }

// UnreachableError: no connection came about, so nothing was sent.
type UnreachableError struct {
	URL string
	Err error
	// Others that were tried before, in vain too.
	Others []string
}

func (e *UnreachableError) Error() string {
	others := ""
	if len(e.Others) > 0 {
		others = ", nor to " + strings.Join(e.Others, ", ")
	}
	return fmt.Sprintf("cannot connect to %s: %v%s. Is the server running? (LEASEHOLD_URL)", e.URL, e.Err, others)
}
func (e *UnreachableError) Unwrap() error          { return e.Err }
func (*UnreachableError) Retryable() bool          { return true }
func (*UnreachableError) MayHaveTakenEffect() bool { return false }

// TLSError: TLS and the settings do not fit each other. The server's certificate cannot be verified, or it speaks TLS and the URL
// begins with http. Nothing was done, and asking again would not help.
type TLSError struct {
	URL string
	Why string
}

func (e *TLSError) Error() string          { return "the server at " + e.URL + " " + e.Why }
func (*TLSError) Retryable() bool          { return false }
func (*TLSError) MayHaveTakenEffect() bool { return false }

// BrokenError: the request was sent, but no whole answer came in time.
type BrokenError struct{ Why string }

func (e *BrokenError) Error() string {
	return "no response; the request might have taken effect: " + e.Why
}
func (*BrokenError) Retryable() bool          { return true }
func (*BrokenError) MayHaveTakenEffect() bool { return true }

// ForeignError: an answer, but none of a Leasehold server. Perhaps there is a proxy in between.
type ForeignError struct {
	// Status of the HTTP answer.
	Status int
	// Body is how the answer begins.
	Body string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("not a response of a Leasehold server (%d): %s", e.Status, e.Body)
}
func (e *ForeignError) Retryable() bool {
	return e.Status != 501 && (e.Status >= 500 || e.Status == 429)
}
func (e *ForeignError) MayHaveTakenEffect() bool { return e.Status >= 500 || e.Status < 400 }

// InvalidError: a setting or an argument makes no sense. Nothing was sent.
type InvalidError struct{ Why string }

func (e *InvalidError) Error() string          { return e.Why }
func (*InvalidError) Retryable() bool          { return false }
func (*InvalidError) MayHaveTakenEffect() bool { return false }

func invalid(format string, args ...any) error {
	return &InvalidError{Why: fmt.Sprintf(format, args...)}
}

// errNoContext instead of a panic far from whoever gave it.
var errNoContext = invalid("the context is nil: use context.Background()")

// uncertainError is the last of several tries, an earlier one of which may have taken effect.
type uncertainError struct{ err Error }

func (e *uncertainError) Error() string          { return e.err.Error() }
func (e *uncertainError) Unwrap() error          { return e.err }
func (e *uncertainError) Retryable() bool        { return e.err.Retryable() }
func (*uncertainError) MayHaveTakenEffect() bool { return true }

func uncertain(err error) error {
	var known Error
	if errors.As(err, &known) && known.Retryable() && !known.MayHaveTakenEffect() {
		return &uncertainError{err: known}
	}
	return err
}
