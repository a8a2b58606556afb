package leasehold

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// calls are the calls as they are on the wire: one request, one answer, nothing in the background.
type calls struct {
	transport *transport
	// Empty: whatever the server calls its default.
	namespace string
}

func (c *calls) acquire(ctx context.Context, lock string, body *acquireRequest) (*acquired, error) {
	path, err := c.lockPath(lock, "/acquire")
	if err != nil {
		return nil, err
	}
	q := question{method: http.MethodPost, path: path, body: body, longer: fromMillis(body.WaitMs)}
	answer, err := c.transport.call(ctx, q)
	return readOr[acquired](refuseAcquire, answer, err, "lock_name", "owner_id", "lease_id", "fencing_token", "expires_after_send_ms")
}

func (c *calls) renew(ctx context.Context, lock string, body *renewRequest, patience time.Duration) (*renewed, error) {
	path, err := c.lockPath(lock, "/renew")
	if err != nil {
		return nil, err
	}
	q := question{method: http.MethodPost, path: path, body: body, patience: patience}
	answer, err := c.transport.call(ctx, q)
	return readOr[renewed](refuseRenew, answer, err, "expires_after_send_ms")
}

func (c *calls) release(ctx context.Context, lock string, body *releaseRequest) error {
	path, err := c.lockPath(lock, "/release")
	if err != nil {
		return err
	}
	answer, err := c.post(ctx, path, body)
	_, err = readOr[released](refuseRelease, answer, err, "released")
	var no *NotReleasedError
	if errors.As(err, &no) {
		no.Locks = []string{lock}
	}
	return err
}

func (c *calls) acquireAll(ctx context.Context, body *acquireAllRequest) (*acquiredAll, error) {
	q := question{method: http.MethodPost, path: c.path("/acquire"), body: body, longer: fromMillis(body.WaitMs)}
	answer, err := c.transport.call(ctx, q)
	return readOr[acquiredAll](refuseAcquire, answer, err, "owner_id", "leases", "expires_after_send_ms")
}

func (c *calls) renewAll(ctx context.Context, body *renewAllRequest, patience time.Duration) (*renewed, error) {
	q := question{method: http.MethodPost, path: c.path("/renew"), body: body, patience: patience}
	answer, err := c.transport.call(ctx, q)
	return readOr[renewed](refuseRenewAll, answer, err, "expires_after_send_ms")
}

// releaseAll: that none was active is an answer like any other.
func (c *calls) releaseAll(ctx context.Context, body *releaseAllRequest) (*releasedAll, error) {
	answer, err := c.post(ctx, c.path("/release"), body)
	if err == nil && answer.status == http.StatusConflict && has(answer, "released") {
		answer.status = http.StatusOK
	}
	return read[releasedAll](answer, err, "released", "leases")
}

func (c *calls) cancel(ctx context.Context, body *cancelRequest) (bool, error) {
	answer, err := c.post(ctx, c.path("/cancel"), body)
	done, err := read[cancelled](answer, err, "cancelled")
	return err == nil && done.Cancelled, err
}

func (c *calls) openSession(ctx context.Context, body *openSessionRequest) (*sessionOpened, error) {
	answer, err := c.post(ctx, "/v1/sessions", body)
	return read[sessionOpened](answer, err, "session_id", "expires_after_send_ms")
}

func (c *calls) keepSession(ctx context.Context, id string, patience time.Duration) (*keptAlive, error) {
	path := "/v1/sessions/" + escape(id) + "/keepalive"
	answer, err := c.transport.call(ctx, question{method: http.MethodPost, path: path, patience: patience})
	return read[keptAlive](answer, err, "expires_after_send_ms")
}

func (c *calls) closeSession(ctx context.Context, id string) error {
	answer, err := c.transport.call(ctx, question{method: http.MethodDelete, path: "/v1/sessions/" + escape(id)})
	if err == nil && !answer.isSuccess() {
		return failure(answer)
	}
	return err
}

func (c *calls) events(ctx context.Context, query url.Values, since string) (io.ReadCloser, error) {
	q := question{method: http.MethodGet, path: c.path("/events") + queryString(query)}
	if since != "" {
		q.headers = map[string]string{"Last-Event-ID": since}
	}
	return c.transport.stream(ctx, q)
}

