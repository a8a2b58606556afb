//! The toy dialect's chapter of the OpenAPI document.

use crate::app::App;
use crate::contract::{Chapter, Operation};

pub(crate) fn chapter(_: &App) -> Chapter {
    let greet = Operation::new("get", "/toy", "greet", "Be greeted");
    Chapter::new("toy", "A dialect for tests").with([greet.answer_text(
        200,
        "text/plain; charset=utf-8",
        "A greeting.",
    )])
}
