//! Walk-throughs: documents rewritten as calls to a running server, sentence by sentence.
//!
//! A line that starts with `- ` is a sentence. The lines below it show that it is true.
//!
//! ```text
//! - Lock acquired
//! POST /lock?client=one                  a call; a body can follow the path
//! > authorization: Bearer $one           a header of the call
//! = 200 {"holder": "one"}                the expected status, and required members of the response
//! < location /v1/claims/                 a header of the response, and the text it must contain
//! ~ some text                            a text that the response must contain
//! $token = /fencing_token                keeps a member of the response (a JSON pointer)
//! check $later > $token                  compares numbers
//! race 20 POST /leases/acquire {…}       twenty concurrent calls; $n is different in each
//! once 200 else 409                      one call had the first status, all others the second
//! wait 1500                              waits, in milliseconds
//! server quick                           sends later calls to the other server
//! ```
//!
//! In an expected response, `"*"` is anything but null, `"~30"` is a number close to 30, and a member with `"!"` must
//! be missing. `$run` is different in each run, so that a walk-through can be repeated.

mod answer;
mod script;
mod walker;

pub use script::{Script, Sentence};
pub use walker::Walker;