func (c *calls) watchLease(ctx context.Context, lock string, body *watchLeaseRequest) (io.ReadCloser, error) {
	path, err := c.lockPath(lock, "/watch")
	if err != nil {
		return nil, err
	}
	return c.transport.stream(ctx, question{method: http.MethodPost, path: path, body: body})
}

// backupMax: a backup takes as long as the server's disk does.
const backupMax = 10 * time.Minute

// ListQuery is which locks to list. What is empty does not count.
type ListQuery struct {
	// Prefix: only names that begin with this.
	Prefix string
	// Owner: only those it has or waits for.
	Owner string
	// State is held, waiting or free.
	State string
	// Limit: at most this many on a page.
	Limit int
	// Cursor is NextCursor of the page before.
	Cursor string
}

// HistoryQuery is which part of history to tell. What is empty does not count.
type HistoryQuery struct {
	// Lock: only what happened to this lock.
	Lock string
	// Owner: only what happened to leases of this owner.
	Owner string
	// Since: only what happened at or after this time.
	Since time.Time
	// Limit: at most this many on a page.
	Limit int
	// Cursor is NextCursor of the page before.
	Cursor string
}

// Look returns what is true of a lock right now. A lock nobody ever used is free.
func (c *Client) Look(ctx context.Context, lock string) (*LockState, error) {
	path, err := c.calls.lockPath(lock, "")
	if err != nil {
		return nil, err
	}
	return read[LockState](c.calls.get(ctx, path))
}

// List returns one page of locks.
func (c *Client) List(ctx context.Context, query ListQuery) (*LockList, error) {
	values := url.Values{"prefix": {query.Prefix}, "owner": {query.Owner}, "state": {query.State}, "cursor": {query.Cursor}}
	if query.Limit > 0 {
		values.Set("limit", strconv.Itoa(query.Limit))
	}
	return read[LockList](c.calls.get(ctx, c.calls.path("/locks")+queryString(values)))
}

// History returns one page of what happened to locks, newest first.
func (c *Client) History(ctx context.Context, query HistoryQuery) (*History, error) {
	path := c.calls.path("/history")
	if query.Lock != "" {
		var err error
		if path, err = c.calls.lockPath(query.Lock, "/history"); err != nil {
			return nil, err
		}
	}
	values := url.Values{"owner": {query.Owner}, "cursor": {query.Cursor}}
	if !query.Since.IsZero() {
		values.Set("since", strconv.FormatInt(query.Since.UnixMilli(), 10))
	}
	if query.Limit > 0 {
		values.Set("limit", strconv.Itoa(query.Limit))
	}
	return read[History](c.calls.get(ctx, path+queryString(values)))
}

// Revoke takes a lock away from all who have it.
func (c *Client) Revoke(ctx context.Context, lock, reason string) (*Revoked, error) {
	path, err := c.calls.lockPath(lock, "/revoke")
	if err != nil {
		return nil, err
	}
	return read[Revoked](c.calls.post(ctx, path, &revokeRequest{Reason: reason}))
}

// RevokeAll revokes everything that an owner, a session or a principal has, in all namespaces.
func (c *Client) RevokeAll(ctx context.Context, request RevokeAllRequest) (*RevokedAll, error) {
	return read[RevokedAll](c.calls.post(ctx, "/v1/revoke", &request))
}

// TakeBackup has the server take a backup of itself, below the folder it was told.
func (c *Client) TakeBackup(ctx context.Context) (*BackupTaken, error) {
	q := question{method: http.MethodPost, path: "/v1/admin/backup", patience: backupMax}
	return read[BackupTaken](c.calls.transport.call(ctx, q))
}

// Ready is nil if the server could make something durable right now.
func (c *Client) Ready(ctx context.Context) error {
	answer, err := c.calls.get(ctx, "/readyz")
	if err == nil && !answer.isSuccess() {
		return failure(answer)
	}
	return err
}

// CheckFence says whether a token's lease is active. This is advice: by the time you act on it, it may not be. What
// protects is a [Gate] at the thing that is written to.
func (c *Client) CheckFence(ctx context.Context, lock string, token uint64) (*FenceVerdict, error) {
	body := &fenceCheck{LockName: lock, FencingToken: token}
	if c.calls.namespace != "" {
		body.Namespace = &c.calls.namespace
	}
	return read[FenceVerdict](c.calls.post(ctx, "/v1/fence/check", body))
}

