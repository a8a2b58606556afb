package leasehold

import "encoding/json"

// The shapes of the wire. A test holds them to docs/openapi.json.

type acquireRequest struct {
	OwnerID   string          `json:"owner_id"`
	TTLMs     *uint64         `json:"ttl_ms,omitempty"`
	RequestID *string         `json:"request_id,omitempty"`
	WaitMs    *uint64         `json:"wait_ms,omitempty"`
	Mode      *string         `json:"mode,omitempty"`
	Limit     *uint32         `json:"limit,omitempty"`
	GraceMs   *uint64         `json:"grace_ms,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	SessionID *string         `json:"session_id,omitempty"`
}

type acquired struct {
	Acquired           bool    `json:"acquired"`
	LockName           string  `json:"lock_name"`
	OwnerID            string  `json:"owner_id"`
	LeaseID            string  `json:"lease_id"`
	FencingToken       uint64  `json:"fencing_token"`
	LeaseExpiryMs      *int64  `json:"lease_expiry_ms"`
	ExpiresInMs        *uint64 `json:"expires_in_ms"`
	ExpiresAfterSendMs *uint64 `json:"expires_after_send_ms"`
}

type wantedLock struct {
	LockName string  `json:"lock_name"`
	Mode     *string `json:"mode,omitempty"`
	Limit    *uint32 `json:"limit,omitempty"`
}

type acquireAllRequest struct {
	OwnerID   string          `json:"owner_id"`
	Locks     []wantedLock    `json:"locks"`
	TTLMs     *uint64         `json:"ttl_ms,omitempty"`
	RequestID *string         `json:"request_id,omitempty"`
	WaitMs    *uint64         `json:"wait_ms,omitempty"`
	GraceMs   *uint64         `json:"grace_ms,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
	SessionID *string         `json:"session_id,omitempty"`
}

type heldLease struct {
	LockName     string `json:"lock_name"`
	LeaseID      string `json:"lease_id"`
	FencingToken uint64 `json:"fencing_token"`
}

type acquiredAll struct {
	Acquired           bool        `json:"acquired"`
	OwnerID            string      `json:"owner_id"`
	Leases             []heldLease `json:"leases"`
	LeaseExpiryMs      *int64      `json:"lease_expiry_ms"`
	ExpiresInMs        *uint64     `json:"expires_in_ms"`
	ExpiresAfterSendMs *uint64     `json:"expires_after_send_ms"`
}

type renewRequest struct {
	OwnerID      string  `json:"owner_id"`
	LeaseID      string  `json:"lease_id"`
	FencingToken uint64  `json:"fencing_token"`
	ExtendByMs   uint64  `json:"extend_by_ms"`
	RequestID    *string `json:"request_id,omitempty"`
}

type renewAllRequest struct {
	OwnerID    string      `json:"owner_id"`
	ExtendByMs uint64      `json:"extend_by_ms"`
	Leases     []heldLease `json:"leases"`
}

type renewed struct {
	Renewed            bool    `json:"renewed"`
	LeaseExpiryMs      *int64  `json:"lease_expiry_ms"`
	ExpiresInMs        *uint64 `json:"expires_in_ms"`
	ExpiresAfterSendMs *uint64 `json:"expires_after_send_ms"`
}

type releaseRequest struct {
	OwnerID      string  `json:"owner_id"`
	LeaseID      string  `json:"lease_id"`
	FencingToken uint64  `json:"fencing_token"`
	RequestID    *string `json:"request_id,omitempty"`
}

type released struct {
	Released bool `json:"released"`
}

type releaseAllRequest struct {
	OwnerID string      `json:"owner_id"`
	Leases  []heldLease `json:"leases"`
}

type releasedAll struct {
	Released bool            `json:"released"`
	Leases   []releasedLease `json:"leases"`
	Error    *string         `json:"error,omitempty"`
}

type releasedLease struct {
	LockName string  `json:"lock_name"`
	Released bool    `json:"released"`
	Reason   *string `json:"reason,omitempty"`
}

type cancelRequest struct {
	OwnerID   string `json:"owner_id"`
	RequestID string `json:"request_id"`
}

