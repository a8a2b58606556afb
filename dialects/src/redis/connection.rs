//! One connection: reads requests and writes replies in the same order. Requests that arrive together are sent to the
//! engine together.

use leasehold_auth::Caller;
use leasehold_engine::{Together, Undelivered};
use tokio::time::Instant;

use super::command::{self, Client, Command};
use super::frame::{Reader, Request, Wrong};
use super::lock::{Asked, Asking, Refusal};
use super::party::{self, Party};
use super::reply::Reply;
use super::turn;
use crate::app::App;
use crate::http::{Conversation, Heard};

/// The error for a client that has not authenticated in time.
const TOO_LATE: &[u8] = b"-NOAUTH no valid AUTH in time (redis-auth-timeout)\r\n";

/// The replies that are about to be sent.
#[derive(Default)]
struct PendingReplies {
    text: String,
    /// The guards of granted leases, each with the position in the text where its reply ends.
    grants: Vec<(usize, Undelivered)>,
}

/// Serves a connection until either side closes it.
pub(super) async fn converse(app: App, mut conversation: Conversation) {
    let options = app.dialect.redis.clone();
    let known_by = Instant::now() + options.auth_timeout;
    let mut party = Party::new(app, conversation.visitor().clone()).await;
    let mut reader = Reader::new(options.command_bytes_max);
    let mut is_known = false;
    loop {
        is_known = is_known || party.is_known();
        // Before authentication, the server reads only what a client needs for it.
        let n_max = if is_known { options.pipeline_max } else { 1 };
        reader.is_of_stranger = !is_known;
        let (requests, wrong) = read(&mut reader, n_max);
        if requests.is_empty() && wrong.is_none() {
            let until = (!is_known).then_some(known_by);
            match conversation.hear(&mut reader.buffer, until).await {
                Heard::More => continue,
                Heard::End => return,
                Heard::Late => {
                    let _ = conversation.say(TOO_LATE, Vec::new()).await;
                    return;
                }
            }
        }
        if !is_known && Instant::now() >= known_by {
            let _ = conversation.say(TOO_LATE, Vec::new()).await;
            return;
        }
        let mut said = PendingReplies::default();
        answer(&mut party, &requests, &mut said).await;
        let is_wrong = wrong.is_some();
        if let Some(wrong) = wrong.filter(|_| !party.is_over) {
            Reply::Error(wrong.to_string()).write(party.protocol, &mut said.text);
        }
        let is_heard = conversation.say(said.text.as_bytes(), said.grants).await;
        // After a leader change, the client must reconnect to be forwarded to the new leader.
        let is_led = party.app.following.is_some() && !party.app.engine.is_leading();
        if !is_heard || is_wrong || party.is_over || is_led {
            return;
        }
    }
}

/// Returns the complete requests in the buffer, up to the number that is answered together, and the error in the
/// bytes after them.
fn read(reader: &mut Reader, n_max: usize) -> (Vec<Request>, Option<Wrong>) {
    let mut requests = Vec::new();
    while requests.len() < n_max {
        match reader.next_request() {
            Ok(Some(request)) => requests.push(request),
            Ok(None) => break,
            Err(wrong) => return (requests, Some(wrong)),
        }
    }
    (requests, None)
}

/// Answers requests in their order.
async fn answer(party: &mut Party, requests: &[Request], said: &mut PendingReplies) {
    let engine = party.app.engine.clone();
    let mut asked = Vec::with_capacity(requests.len());
    let mut together = engine.together();
    for request in requests {
        let words: Result<Vec<_>, _> = request.words().map(str::from_utf8).collect();
        let name = words.as_ref().map_or(command::OTHER, |words| command::name(words));
        if let Some(reply) = party.transaction.answer(name) {
            let counted = party.caller().map_or(Ok(()), |caller| party.count(name, &caller));
            asked.push((name, Asked::Told(counted.err().unwrap_or(reply))));
            continue;
        }
        let parsed = match &words {
            Ok(words) => Command::parse(words),
            Err(_) => Err(Reply::error("keys and values must be UTF-8 here")),
        };
        let told = match parsed {
            Err(reply) => Asked::Told(wrong(party, name, reply)),
            Ok(command) if command.takes_turn() => {
                together.send();
                settle(party, &mut asked, said).await;
                let reply = alone(party, name, command).await;
                together = engine.together();
                Asked::Told(reply)
            }
            Ok(command) => ask(party, name, command, &mut together),
        };
        asked.push((name, told));
        if party.is_over {
            break;
        }
    }
    together.send();
    settle(party, &mut asked, said).await;
}

