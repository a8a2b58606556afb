//! Shows the state of the wait: one line on a terminal, removed afterwards. Prints nothing in a pipe or in cron.

use std::convert::Infallible;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold::api::LockState;

use super::terminal::Terminal;
use crate::duration::glance;
use crate::output::plain;
use crate::screen::Screen;
use crate::table::cut;

/// How long to wait before the line appears, so that short waits print nothing.
const AFTER: Duration = Duration::from_millis(400);
const EVERY: Duration = Duration::from_secs(1);

/// Shows the holders of the locks until the future is dropped. Never returns.
pub(super) async fn show(client: &Client, locks: &[String], patience: Duration) -> Infallible {
    if !is_for_people() {
        return std::future::pending().await;
    }
    let asked_at = Instant::now();
    let mut line = Line { is_shown: false };
    tokio::time::sleep(AFTER).await;
    loop {
        let left = (patience != Duration::MAX).then(|| patience.saturating_sub(asked_at.elapsed()));
        line.show(&look(client, locks, left).await);
        tokio::time::sleep(EVERY).await;
    }
}

/// Returns whether standard error is a terminal that a person reads and that is ours to write on.
fn is_for_people() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    let is_ours = || Terminal::ours().is_some_and(|terminal| terminal.is_ours());
    std::io::stderr().is_terminal() && !is_dumb && is_ours()
}

/// Describes the first lock that is held or reserved.
async fn look(client: &Client, locks: &[String], left: Option<Duration>) -> String {
    let mut first = None;
    for lock in locks {
        let Ok(state) = client.look(lock).await else {
            return format!("waiting for {}: the server does not respond", plain(lock));
        };
        if !state.holders.is_empty() || state.grace_owner_id.is_some() {
            return describe(&state, client.owner(), left);
        }
        first = first.or(Some(state));
    }
    first.map_or(String::new(), |state| describe(&state, client.owner(), left))
}

fn describe(state: &LockState, us: &str, left: Option<Duration>) -> String {
    let time = |ms| glance(Duration::from_millis(ms));
    let mut parts = Vec::new();
    match (state.holders.first(), &state.grace_owner_id) {
        (Some(holder), _) => {
            let others = match state.holders.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            let held = time(holder.held_ms);
            parts.push(format!("held by {}{others} for {held}", plain(&holder.owner_id)));
            parts.extend(holder.expires_in_ms.map(|ms| format!("{} left", time(ms))));
        }
        (None, Some(owner)) => parts.push(format!("reserved for {}", plain(owner))),
        (None, None) => parts.push("other clients are ahead in the queue".into()),
    }
    let ours = state.queue.iter().flatten().find(|waiter| waiter.owner_id == us);
    parts.extend(ours.map(|waiter| format!("place {} of {}", waiter.position, state.n_waiting)));
    parts.extend(left.map(|left| format!("giving up in {}", glance(left))));
    format!("waiting for {}: {}", plain(&state.lock_name), parts.join(", "))
}

/// A terminal line that is rewritten in place.
struct Line {
    is_shown: bool,
}

impl Line {
    fn show(&mut self, text: &str) {
        // The last column stays free: some terminals wrap when it is written.
        let width = Screen::of_stderr().width.unwrap_or(80).saturating_sub(1);
        write(&format!("\r\x1b[K{}", cut(text, width)));
        self.is_shown = true;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_shown {
            write("\r\x1b[K");
        }
    }
}

fn write(text: &str) {
    // A write error is ignored: the line only informs people.
    let mut out = std::io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_who_since_when_how_long_and_which_place() {
        let state = serde_json::from_value(serde_json::json!({
            "lock_name": "nightly", "held": true, "last_token": 7, "n_waiting": 3,
            "holders": [{"owner_id": "a1", "fencing_token": 7, "mode": "exclusive", "held_ms": 252_000,
                         "expires_in_ms": 26_000}],
            "queue": [{"owner_id": "b", "position": 1, "waiting_ms": 9, "parked": false},
                      {"owner_id": "us", "position": 2, "waiting_ms": 5, "parked": false}],
        }));
        let line = describe(&state.expect("a lock"), "us", Some(Duration::from_secs(48)));
        let expected =
            "waiting for nightly: held by a1 for 4m12s, 26s left, place 2 of 3, giving up in 48s";
        assert_eq!(line, expected);
    }
}
