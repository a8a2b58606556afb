//! Shapes for states and events, so that users do not have to distinguish colors.

use maud::{Markup, html};

/// The shape of an icon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// A full disc.
    Full,
    /// A ring.
    Ring,
    /// A disc that is half full.
    Half,
    /// Two triangles, as in an hourglass.
    Hourglass,
    /// A cross.
    Cross,
    /// An exclamation mark.
    Mark,
}

impl Shape {
    /// Renders the shape.
    pub fn draw(self) -> Markup {
        html! {
            svg viewBox="0 0 16 16" aria-hidden="true" focusable="false" {
                @match self {
                    Shape::Full => circle cx="8" cy="8" r="6.5" fill="currentColor" {},
                    Shape::Ring => (ring()),
                    Shape::Half => {
                        (ring())
                        path d="M8 2.6a5.4 5.4 0 0 1 0 10.8z" fill="currentColor" {}
                    }
                    Shape::Hourglass => path d="M2.5 1.5h11L8 8zM2.5 14.5h11L8 8z" fill="currentColor" {},
                    Shape::Cross => {
                        path d="M3 3l10 10M13 3L3 13" fill="none" stroke="currentColor" stroke-width="2.6" {}
                    }
                    Shape::Mark => path d="M6.6 1.5h2.8l-.6 8.4H7.2zM6.6 11.7h2.8v2.8H6.6z" fill="currentColor" {},
                }
            }
        }
    }
}

fn ring() -> Markup {
    html! { circle cx="8" cy="8" r="5.4" fill="none" stroke="currentColor" stroke-width="2.2" {} }
}

/// Renders a state as an icon and a word. `class` is its name in the style sheet.
pub fn state(class: &str, shape: Shape, word: &str) -> Markup {
    html! { span class={ "state " (class) } { (shape.draw()) span { (word) } } }
}