/// Waits for the results of the calls that were sent to the engine, and appends their replies.
async fn settle(party: &Party, asked: &mut Vec<(&'static str, Asked)>, said: &mut PendingReplies) {
    for (name, asked) in asked.drain(..) {
        let (reply, undelivered) = asked.answer(party).await;
        reply.write(party.protocol, &mut said.text);
        let (peer, is_error) = (party.visitor.peer, reply.is_error());
        party.app.metrics.count_redis(name, is_error);
        tracing::debug!(command = name, is_error, %peer, "answered");
        let end = said.text.len();
        said.grants.extend(undelivered.into_iter().map(|undelivered| (end, undelivered)));
    }
}

/// Returns the reply to an invalid command. A client that has not authenticated gets only an error that requires it to,
/// unless the command was an attempt to authenticate.
fn wrong(party: &Party, name: &'static str, reply: Reply) -> Reply {
    match party.caller().and_then(|caller| caller.check_known().map(|()| caller)) {
        Err(_) if matches!(name, "auth" | "hello") => {}
        Err(denied) => return party.refuse(None, name, denied),
        Ok(caller) => {
            if let Err(refused) = party.count(name, &caller) {
                return refused;
            }
        }
    }
    if let ("eval" | "script", Reply::Error(why)) = (name, &reply) {
        tracing::info!(why, "redis: refused an unknown script");
    }
    reply
}

/// Returns the caller, if it is allowed to send this command at all.
fn admit(party: &mut Party, name: &'static str, command: &Command<'_>) -> Result<Caller, Reply> {
    let caller = party.caller().map_err(|denied| party.refuse(None, name, denied))?;
    caller.check_known().map_err(|denied| party.refuse(Some(&caller), name, denied))?;
    let is_exempt = party.is_exempt(command.urgency());
    let app = &party.app;
    let taken = app.auth.take_request(&caller, || party.address(), app.engine.now());
    if is_exempt {
        return Ok(caller);
    }
    taken.map_err(|denied| party.refuse(Some(&caller), name, denied))?;
    if party.visitor.is_restricted {
        return Err(Reply::error(format_args!(
            "max number of clients reached: {} in total (connections-max), {} from one address \
             (connections-per-peer-max). This connection accepts only commands that extend or release a lock",
            app.http.connections_max, app.http.connections_per_peer_max
        )));
    }
    Ok(caller)
}

/// Answers a command immediately, or sends it to the engine.
fn ask(
    party: &mut Party,
    name: &'static str,
    command: Command<'_>,
    together: &mut Together<'_>,
) -> Asked {
    if command == Command::Quit {
        party.is_over = true;
        return Asked::Told(Reply::OK);
    }
    let caller = match admit(party, name, &command) {
        Ok(caller) => caller,
        Err(reply) => return Asked::Told(reply),
    };
    let told = match command {
        Command::Ping(None) => Reply::Status("PONG"),
        Command::Ping(Some(text)) => Reply::Text(text.into()),
        Command::Select(database) => party.select(database),
        Command::Client(Client::Told) => Reply::OK,
        Command::Client(Client::Id) => party.id(),
        Command::Client(Client::Name) => Reply::Nil,
        Command::Info => party::info(),
        Command::Load(sha) => Reply::Text(sha.into()),
        Command::Known(each) => {
            Reply::Array(each.into_iter().map(|known| Reply::Integer(known.into())).collect())
        }
        command => {
            let asking = Asking { party, caller: &caller, together };
            return asking
                .ask(command)
                .unwrap_or_else(|refusal| Asked::Told(refused(party, &caller, name, refusal)));
        }
    };
    Asked::Told(told)
}

/// Runs a command while no other command of the connection is running.
async fn alone(party: &mut Party, name: &'static str, command: Command<'_>) -> Reply {
    match command {
        Command::Auth(password) => return party.authenticate(password).await,
        Command::Hello(protocol, password @ Some(_)) => {
            return party.greet(protocol, password).await;
        }
        _ => {}
    }
    let caller = match admit(party, name, &command) {
        Ok(caller) => caller,
        Err(reply) => return reply,
    };
    match command {
        Command::Hello(protocol, None) => party.greet(protocol, None).await,
        command => match turn::take(party, &caller, command).await {
            Ok(reply) => reply,
            Err(refusal) => refused(party, &caller, name, refusal),
        },
    }
}

fn refused(party: &Party, caller: &Caller, name: &'static str, refusal: Refusal) -> Reply {
    match refusal {
        Refusal::Wrong(reply) => reply,
        Refusal::Denied(denied) => party.refuse(Some(caller), name, denied),
    }
}
