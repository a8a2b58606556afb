//! The scripts of Redis lock clients. The server does not run Lua. It recognizes each script by the SHA-1 of its
//! text, or of its normal form (without comments, white space and differences in style), and does what the script
//! would do.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use leasehold_auth::hex;

/// The effect of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Script {
    /// Deletes the key if it has this value. Arguments: the value.
    Delete,
    /// Sets the key's expiry if it has this value. Arguments: the value, milliseconds.
    Expire,
    /// Extends the key's expiry if it has this value and an expiry: by this long if the third argument is "0", to
    /// this long otherwise. Arguments: the value, milliseconds, the switch.
    Extend,
    /// Returns the time left of the key if it has this value. Arguments: the value.
    Remaining,
    /// Sets all keys or none. Arguments: the value, milliseconds.
    TakeAll,
    /// Sets the expiry of all keys or none. Arguments: the value, milliseconds.
    ExpireAll,
    /// Deletes the keys that have this value. Arguments: the value.
    DeleteAll,
    /// Acquires a place in a semaphore. Arguments: the limit, the member, milliseconds, the client's time.
    Join,
    /// Renews a place in a semaphore. Arguments: as for `Join`.
    Stay,
    /// Acquires several places in a semaphore, or none. Arguments: the limit, the number of places, the client,
    /// milliseconds, the client's time.
    JoinMany,
    /// Renews several places in a semaphore. Arguments: as for `JoinMany`.
    StayMany,
    /// Releases several places. Arguments: the number of places, the client.
    LeaveMany,
}

struct KnownScript {
    sha: &'static str,
    /// The SHA-1 of its normal form.
    normal: &'static str,
    script: Script,
}

const fn known(sha: &'static str, normal: &'static str, script: Script) -> KnownScript {
    KnownScript { sha, normal, script }
}

/// The normal forms of delete and expire as in the Redis documentation, which most clients use.
const DELETE: &str = "436c6eb9061c0fd6bb5eb9f0ccd80873a070bd03";
const EXPIRE: &str = "176c4cdf6099774baa754c4892167064ec752ab7";
/// Versions 4 and 5 of redlock for Node.js send scripts that differ only in white space and comments.
const LOCK: &str = "f14c4d39c6b54ea9c8eaf1a2b46e290282b7ba79";
const EXTEND: &str = "436aef7398e1893f2610b38d7ecb472d92f1fdd8";
const UNLOCK: &str = "fc85e1c73468e80dd838916e38400e59d4687047";

#[rustfmt::skip]
const ALL: [KnownScript; 22] = [
    // redis-py 5 and 8: release, extend, reacquire
    known("c3f8721cbb97f72bc19e972846bd7aaf91901658", "1f37489385113287b5c4277ce97ce91eee27e161", Script::Delete),
    known("a4e8783852e6b949f9ef3a97212805108459a890", "549c5774470b9ecc1a0f48a2fea86a36eb945186", Script::Extend),
    known("1cac51482acf5858da00f6d685d68f886cd6b6b2", "add55a5216bb8b2ac89d381b43cab17e01074ac9", Script::Expire),
    // pottery 3: release, extend, acquired
    known("a4aada0b36710970eedaaaeec4a6b7d8c78c4f80", DELETE, Script::Delete),
    known("ba015a80261b616e7a62d35df0b8e3edbe6c9414", EXPIRE, Script::Expire),
    known("f5f7bd3a3aa4a63c507c1155c5ea1219b350d992", "3f251da8099c0decaf32f347e407a2728de809db", Script::Remaining),
    // redlock-py 1: unlock
    known("4e92fdc63815b3a0a2dd1c1df3694de73607c88d", DELETE, Script::Delete),
    // redlock-ng 2: release, extend
    known("e9b478387d9b08487f964382baf8443e7bd1aeb5", DELETE, Script::Delete),
    known("20503cb22929c16ca7525d8fd1a5736f023dd629", EXPIRE, Script::Expire),
    // redlock for Node.js, 4 and 5: lock, extend, unlock
    known("e5a322e2634ef59a516e8ea150cb085afafee684", LOCK, Script::TakeAll),
    known("ce46f80993d5dac20dd066eb301a4e37994bdbed", EXTEND, Script::ExpireAll),
    known("0f0f23b9048b36752b5be114f357ba083449f908", UNLOCK, Script::DeleteAll),
    known("96da70f7716f27d278a5218544df37fd8b0a5e4c", LOCK, Script::TakeAll),
    known("aed6f382e410db8ba7926d4e5e9aab410bf2a78a", EXTEND, Script::ExpireAll),
    known("e4612211c9f8f51c257e26e056b0a654b3187242", UNLOCK, Script::DeleteAll),
    // redis-semaphore 5: Mutex refresh and release, Semaphore acquire and refresh
    known("594683e49a64ebaf975caf5f8079a1d097c438f1", "14619301787c6360046a974d30b0cee055f2a811", Script::Expire),
    known("7157921a7cc7cfba979acf6d63f073151df17d12", "5da8caccece477fab11a0724f6c34a266ab65f08", Script::Delete),
    known("43ebdb49120d170e08af560cb4e46e36f8585936", "a0a1b9a6c194b0514b4de1d96f917c6ff312d574", Script::Join),
    known("999a49a1d07671a8027165641001f5bad44608b3", "a4312ebe259d29814b31708306f2498069d611e9", Script::Stay),
    // Its MultiSemaphore: acquire, refresh and release
    known("10c1c2e05e7c48aa5824d227b8c51abcde87b18e", "06d236f7c1b6dd5c4d3f477b5f52affedf11751e", Script::JoinMany),
    known("2327bcdc5edb5b8687f6d19b5e1f42b815ebddab", "9bcbc8be6b878e4b095019c4eb9421ce28898802", Script::StayMany),
    known("0bd1010c98f1ddd70a6024fd374489a8ea3d2c12", "e8fdd24bb27b48d9e65b3a4cebbce40e9b3d1c01", Script::LeaveMany),
];