// get changes nothing, so it is asked again at once if its connection breaks.
func (c *calls) get(ctx context.Context, path string) (*answer, error) {
	q := question{method: http.MethodGet, path: path}
	answer, err := c.transport.call(ctx, q)
	if err != nil && MayHaveTakenEffect(err) {
		return c.transport.call(ctx, q)
	}
	return answer, err
}

func (c *calls) post(ctx context.Context, path string, body any) (*answer, error) {
	return c.transport.call(ctx, question{method: http.MethodPost, path: path, body: body})
}

func (c *calls) path(path string) string {
	if c.namespace == "" {
		return "/v1" + path
	}
	return "/v1/namespaces/" + escape(c.namespace) + path
}

func (c *calls) lockPath(lock, path string) (string, error) {
	if lock == "" {
		return "", invalid("a lock must have a name")
	}
	return c.path("/locks/" + escape(lock) + path), nil
}

// read is what a 2xx says; anything else is an error. So is one that lacks something that is needed: it is not our server's, and what
// would be read of it, a lease without an end for example, is nothing that anybody granted.
func read[T any](answer *answer, err error, needed ...string) (*T, error) {
	if err != nil {
		return nil, err
	}
	if !answer.isSuccess() {
		return nil, failure(answer)
	}
	said := new(T)
	if json.Unmarshal(answer.body, said) != nil || !has(answer, needed...) {
		return nil, foreign(answer)
	}
	return said, nil
}

// readOr is the same; a 409 may also be a refusal.
func readOr[T any](refuse func(*answer) error, answer *answer, err error, needed ...string) (*T, error) {
	if err == nil && answer.status == http.StatusConflict {
		if no := refuse(answer); no != nil {
			return nil, no
		}
	}
	return read[T](answer, err, needed...)
}

func refuseAcquire(answer *answer) error {
	var no NotAcquired
	if !has(answer, "acquired") || json.Unmarshal(answer.body, &no) != nil {
		return nil
	}
	return &NotAcquiredError{Refusal: no}
}

func refuseRenew(answer *answer) error {
	var no NotRenewed
	if !has(answer, "renewed") || json.Unmarshal(answer.body, &no) != nil {
		return nil
	}
	return &NotRenewedError{Refusal: no}
}

func refuseRenewAll(answer *answer) error {
	var no notRenewedAll
	if !has(answer, "renewed") || json.Unmarshal(answer.body, &no) != nil {
		return nil
	}
	return &NotRenewedError{Refusal: no.NotRenewed, LockName: no.LockName, leaseID: func() string { return no.LeaseID }}
}

func refuseRelease(answer *answer) error {
	var no NotReleased
	if !has(answer, "released") || json.Unmarshal(answer.body, &no) != nil {
		return nil
	}
	return &NotReleasedError{Refusal: no}
}

func has(answer *answer, fields ...string) bool {
	var said map[string]json.RawMessage
	if len(fields) > 0 && json.Unmarshal(answer.body, &said) != nil {
		return false
	}
	for _, field := range fields {
		if _, ok := said[field]; !ok {
			return false
		}
	}
	return true
}

// queryString is ?a=b&c=d of those that have a value.
func queryString(values url.Values) string {
	for name := range values {
		if values.Get(name) == "" {
			values.Del(name)
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

func escape(text string) string {
	// A path step of dots alone would be taken for a way up.
	if strings.Trim(text, ".") == "" {
		return strings.ReplaceAll(text, ".", "%2E")
	}
	return url.PathEscape(text)
}

func fromMillis(ms *uint64) time.Duration {
	if ms == nil {
		return 0
	}
	return time.Duration(*ms) * time.Millisecond
}

// toMillis is whole milliseconds, rounded up so that what is more than nothing stays so.
func toMillis(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d + time.Millisecond - 1) / time.Millisecond)
}

// expiresIn is how long a lease lasts from when the request was sent.
func expiresIn(ms *uint64) time.Duration {
	if ms == nil {
		return time.Duration(never)
	}
	return time.Duration(*ms) * time.Millisecond
}
