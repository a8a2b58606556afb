//! Tests of authentication, authorization, the console, and the protection of secrets.

mod auth;
mod canary;
mod console;