impl Script {
    /// Returns the script with this SHA-1.
    pub(super) fn by_sha(sha: &str) -> Option<Self> {
        ALL.iter().find(|known| known.sha.eq_ignore_ascii_case(sha)).map(|known| known.script)
    }

    /// Returns the script with this text, or with the same normal form, and the SHA-1 under which the server knows
    /// it.
    pub(super) fn by_text(text: &str) -> Result<(Self, &'static str), String> {
        let sha = sha1(text);
        let exact = ALL.iter().find(|known| known.sha == sha);
        let same = || {
            let normal = sha1(&normal(text));
            ALL.iter().find(|known| known.normal == normal)
        };
        exact.or_else(same).map(|known| (known.script, known.sha)).ok_or(sha)
    }

    /// Returns the number of arguments, not counting the keys.
    pub(super) fn n_arguments(self) -> usize {
        match self {
            Script::Delete | Script::Remaining | Script::DeleteAll => 1,
            Script::Expire | Script::TakeAll | Script::ExpireAll | Script::LeaveMany => 2,
            Script::Extend => 3,
            Script::Join | Script::Stay => 4,
            Script::JoinMany | Script::StayMany => 5,
        }
    }

    /// Returns whether the script takes any number of keys.
    pub(super) fn is_for_many(self) -> bool {
        matches!(self, Script::TakeAll | Script::ExpireAll | Script::DeleteAll)
    }

    /// Returns whether the script renews or releases a lock.
    pub(super) fn is_vital(self) -> bool {
        match self {
            Script::Delete | Script::DeleteAll | Script::LeaveMany => true,
            Script::Expire | Script::ExpireAll | Script::Extend => true,
            Script::Stay | Script::StayMany => true,
            Script::TakeAll | Script::Join | Script::JoinMany | Script::Remaining => false,
        }
    }
}

fn sha1(text: &str) -> String {
    hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

/// Returns the script without comments, white space and semicolons, with one kind of quotes and in lower case.
fn normal(text: &str) -> String {
    let code = text.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let chars = code.flat_map(str::chars).filter(|char| !char.is_whitespace() && *char != ';');
    chars.map(|char| if char == '\'' { '"' } else { char.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script from the Redis documentation, with different white space and comments.
    const DOCUMENTED: &str = "
        -- only the client that set it
        if redis.call('GET', KEYS[1]) == ARGV[1]
        then return redis.call('DEL', KEYS[1]); -- it is gone
        else return 0; end";

    #[test]
    fn a_script_is_recognized_in_any_layout() {
        let (script, sha) = Script::by_text(DOCUMENTED).expect("known");
        assert_eq!(script, Script::Delete);
        assert_eq!(Script::by_sha(sha), Some(script), "what is told is understood");
        assert_eq!(Script::by_sha(&sha.to_uppercase()), Some(script));
        assert_eq!(Script::by_sha(&sha1(DOCUMENTED)), None, "nothing is kept of what was told");
    }

    #[test]
    fn an_unknown_script_is_reported_with_its_sha1() {
        let other = DOCUMENTED.replace("DEL", "UNLINK");
        assert_eq!(Script::by_text(&other), Err(sha1(&other)));
        assert_eq!(
            Script::by_text("return 1"),
            Err("e0e1f9fabfc9d4800c877a703b823ac0578ff8db".into())
        );
    }

    #[test]
    fn scripts_with_the_same_normal_form_have_the_same_effect() {
        for one in &ALL {
            for other in ALL.iter().filter(|other| other.normal == one.normal) {
                assert_eq!(one.script, other.script, "{} and {}", one.sha, other.sha);
            }
        }
    }
}
