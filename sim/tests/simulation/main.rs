//! Seeds, scenes and deliberate bugs.

mod cluster;
mod etcd;
mod mutants;
mod scenes;
mod seeds;
