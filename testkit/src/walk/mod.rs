//! Walk-throughs: documents retold as calls to a running server, one sentence after the other.
//!
//! A line that begins with `- ` is a sentence; the lines below it show that it is true.
//!
//! ```text
//! - Lock acquired
//! POST /lock?client=one                  a call; a body may follow the path
//! > authorization: Bearer $one           a header of it
//! = 200 {"holder": "one"}                its status, and members its answer must have
//! < location /v1/claims/                 a header of the answer, and what it must contain
//! ~ some text                            what the answer must contain
//! $token = /fencing_token                keep a member of the answer (a JSON pointer)
//! check $later > $token                  compare numbers
//! race 20 POST /leases/acquire {…}       twenty calls at once; $n is different in each
//! once 200 else 409                      one was answered so, the others otherwise
//! wait 1500                              milliseconds
//! server quick                           from here on, ask the other server
//! ```
//!
//! In what is expected, `"*"` is anything but null, `"~30"` is a number close to 30, `"!"` must not be there. `$run`
//! is different in each run, so that a walk can be repeated.

mod answer;
mod script;
mod walker;

pub use script::{Script, Sentence};
pub use walker::Walker;
