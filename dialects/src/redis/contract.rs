//! The Redis dialect's chapter of the OpenAPI document. It has no operations, because the protocol is not HTTP.

use crate::app::App;
use crate::contract::Chapter;

const ABOUT: &str = "The commands of Redis lock clients, on a separate listener (`--redis-listen`). The protocol is \
    not HTTP, so this section has no calls; docs/reference/redis.md lists the commands.";

pub(crate) fn chapter(_: &App) -> Chapter {
    Chapter::new("redis", ABOUT)
}
