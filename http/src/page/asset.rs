//! Style sheet, script and icon of the pages. They are compiled into the binary. Their URLs contain a hash of the
//! content, so browsers can cache them until the content changes.

use std::sync::LazyLock;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use sha2::{Digest, Sha256};

/// A static file.
pub(super) struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
    url: LazyLock<String>,
}

macro_rules! asset {
    ($name:ident, $path:literal, $kind:literal, $file:literal) => {
        pub(super) static $name: Asset = Asset {
            path: $path,
            kind: $kind,
            text: include_str!($file),
            url: LazyLock::new(|| url($path, include_str!($file))),
        };
    };
}

asset!(CSS, "/console/page.css", "text/css; charset=utf-8", "page.css");
asset!(JS, "/console/page.js", "text/javascript; charset=utf-8", "page.js");
asset!(ICON, "/console/icon.svg", "image/svg+xml", "icon.svg");

fn url(path: &str, text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    format!("{path}?{}", leasehold_auth::hex(&digest[..6]))
}

impl Asset {
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn answer(&'static self) -> impl IntoResponse {
        let headers: [(HeaderName, HeaderValue); 3] = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (
                header::CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=31536000, immutable"),
            ),
        ];
        (headers, self.text)
    }
}

/// Returns the routes of the files that every page uses.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    [&CSS, &JS, &ICON].into_iter().fold(Router::new(), |routes, asset: &'static Asset| {
        routes.route(asset.path, get(async move || asset.answer()))
    })
}
