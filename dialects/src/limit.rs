//! Messages for exceeded limits: the allowed value, its setting, and whether repeating the request can help.

use std::time::Duration;

use leasehold_base::duration;
use leasehold_core::{Exceeded, Limit};

/// How a request exceeded a limit.
pub(super) enum Met {
    /// The request itself is beyond the limit, so repeating it cannot help. The text is what is allowed for the
    /// field.
    Request(String),
    /// The request would be one too many. It can succeed after something else has ended.
    Room(String),
}

pub(super) fn met(exceeded: Exceeded) -> Met {
    let Exceeded { limit, allowed, line } = exceeded;
    let setting = match line {
        Some(line) => format!("{}, line {line}", limit.setting()),
        None => limit.setting().into(),
    };
    let request = |allowed: String| Met::Request(format!("{allowed} ({setting})"));
    let room = |what: &str, unit: &str, remedy: &str| {
        Met::Room(format!("{what}; limit: {allowed}{unit} ({setting}); {remedy}"))
    };
    const OTHERS: &str = "try again later, or raise the setting";
    const OWN: &str = "end some of them first";
    match limit {
        Limit::Namespace | Limit::Name | Limit::Owner | Limit::RequestId => {
            request(format!("must have from 1 to {allowed} bytes"))
        }
        Limit::Metadata | Limit::Reason => request(format!("must have at most {allowed} bytes")),
        Limit::Ttl | Limit::SessionTtl | Limit::Grace | Limit::Wait => {
            request(format!("must be at most {}", duration::shown(Duration::from_millis(allowed))))
        }
        Limit::Holders | Limit::Group => request(format!("must be from 1 to {allowed}")),
        Limit::Namespaces => room("too many namespaces are in use", "", OTHERS),
        Limit::Locks => room("too many locks are in use", "", OTHERS),
        Limit::Sessions => room("too many sessions", "", OTHERS),
        Limit::PrincipalLeases => {
            room("too many leases of one principal, or of one anonymous address", "", OWN)
        }
        Limit::Quota => room("too many leases of this principal", "", OWN),
        Limit::NamespaceQuota => room("too many leases in this namespace", "", OTHERS),
        Limit::PrincipalNamespaces => {
            room("too many namespaces of one principal, or of one anonymous address", "", OWN)
        }
        Limit::PrincipalSessions => {
            room("too many sessions of one principal, or of one anonymous address", "", OWN)
        }
        Limit::MetadataTotal => room("too much metadata, of all leases together", " bytes", OTHERS),
        Limit::NamesTotal => {
            room("too many bytes of names, of all locks and owners together", " bytes", OTHERS)
        }
        Limit::RequestsTotal => {
            room("too many request ids of leases that have not ended", " bytes", OTHERS)
        }
        Limit::QueuesTotal => {
            room("too many waiting leases, for all locks together", " bytes", OTHERS)
        }
        Limit::PrincipalMetadata => {
            room("too much metadata of one principal, or of one anonymous address", " bytes", OWN)
        }
        Limit::PrincipalNames => room(
            "too many bytes of lock and owner names of one principal, or of one anonymous address",
            " bytes",
            OWN,
        ),
        Limit::PrincipalRequests => room(
            "too many request ids of one principal, or of one anonymous address",
            " bytes",
            OWN,
        ),
        Limit::PrincipalQueues => room(
            "too many waiting leases of one principal, or of one anonymous address",
            " bytes",
            OWN,
        ),
        Limit::BytesQuota => room("too many bytes of this principal", "", OWN),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Limits, Rejection};

    use super::*;

    fn told(limit: Limit) -> String {
        match Limits::default().exceeded(limit) {
            Rejection::Limit(exceeded) => match met(exceeded) {
                Met::Request(why) | Met::Room(why) => why,
            },
            other => panic!("not a limit: {other:?}"),
        }
    }

    #[test]
    fn says_what_is_allowed_and_which_setting_says_so() {
        assert_eq!(told(Limit::Name), "must have from 1 to 512 bytes (name-bytes-max)");
        assert_eq!(told(Limit::Ttl), "must be at most 1d (ttl-max)");
        assert_eq!(
            told(Limit::MetadataTotal),
            "too much metadata, of all leases together; limit: 268435456 bytes (metadata-total-bytes-max); try again \
             later, or raise the setting"
        );
        assert_eq!(
            told(Limit::PrincipalNamespaces),
            "too many namespaces of one principal, or of one anonymous address; limit: 1000 \
             (principal-namespaces-max); end some of them first"
        );
    }
}
