//! Decides which requests a follower answers itself and which it forwards to the leader.

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;

use super::area::Area;
use super::record::known;
use super::{Answer, Door, Visitor, Vital, form, large, no_place, protection, refused};
use crate::console;
use crate::dialect::vital::is_on_followers;
use crate::http::forwarded;
use crate::http::media::wants_page;
use crate::peer::{DIRECT, Relay, Unanswered, not_leader};
use leasehold_auth::shares::Client;

impl Door {
    /// Answers the request here if this server leads or the request needs no leader; otherwise forwards it to the
    /// leader.
    pub(super) async fn answer_somewhere<B>(
        &self,
        relay: &Relay,
        visitor: Visitor,
        request: Request<B>,
    ) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        if visitor.link.is_for_peers {
            return relay.attend(self, visitor, request).await;
        }
        if self.0.app.engine.is_leading() || is_answered_here(&visitor, &request) {
            return self.attend(visitor, request, None).await;
        }
        let method = known(request.method());
        let mut answer = self.answer_elsewhere(relay, visitor, request).await;
        // Headers of this server's own responses; the leader's responses have them already.
        protection::add(answer.response.headers_mut());
        self.0.recorder.passed_on(method, answer.response.status());
        answer
    }

    async fn answer_elsewhere<B>(
        &self,
        relay: &Relay,
        mut visitor: Visitor,
        mut request: Request<B>,
    ) -> Answer
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let app = &self.0.app;
        form::drop_extra_slashes(request.uri_mut());
        if let Err(why) = form::check(&request, visitor.link.is_unix()) {
            return refused(&why).into();
        }
        // The leader identifies the caller, so only the address is known here.
        if let Some(stream) = &visitor.stream {
            let trusted = &app.http.trusted_proxies;
            let from = forwarded::client(request.headers(), visitor.peer, trusted);
            let client = Client::of_network(app.http.network_of(from));
            visitor.is_restricted |= !stream.enter(&client);
            if let Err(refused) = large::enter(app, &visitor, &client, &request) {
                return (*refused).into();
            }
        }
        // Only the leader can tell whether a request that might renew does so.
        if visitor.is_restricted && Vital::of(&request) == Vital::Never {
            return no_place(app, &visitor).into();
        }
        if request.headers().get(DIRECT).is_some_and(|direct| direct == "1") {
            let leader = app.engine.whereabouts().borrow().leader.clone();
            return not_leader(leader.as_deref()).into();
        }
        let is_page = Area::asked(&request) == Area::Console
            && wants_page(request.method(), request.headers());
        let page = is_page.then(|| request.uri().clone());
        let answer = relay.pass_on(self, visitor, request.map(Body::new)).await;
        match page.filter(|_| answer.response.extensions().get::<Unanswered>().is_some()) {
            Some(uri) => console::unled(&uri).into(),
            None => answer,
        }
    }
}

/// Returns whether any server can answer: health, metrics and events. Followers read the same journal as the leader.
fn is_answered_here<B>(visitor: &Visitor, request: &Request<B>) -> bool {
    let path = request.uri().path();
    match Area::of(path) {
        Area::Health | Area::Metrics | Area::Docs => true,
        Area::Console => false,
        Area::Transfer | Area::Rest => {
            visitor.link.is_for_metrics || is_on_followers(request.method(), path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_told_by_every_server_and_what_is_by_the_one_that_leads() {
        let is_here = |line: &str| {
            let (method, target) = line.split_once(' ').expect("a method and a target");
            let request = Request::builder().method(method).uri(target).body(());
            is_answered_here(&Visitor::LOCAL, &request.expect("a request"))
        };
        for line in [
            "GET /readyz",
            "GET /leaderz",
            "GET /metrics",
            "GET /openapi.json",
            "GET /docs/docs.css",
            "GET /v1/events?since=1",
            "GET //v1/events",
            "GET /v1/namespaces/a/events",
            "GET /v1/locks/a/history",
            "GET /v1/namespaces/a/locks/b/history",
            "GET /v1/namespaces/a/history",
        ] {
            assert!(is_here(line), "{line}");
        }
        for line in [
            "GET /v1/locks",
            "GET /v1/locks/history",
            "GET /v1/locks/events",
            "GET /v1/namespaces/a/locks/history",
            "POST /v1/events",
            "POST /v1/locks/a/acquire",
            "GET /console",
            "GET /",
            "GET /lock",
        ] {
            assert!(!is_here(line), "{line}");
        }
    }
}
