//! The Redis dialect's chapter of the OpenAPI document. It has no operations, because the protocol is not HTTP.

use crate::app::App;
use crate::contract::Chapter;

const ABOUT: &str = "What lock clients of Redis send, on a listener of its own (`--redis-listen`). It is not HTTP, so \
    there are no calls here; docs/reference/redis.md has the commands.";

pub(crate) fn chapter(_: &App) -> Chapter {
    Chapter::new("redis", ABOUT)
}
