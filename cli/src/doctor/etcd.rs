//! Checks the etcd cluster that holds the store of a Leasehold cluster.

use leasehold_server::cluster::{self, Access, Member, StoreHealth};

use super::finding::Finding;

const CHECK: &str = "etcd";
/// The default size limit of an etcd member's database file.
const FILE_BYTES_MAX: i64 = 2 << 30;

pub(super) fn look(access: &Access) -> Finding {
    match cluster::health(access) {
        Ok(health) => judge(&health, &access.location.to_string()),
        Err(error) => Finding::problem(
            CHECK,
            error.to_string(),
            "correct --store and the --etcd-... settings",
        ),
    }
}

fn judge(health: &StoreHealth, store: &str) -> Finding {
    let StoreHealth { members, n_keys } = health;
    let well: Vec<&Member> = members
        .iter()
        .filter_map(|(_, found)| found.as_ref().ok())
        .filter(|it| it.has_leader)
        .collect();
    let ill = members.iter().filter_map(|(name, found)| match found {
        Ok(member) if member.has_leader => None,
        Ok(_) => Some(format!("{name} knows no leader")),
        Err(why) => Some(why.clone()),
    });
    let ill: Vec<_> = ill.collect();
    let (n_well, n_all) = (well.len(), members.len());
    if 2 * n_well <= n_all {
        let found = format!("{n_well} of {n_all} members are healthy: {}", ill.join("; "));
        return Finding::problem(
            CHECK,
            found,
            "start the members that are down (etcdctl endpoint status) and check the log of the others; no server \
             leads without a majority",
        );
    }
    if let Some(alarm) = well.iter().find_map(|member| member.alarms.first()) {
        let advice = "free space (etcdctl compact and defrag), then run etcdctl alarm disarm";
        return Finding::problem(CHECK, format!("alarm: {alarm}"), advice);
    }
    match n_keys {
        Err(why) => {
            return Finding::problem(
                CHECK,
                why.clone(),
                "let the etcd user read and write all keys under the prefix",
            );
        }
        Ok(0) => {
            let advice = format!(
                "if there was one, run leasehold restore BACKUP --store {store}; otherwise leasehold init --store \
                 {store}"
            );
            return Finding::problem(CHECK, format!("there is no store at {store}"), advice);
        }
        Ok(_) => {}
    }
    if !ill.is_empty() {
        let found = format!("{n_well} of {n_all} members are healthy: {}", ill.join("; "));
        return Finding::warning(
            CHECK,
            found,
            "start the others: if one more fails, the cluster stops",
        );
    }
    let largest = well.iter().map(|member| member.n_bytes).max().unwrap_or_default();
    if largest > FILE_BYTES_MAX / 4 * 3 {
        let found = format!("the database file of a member has {} MiB", largest >> 20);
        let advice = "compact and defragment it (--auto-compaction-retention), or raise --quota-backend-bytes of etcd";
        return Finding::warning(CHECK, found, advice);
    }
    let version = well.first().map(|member| member.version.as_str()).unwrap_or_default();
    Finding::fine(CHECK, format!("{n_well} of {n_all} members are healthy, version {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    fn member() -> Member {
        Member { version: "3.5.0".into(), has_leader: true, n_bytes: 1 << 20, alarms: Vec::new() }
    }

    fn judged(members: [Result<Member, String>; 3], n_keys: Result<i64, String>) -> Finding {
        let members = ["a:1", "b:1", "c:1"].map(String::from).into_iter().zip(members).collect();
        judge(&StoreHealth { members, n_keys }, "etcd://a:1/x")
    }

    #[test]
    fn a_majority_must_be_well_and_all_should_be() {
        let gone = || Err("c:1: connection refused".to_owned());
        let lost = || Ok(Member { has_leader: false, ..member() });
        assert_eq!(
            judged([Ok(member()), Ok(member()), Ok(member())], Ok(9)).verdict,
            Verdict::Fine
        );
        assert_eq!(judged([Ok(member()), Ok(member()), gone()], Ok(9)).verdict, Verdict::Warning);
        assert_eq!(judged([Ok(member()), gone(), gone()], Ok(9)).verdict, Verdict::Problem);
        assert_eq!(judged([lost(), lost(), lost()], Ok(9)).verdict, Verdict::Problem);
    }

    #[test]
    fn an_alarm_a_full_file_and_a_missing_store_are_told() {
        let of = |member: Member, n_keys| {
            judged([Ok(member.clone()), Ok(member.clone()), Ok(member)], n_keys)
        };
        let alarmed = Member { alarms: vec!["NOSPACE".into()], ..member() };
        assert_eq!(of(alarmed, Ok(9)).found, "alarm: NOSPACE");
        let large = Member { n_bytes: 1900 << 20, ..member() };
        assert_eq!(of(large, Ok(9)).verdict, Verdict::Warning);
        let missing = of(member(), Ok(0));
        let advice = missing.advice.unwrap_or_default();
        assert!(
            advice.starts_with("if there was one, run leasehold restore BACKUP --store"),
            "{advice}"
        );
        assert!(advice.ends_with("leasehold init --store etcd://a:1/x"), "{advice}");
        assert_eq!(of(member(), Err("permission denied".into())).verdict, Verdict::Problem);
    }
}
