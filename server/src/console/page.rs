//! A plain page: some words, nothing that runs.

use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::http::html::escape;

const STYLE: &str = ":root { color-scheme: light dark } \
    body { font: 16px/1.5 system-ui, sans-serif; max-width: 30rem; margin: 3rem auto; padding: 0 1rem }";

/// A page that is being written.
pub(super) struct Page {
    title: String,
    refresh: String,
    body: String,
}

impl Page {
    pub(super) fn new(title: &str) -> Self {
        Self { title: escape(title), refresh: String::new(), body: String::new() }
    }

    /// Words, whatever is in them.
    pub(super) fn text(mut self, text: &str) -> Self {
        self.body += &format!("<p>{}</p>", escape(text));
        self
    }

    /// Markup of our own.
    pub(super) fn html(mut self, html: &str) -> Self {
        self.body += html;
        self
    }

    /// Goes on to this path of ours by itself.
    pub(super) fn refresh(mut self, to: &str) -> Self {
        let to = escape(to);
        self.refresh = format!("<meta http-equiv=\"refresh\" content=\"0;url={to}\">");
        self.html(&format!("<p><a href=\"{to}\">Go on</a></p>"))
    }

    pub(super) fn answer(self, status: StatusCode) -> Response {
        let nonce = format!("{:032x}", u128::from_be_bytes(crate::random::bytes()));
        let Self { title, refresh, body } = self;
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">{refresh}<title>{title}</title>\
             <style nonce=\"{nonce}\">{STYLE}</style></head><body><h1>{title}</h1>{body}</body></html>\n"
        );
        let policy = format!(
            "default-src 'none'; style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'self'; \
             frame-ancestors 'none'"
        );
        let headers: [(HeaderName, String); 4] = [
            (header::CONTENT_TYPE, "text/html; charset=utf-8".into()),
            (header::CACHE_CONTROL, "no-store".into()),
            (header::CONTENT_SECURITY_POLICY, policy),
            (header::REFERRER_POLICY, "same-origin".into()),
        ];
        (status, headers, html).into_response()
    }
}
