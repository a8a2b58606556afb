//! Authentication, authorization, the console, and secrets that stay secret.

mod auth;
mod canary;
mod console;
