//! etcd's messages with its field numbers. Fields that are not declared here are ignored.

use prost::{Message, Oneof};

/// The header of a response: the member and the revision it comes from.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Header {
    /// The id of the cluster.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// The id of the member that responded.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The revision of the store at the time of the response.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// A key with its value and its revisions.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The revision that created the key.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// The revision of the last write to the key.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// The number of writes to the key since it was created.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// The value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// The id of the lease that the key is attached to; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// A request to read keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range, exclusive; empty to read only `key`.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The maximum number of keys to return; 0 for no limit.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// The revision to read; 0 for the latest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Allows any member to respond from its local data, which might be stale.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Return keys without their values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Return only the number of keys.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// The response to [`RangeRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The keys, in ascending order.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// Whether the range contains more keys than the limit.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// The number of keys in the range.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// A request to write a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The id of the lease to attach the key to; 0 for none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// The response to [`PutRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PutResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// A request to delete keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteRangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range, exclusive; empty to delete only `key`.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// The response to [`DeleteRangeRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DeleteRangeResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The number of deleted keys.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Compare {
    /// The comparison operator; 0 for equal.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// The property of the key to compare: 0 for its version, 1 for its create revision, 2 for its mod revision, 3 for
    /// its value.
    #[prost(int32, tag = "2")]
    pub target: i32,
    /// The key.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    /// The expected value of the property.
    #[prost(oneof = "Compared", tags = "4, 5, 6, 7")]
    pub with: Option<Compared>,
}

/// The expected value of a property of a key.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Compared {
    /// The expected version.
    #[prost(int64, tag = "4")]
    Version(i64),
    /// The expected create revision.
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    /// The expected mod revision.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    /// The expected value of the key.
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

/// An operation of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RequestOp {
    /// The operation.
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub request: Option<Request>,
}

/// The kinds of operations of a transaction.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Request {
    /// Read keys.
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    /// Write a key.
    #[prost(message, tag = "2")]
    Put(PutRequest),
    /// Delete keys.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

/// The result of an operation of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ResponseOp {
    /// The result.
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub response: Option<Response>,
}

/// The results, by kind of operation.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Response {
    /// The result of a read.
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    /// The result of a write.
    #[prost(message, tag = "2")]
    Put(PutResponse),
    /// The result of a deletion.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

/// An atomic transaction: if all conditions hold, it runs one list of operations, otherwise the other.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TxnRequest {
    /// The conditions.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// The operations to run if all conditions hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// The operations to run if a condition does not hold.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// The response to [`TxnRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TxnResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Whether all conditions held.
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// The results of the operations that were run, in their order.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// A request to discard the history of keys before a revision.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionRequest {
    /// The oldest revision to keep.
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// The response to [`CompactionRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// A request for a lease.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseGrantRequest {
    /// The TTL in seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

/// The response to [`LeaseGrantRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LeaseGrantResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The id of the lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// The TTL in seconds, which can be longer than requested.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// A request to revoke a lease and delete its keys.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeRequest {
    /// The id of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The response to [`LeaseRevokeRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// A request to renew a lease.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseKeepAliveRequest {
    /// The id of the lease.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// The response to [`LeaseKeepAliveRequest`].
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseKeepAliveResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The id of the lease.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// The TTL in seconds, counted from now; 0 if the lease has ended.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// A message on a watch stream.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchRequest {
    /// The watch to create.
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreateRequest>,
}

/// The keys to watch.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchCreateRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The end of the range, exclusive; empty to watch only `key`.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// The first revision to report; 0 to start now.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// Allows etcd to split a response that is too long for one message.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// A message from etcd on a watch stream.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Whether this message confirms that the watch was created.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// Whether the watch has ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// Greater than 0 if the watch ended because its start revision was compacted: the first revision that is still
    /// available.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    /// Why the watch has ended.
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// The changes to the watched keys.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// A change to a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Event {
    /// 0 for a write, 1 for a deletion.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The key after the change.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

impl Event {
    /// Returns whether the key was deleted.
    pub fn is_delete(&self) -> bool {
        self.kind == 1
    }
}

/// A request for the status of a member.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StatusRequest {}

/// The status of a member.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatusResponse {
    /// The response header.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The member's version of etcd.
    #[prost(string, tag = "2")]
    pub version: String,
    /// The size of the database file in bytes.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The id of the leader; 0 if the cluster has none.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    /// Active alarms as text.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    /// How many bytes of the database file are in use.
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    /// The maximum size of the database file in bytes; 0 if the member's version does not report it.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

/// A request to authenticate a user.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthenticateRequest {
    /// The user name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The user's password.
    #[prost(string, tag = "2")]
    pub password: String,
}

/// The response to [`AuthenticateRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthenticateResponse {
    /// The token to send with every request.
    #[prost(string, tag = "2")]
    pub token: String,
}
