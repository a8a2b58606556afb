//! The messages, by etcd's field numbers. A field that is not here is not looked at.

use prost::{Message, Oneof};

/// Where and when something was answered.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Header {
    /// Which cluster.
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    /// Which member of it.
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The revision of the store when it was answered.
    #[prost(int64, tag = "3")]
    pub revision: i64,
}

/// A key as it is.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeyValue {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The revision in which it came to be.
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    /// The revision in which it was last put.
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// How often it was put since it came to be.
    #[prost(int64, tag = "4")]
    pub version: i64,
    /// Its value.
    #[prost(bytes = "vec", tag = "5")]
    pub value: Vec<u8>,
    /// The lease it goes with; 0: none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// Reads keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The key after the last one; empty: only the first.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// Most keys to return; 0: all.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// As of this revision; 0: the latest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// Any member may answer from what it has, however old that is.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    /// Without the values.
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    /// Only how many.
    #[prost(bool, tag = "9")]
    pub count_only: bool,
}

/// What was read.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RangeResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The keys in their order.
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// There are more than the limit.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// How many there are.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

/// Puts a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PutRequest {
    /// The key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// Its value.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
    /// The lease it goes with; 0: none.
    #[prost(int64, tag = "3")]
    pub lease: i64,
}

/// A key was put.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PutResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// Deletes keys.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteRangeRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The key after the last one; empty: only the first.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
}

/// Keys were deleted.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DeleteRangeResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// How many.
    #[prost(int64, tag = "2")]
    pub deleted: i64,
}

/// One condition of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Compare {
    /// How; 0: it must be equal.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// What of the key: 0 its version, 1 its create revision, 2 its mod revision, 3 its value.
    #[prost(int32, tag = "2")]
    pub target: i32,
    /// The key.
    #[prost(bytes = "vec", tag = "3")]
    pub key: Vec<u8>,
    /// With what.
    #[prost(oneof = "Compared", tags = "4, 5, 6, 7")]
    pub with: Option<Compared>,
}

/// What a key is compared with.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Compared {
    /// Its version.
    #[prost(int64, tag = "4")]
    Version(i64),
    /// Its create revision.
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    /// Its mod revision.
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    /// Its value.
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RequestOp {
    /// Which.
    #[prost(oneof = "Request", tags = "1, 2, 3")]
    pub request: Option<Request>,
}

/// What an operation of a transaction does.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Request {
    /// Reads.
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    /// Puts.
    #[prost(message, tag = "2")]
    Put(PutRequest),
    /// Deletes.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

/// What came of one operation.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ResponseOp {
    /// Which.
    #[prost(oneof = "Response", tags = "1, 2, 3")]
    pub response: Option<Response>,
}

/// What came of an operation of a transaction.
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum Response {
    /// Of reading.
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    /// Of putting.
    #[prost(message, tag = "2")]
    Put(PutResponse),
    /// Of deleting.
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
}

/// All or nothing: if every condition holds these operations, else those.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TxnRequest {
    /// The conditions.
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    /// What is done if they hold.
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    /// What is done if one does not.
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

/// What came of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TxnResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Did the conditions hold?
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    /// What came of each operation that was done.
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// Forgets what keys were before a revision.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionRequest {
    /// The revision.
    #[prost(int64, tag = "1")]
    pub revision: i64,
}

/// It is forgotten.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CompactionResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// Asks for a lease.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseGrantRequest {
    /// For so many seconds.
    #[prost(int64, tag = "1")]
    pub ttl: i64,
}

/// A lease.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct LeaseGrantResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Its id.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// For so many seconds, which may be more than was asked for.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// Ends a lease, and with it its keys.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeRequest {
    /// Its id.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// It has ended.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseRevokeResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}

/// Makes a lease last.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseKeepAliveRequest {
    /// Its id.
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// How long it lasts.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LeaseKeepAliveResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Its id.
    #[prost(int64, tag = "2")]
    pub id: i64,
    /// For so many seconds from now; 0: it is over.
    #[prost(int64, tag = "3")]
    pub ttl: i64,
}

/// Begins to watch.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchRequest {
    /// What.
    #[prost(message, optional, tag = "1")]
    pub create: Option<WatchCreateRequest>,
}

/// What is watched.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchCreateRequest {
    /// The first key.
    #[prost(bytes = "vec", tag = "1")]
    pub key: Vec<u8>,
    /// The key after the last one; empty: only the first.
    #[prost(bytes = "vec", tag = "2")]
    pub range_end: Vec<u8>,
    /// From this revision on; 0: from now on.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// What is too long for one message may come in several.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// What was seen.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct WatchResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// The watch has begun.
    #[prost(bool, tag = "3")]
    pub created: bool,
    /// The watch has ended.
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// It ended because what it began with was forgotten; this is the first revision that is not.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    /// Why it ended.
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// What happened.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// Something happened to a key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Event {
    /// 0: it was put; 1: it was deleted.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The key since.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
}

impl Event {
    /// Was it deleted?
    pub fn is_delete(&self) -> bool {
        self.kind == 1
    }
}

/// Asks a member how it is.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct StatusRequest {}

/// How a member is.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatusResponse {
    /// Where and when.
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// How many bytes its file has.
    #[prost(int64, tag = "3")]
    pub db_size: i64,
    /// The member that leads; 0: none.
    #[prost(uint64, tag = "4")]
    pub leader: u64,
    /// Its alarms, in words.
    #[prost(string, repeated, tag = "8")]
    pub errors: Vec<String>,
    /// How many bytes of its file are in use.
    #[prost(int64, tag = "9")]
    pub db_size_in_use: i64,
    /// How many bytes its file may have; 0: it is too old to say.
    #[prost(int64, tag = "12")]
    pub db_size_quota: i64,
}

/// Says who asks.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthenticateRequest {
    /// The user.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its password.
    #[prost(string, tag = "2")]
    pub password: String,
}

/// The proof of it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct AuthenticateResponse {
    /// To be sent with everything that is asked.
    #[prost(string, tag = "2")]
    pub token: String,
}