type cancelled struct {
	Cancelled bool `json:"cancelled"`
}

type watchLeaseRequest struct {
	OwnerID      string `json:"owner_id"`
	LeaseID      string `json:"lease_id"`
	FencingToken uint64 `json:"fencing_token"`
}

type revokeRequest struct {
	Reason string `json:"reason"`
}

type openSessionRequest struct {
	OwnerID string `json:"owner_id"`
	TTLMs   uint64 `json:"ttl_ms"`
}

type sessionOpened struct {
	SessionID          string `json:"session_id"`
	OwnerID            string `json:"owner_id"`
	ExpiresInMs        uint64 `json:"expires_in_ms"`
	ExpiresAfterSendMs uint64 `json:"expires_after_send_ms"`
}

type keptAlive struct {
	ExpiresInMs        uint64 `json:"expires_in_ms"`
	ExpiresAfterSendMs uint64 `json:"expires_after_send_ms"`
}

type fenceCheck struct {
	LockName     string  `json:"lock_name"`
	FencingToken uint64  `json:"fencing_token"`
	Namespace    *string `json:"namespace,omitempty"`
}

type gap struct {
	Reason string `json:"reason"`
}

// NotAcquired says why a lock was not granted.
type NotAcquired struct {
	Acquired           bool            `json:"acquired"`
	LockName           string          `json:"lock_name"`
	CurrentOwnerID     *string         `json:"current_owner_id"`
	CurrentPrincipal   *string         `json:"current_principal,omitempty"`
	CurrentExpiryMs    *int64          `json:"current_expiry_ms"`
	CurrentMetadata    json.RawMessage `json:"current_metadata,omitempty"`
	RecommendedRetryMs uint64          `json:"recommended_retry_ms"`
	// Reason is HELD, BUSY_RETRY, GRACE, QUEUE_FULL or WAIT_TIMEOUT.
	Reason string `json:"reason"`
	Error  string `json:"error"`
}

// NotRenewed says why a lease was not renewed.
type NotRenewed struct {
	Renewed bool   `json:"renewed"`
	Reason  string `json:"reason"`
	Error   string `json:"error"`
}

// notRenewedAll says which of several leases is over, so that none was renewed.
type notRenewedAll struct {
	NotRenewed
	LockName string `json:"lock_name"`
	LeaseID  string `json:"lease_id"`
}

// NotReleased says why a lease was not released.
type NotReleased struct {
	Released bool   `json:"released"`
	Reason   string `json:"reason"`
	Error    string `json:"error"`
}

// Failure is what the server says if something goes wrong.
type Failure struct {
	Error              string `json:"error"`
	Code               string `json:"code"`
	Retryable          bool   `json:"retryable"`
	MayHaveTakenEffect bool   `json:"may_have_taken_effect"`
}

// LockState is what is true of a lock right now.
type LockState struct {
	LockName         string          `json:"lock_name"`
	Held             bool            `json:"held"`
	LastToken        uint64          `json:"last_token"`
	OwnerID          *string         `json:"owner_id,omitempty"`
	Principal        *string         `json:"principal,omitempty"`
	FencingToken     *uint64         `json:"fencing_token,omitempty"`
	LeaseExpiryMs    *int64          `json:"lease_expiry_ms,omitempty"`
	Version          *uint64         `json:"version,omitempty"`
	Holders          []Holder        `json:"holders,omitempty"`
	NHolders         *uint64         `json:"n_holders,omitempty"`
	Queue            []Waiter        `json:"queue,omitempty"`
	NWaiting         *uint64         `json:"n_waiting,omitempty"`
	GraceOwnerID     *string         `json:"grace_owner_id,omitempty"`
	GracePrincipal   *string         `json:"grace_principal,omitempty"`
	GraceRemainingMs *uint64         `json:"grace_remaining_ms,omitempty"`
	Metadata         json.RawMessage `json:"metadata,omitempty"`
}

