//! Nothing to call: this crate is its tests. They read the whole tree and check what a tool can check, so that
//! people review only what a tool cannot.
