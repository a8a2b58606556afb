//! `leasehold serve` as a process: data directory, signals, disks, files, logs.

mod audit;
mod auth;
mod backup;
mod disk;
mod files;
mod folder;
mod full;
mod kill;
mod log;
mod power;
mod recover;
mod redis;
mod serve;
mod sighup;
mod startup;
mod state;
mod transport;
mod vanish;
