//! Clusters: several `leasehold serve` processes with a real etcd.

mod history;
mod moving;
mod steering;