// Holder has a lock.
type Holder struct {
	OwnerID       string          `json:"owner_id"`
	Principal     *string         `json:"principal,omitempty"`
	FencingToken  uint64          `json:"fencing_token"`
	Mode          string          `json:"mode"`
	LeaseExpiryMs *int64          `json:"lease_expiry_ms"`
	ExpiresInMs   *uint64         `json:"expires_in_ms"`
	HeldMs        uint64          `json:"held_ms"`
	Limit         *uint32         `json:"limit,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
}

// Waiter waits for a lock.
type Waiter struct {
	OwnerID   string  `json:"owner_id"`
	Principal *string `json:"principal,omitempty"`
	Position  uint64  `json:"position"`
	WaitingMs uint64  `json:"waiting_ms"`
	// Parked: its connection broke. It keeps its place for a while.
	Parked bool `json:"parked"`
}

// LockList is one page of locks.
type LockList struct {
	Locks []LockState `json:"locks"`
	// NextCursor is nil on the last page.
	NextCursor *string `json:"next_cursor"`
}

// Event is something that happened to a lock.
type Event struct {
	// Kind is queued, granted, released, expired, revoked or wait_ended; or a warning: held_long, waited_long or
	// deadlock_suspected. A newer server may have others.
	Kind         string  `json:"kind"`
	Namespace    string  `json:"namespace"`
	LockName     string  `json:"lock_name"`
	OwnerID      string  `json:"owner_id"`
	Principal    *string `json:"principal,omitempty"`
	FencingToken uint64  `json:"fencing_token"`
	AtMs         int64   `json:"at_ms"`
	WaitedMs     uint64  `json:"waited_ms"`
	HeldMs       uint64  `json:"held_ms"`
	Reason       *string `json:"reason,omitempty"`
}

// PastEvent is an event of history.
type PastEvent struct {
	ID string `json:"id"`
	Event
}

// History is one page of what happened, newest first.
type History struct {
	Events []PastEvent `json:"events"`
	// NextCursor is nil on the last page.
	NextCursor *string `json:"next_cursor"`
}

// Revoked says from whom a lock was taken away.
type Revoked struct {
	LockName string         `json:"lock_name"`
	Revoked  []RevokedLease `json:"revoked"`
}

// RevokeAllRequest is whose leases to revoke: exactly one of Owner, Session and Principal.
type RevokeAllRequest struct {
	// Owner: every lease of this owner, in all namespaces.
	Owner *string `json:"owner,omitempty"`
	// Session: every lease of the session with this number.
	Session *uint64 `json:"session,omitempty"`
	// Principal: every lease of this principal, whatever its owners are called.
	Principal *string `json:"principal,omitempty"`
	// Reason is kept in the events.
	Reason string `json:"reason"`
	// DryRun: only say what would be revoked.
	DryRun bool `json:"dry_run,omitempty"`
}

// RevokedAll says which leases were revoked, or would be.
type RevokedAll struct {
	DryRun   bool   `json:"dry_run"`
	NRevoked uint64 `json:"n_revoked"`
	// Revoked are no more than 1000 of them.
	Revoked []RevokedFrom `json:"revoked"`
}

// RevokedFrom is one of them.
type RevokedFrom struct {
	Namespace string  `json:"namespace"`
	LockName  string  `json:"lock_name"`
	OwnerID   string  `json:"owner_id"`
	Principal *string `json:"principal,omitempty"`
	// FencingToken is 0 if it was waiting.
	FencingToken uint64 `json:"fencing_token"`
	Waiting      bool   `json:"waiting"`
}

// BackupTaken is a backup that the server took of itself.
type BackupTaken struct {
	// Name below the server's backup-dir.
	Name  string `json:"name"`
	Bytes uint64 `json:"bytes"`
}

// RevokedLease was active until it was revoked.
type RevokedLease struct {
	OwnerID      string  `json:"owner_id"`
	Principal    *string `json:"principal,omitempty"`
	FencingToken uint64  `json:"fencing_token"`
}

// FenceVerdict says whether a token's lease is active.
type FenceVerdict struct {
	Accepted  bool   `json:"accepted"`
	LastToken uint64 `json:"last_token"`
}
