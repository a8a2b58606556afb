//! Networks in settings and in the auth file.

use std::net::IpAddr;

use ipnet::IpNet;

/// Parses a network such as `10.0.0.0/8`, or a single address.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let one = || text.parse::<IpAddr>().map(IpNet::from);
    let network = text.parse::<IpNet>().or_else(|_| one());
    network.map_err(|_| format!("{text:?} is neither an address nor a network such as 10.0.0.0/8"))
}
