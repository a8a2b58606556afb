//! This crate contains only tests. They read the whole source tree and check the rules that a tool can check, so that
//! reviewers can concentrate on the others.
