//! Tests of servers that share a store in a real etcd.

mod etcd;
mod peer;
