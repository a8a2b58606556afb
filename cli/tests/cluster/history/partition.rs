//! A cluster with a separate host for each server and each etcd member, on a network that loses packets.

use std::time::Duration;

use leasehold_testkit::{Host, among_hosts};

use super::cluster::{Cluster, N_SERVERS, endure, number};
use super::fault::Fault;

const N_MEMBERS: usize = 3;
/// `CLUSTER_ROUNDS=10` applies all faults that many times. By default, only the network faults are applied, once.
const ROUNDS: &str = "CLUSTER_ROUNDS";
const NAME: &str =
    concat!(module_path!(), "::what_clients_see_while_the_network_loses_things_is_linearizable");

#[test]
fn what_clients_see_while_the_network_loses_things_is_linearizable() {
    among_hosts(N_MEMBERS + N_SERVERS, NAME, inside);
}

#[tokio::main(worker_threads = 2)]
async fn inside(hosts: Vec<Host>) {
    let n_rounds = number(ROUNDS).map(|n| n as usize);
    let mut faults: Vec<_> = Fault::CUTS.into();
    if n_rounds.is_some() {
        faults.extend(Fault::ANYWHERE);
    }
    let n_faults = faults.len() * n_rounds.unwrap_or(1);
    let limit = Duration::from_secs(600) * n_rounds.unwrap_or(1) as u32;
    let faults = faults.into_iter().cycle().take(n_faults);
    let enduring = endure(Cluster::start(N_MEMBERS, hosts), faults);
    tokio::time::timeout(limit, enduring).await.expect("it comes to an end");
}
