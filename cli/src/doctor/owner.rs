//! Finds out which process listens on an address, from the socket tables in `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use leasehold_server::http::Listen;
use leasehold_store as store;

/// The state of a listening TCP socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";
/// The flag of a listening Unix socket in `/proc/net/unix`.
const ACCEPTS: u32 = 1 << 16;

/// The process that listens on an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// The server that uses the data directory.
    Server,
    /// This process: two settings name the same address.
    Settings,
    Another,
    /// Not known: this user has no permission to see it, or the kernel does not report it.
    Unknown,
}

/// Returns which process listens on an address that is in use. `user` is the id of the process that uses the data
/// directory.
pub(super) fn of(listen: &Listen, folder: Option<&Path>, user: Option<&str>) -> Owner {
    let taken = match listen {
        Listen::Http(address) | Listen::Https(address) => {
            let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
            tables.iter().flat_map(|table| tcp(&read(table), *address)).collect()
        }
        Listen::Unix(path) => unix(&read("/proc/net/unix"), path),
    };
    let mine = sockets("self").unwrap_or_default();
    let theirs = folder.zip(user).map(|(folder, pid)| sockets_of_user(folder, pid));
    judge(&taken, &mine, theirs)
}

fn judge(
    taken: &BTreeSet<u64>,
    mine: &BTreeSet<u64>,
    theirs: Option<Option<BTreeSet<u64>>>,
) -> Owner {
    if !taken.is_disjoint(mine) {
        return Owner::Settings;
    }
    match theirs {
        None => Owner::Another,
        Some(None) => Owner::Unknown,
        Some(Some(_)) if taken.is_empty() => Owner::Unknown,
        Some(Some(theirs)) if taken.is_subset(&theirs) => Owner::Server,
        Some(Some(_)) => Owner::Another,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the sockets of the process that uses a data directory. Returns `None` if the process is not visible, or does
/// not have the lock file of the directory open. The latter happens with a process in another container that has the
/// same id.
fn sockets_of_user(folder: &Path, pid: &str) -> Option<BTreeSet<u64>> {
    let lock = fs::canonicalize(store::lock_path(folder)).ok()?;
    let has_lock = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to == lock);
    let mut files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    files.any(has_lock).then(|| sockets(pid)).flatten()
}

/// Returns the inode numbers of a process's sockets.
fn sockets(process: &str) -> Option<BTreeSet<u64>> {
    let number = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    Some(fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten().filter_map(number).collect())
}

/// Returns the sockets in a kernel table that prevent listening on this address.
fn tcp(table: &str, wanted: SocketAddr) -> BTreeSet<u64> {
    let number = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (*fields.get(1)?, *fields.get(3)?, fields.get(9)?);
        let (address, port) = local.split_once(':')?;
        let is_same_port = u16::from_str_radix(port, 16).ok()? == wanted.port();
        let is_in_the_way = is_same_port && overlap(ip(address)?, wanted.ip());
        (state == LISTENING && is_in_the_way).then(|| inode.parse().ok())?
    };
    table.lines().filter_map(number).collect()
}

fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let (one, other) = (one.to_canonical(), other.to_canonical());
    one == other || one.is_unspecified() || other.is_unspecified()
}

/// Parses an address from `/proc/net/tcp`: words of 32 bits, each in native byte order.
fn ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok();
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?.to_ne_bytes()).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, piece) in bytes.chunks_exact_mut(4).enumerate() {
                piece.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

fn unix(table: &str, wanted: &Path) -> BTreeSet<u64> {
    let number = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (flags, inode, path) = (*fields.get(3)?, fields.get(6)?, *fields.get(7)?);
        let is_listened_on = u32::from_str_radix(flags, 16).ok()? & ACCEPTS != 0;
        (is_listened_on && Path::new(path) == wanted).then(|| inode.parse().ok())?
    };
    table.lines().filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(numbers: &[u64]) -> BTreeSet<u64> {
        numbers.iter().copied().collect()
    }

    #[test]
    fn an_address_is_the_servers_only_if_all_its_sockets_are() {
        let of = |taken: &[u64], theirs| judge(&set(taken), &set(&[7]), theirs);
        assert_eq!(of(&[1], Some(Some(set(&[1, 2])))), Owner::Server);
        assert_eq!(of(&[1, 3], Some(Some(set(&[1, 2])))), Owner::Another);
        assert_eq!(of(&[3], Some(Some(set(&[1, 2])))), Owner::Another);
        assert_eq!(of(&[7], Some(Some(set(&[1])))), Owner::Settings);
        assert_eq!(of(&[1], None), Owner::Another, "no server runs");
        assert_eq!(
            (of(&[1], Some(None)), of(&[], Some(Some(set(&[1]))))),
            (Owner::Unknown, Owner::Unknown)
        );
    }

    #[test]
    fn the_tables_of_the_system_are_read() {
        let line = |address: &str, state: &str, inode: u64| {
            format!(" 0: {address} 00000000:0000 {state} 0:0 00:0 0 1000 0 {inode} 1 0 100 0\n")
        };
        let word = |bytes: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(bytes));
        let (local, any) = (word([127, 0, 0, 1]), word([0; 4]));
        let v6 = format!("{any}{any}{any}{}", word([0, 0, 0, 1]));
        let mapped = format!("{any}{any}{}{local}", word([0, 0, 0xff, 0xff]));
        let table = [
            line(&format!("{local}:1F90"), "0A", 1),
            line(&format!("{local}:1F90"), "01", 2),
            line(&format!("{any}:1F90"), "0A", 3),
            line(&format!("{local}:1F91"), "0A", 4),
            line(&format!("{v6}:1F90"), "0A", 5),
            line(&format!("{mapped}:1F90"), "0A", 6),
            "nonsense\n".into(),
        ]
        .concat();
        let of = |address: &str| tcp(&table, address.parse().expect("an address"));
        assert_eq!(of("127.0.0.1:8080"), set(&[1, 3, 6]));
        assert_eq!(of("0.0.0.0:8080"), set(&[1, 3, 5, 6]));
        assert_eq!((of("[::1]:8080"), of("127.0.0.2:8081")), (set(&[3, 5]), set(&[])));
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
                     0: 00000002 00000000 00010000 0001 01 11 /run/a.sock\n\
                     0: 00000003 00000000 00000000 0001 03 12 /run/a.sock\n";
        assert_eq!(unix(table, Path::new("/run/a.sock")), set(&[11]));
    }

    #[test]
    fn our_own_sockets_are_found() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let listen = Listen::Http(taken.local_addr().expect("an address"));
        assert_eq!(of(&listen, None, None), Owner::Settings);
    }
}
