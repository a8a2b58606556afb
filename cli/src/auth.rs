//! `leasehold auth`: creates the auth file and its key file.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use leasehold_auth::NewKey;
use serde_json::json;

use crate::ask::told;
use crate::exit::Failure;
use crate::key;
use crate::key_file::{self, KEYS};
use crate::output::{OutputArgs, print, print_json};

/// Create the files that control access.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  leasehold auth init --auth-file auth.toml")]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Subcommand, Debug)]
enum AuthCommand {
    /// Create an auth file and a key file, and print an admin key once.
    #[command(after_help = "Example:\n  leasehold auth init --auth-file auth.toml\n  \
                            leasehold serve --listen 0.0.0.0:8080 --auth-file auth.toml")]
    Init {
        /// Path of the auth file; the key file is created next to it.
        #[arg(long, env = "LEASEHOLD_AUTH_FILE", default_value = "auth.toml")]
        auth_file: PathBuf,
        #[command(flatten)]
        output: OutputArgs,
    },
}

pub(crate) fn auth(args: &AuthArgs) -> Result<(), Failure> {
    let AuthCommand::Init { auth_file, output } = &args.command;
    told(*output, init(auth_file, *output))
}

fn init(auth_file: &Path, output: OutputArgs) -> Result<(), Failure> {
    let keys = key_file::folder(auth_file).join(KEYS);
    for file in [auth_file, keys.as_path()] {
        if file.exists() {
            return Err(Failure::from(format!("{} exists already", file.display())));
        }
    }
    let key = NewKey::draw();
    key_file::write(&keys, &key::entry("admin", &key, None))?;
    key_file::write(auth_file, &file())?;
    let (shown_file, shown_keys) = (auth_file.display(), keys.display());
    let shown = if output.json {
        let (auth_file, key_file) = (shown_file.to_string(), shown_keys.to_string());
        print_json(&json!({
            "auth_file": auth_file, "key_file": key_file, "principal": "key:admin", "id": key.id, "key": key.text,
        }))
    } else {
        print(&format!(
            "wrote {shown_file} and {shown_keys}\nthe API key of key:admin, shown only once:\n{}",
            key.text
        ))
    };
    // The printed key is the only copy. If it could not be printed, the files are useless, and would make the next
    // attempt fail.
    shown.inspect_err(|_| {
        for file in [auth_file, keys.as_path()] {
            let _ = std::fs::remove_file(file);
        }
    })
}

fn file() -> String {
    format!(
        "# Access rules. The server rereads this file every two seconds; `leasehold check-config --auth-file` checks \
         it.\n\
         # Rights: read, acquire, revoke, files-read, files-write, admin. Only a * at the end of a name is special.\n\
         version = 1\n\
         key-files = [\"{KEYS}\"]\n{}",
        key::rule("admins", "admin", &["admin".into()], &["*".into()])
    )
}
