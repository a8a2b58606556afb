//! `leasehold auth`: the files that say who may do what.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use leasehold_server::auth::NewKey;

use crate::exit::Failure;
use crate::key;
use crate::key_file::{self, KEYS};
use crate::output::print;

/// Make the files that say who may do what.
#[derive(Args, Debug)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(Subcommand, Debug)]
enum AuthCommand {
    /// Write an auth file, a key file, and show an admin's key once.
    #[command(after_help = "Example:\n  leasehold auth init --auth-file auth.toml\n  \
                            leasehold serve --listen 0.0.0.0:8080 --auth-file auth.toml")]
    Init {
        /// Where to write it; the key file goes beside it.
        #[arg(long, env = "LEASEHOLD_AUTH_FILE", default_value = "auth.toml")]
        auth_file: PathBuf,
    },
}

pub(crate) fn auth(args: &AuthArgs) -> Result<(), Failure> {
    let AuthCommand::Init { auth_file } = &args.command;
    let keys = key_file::folder(auth_file).join(KEYS);
    for file in [auth_file, &keys] {
        if file.exists() {
            return Err(Failure::from(format!("{} is there already", file.display())));
        }
    }
    let key = NewKey::draw();
    key_file::write(&keys, &key::entry("admin", &key, None))?;
    key_file::write(auth_file, &file())?;
    print(&format!(
        "wrote {} and {}\nthe key of key:admin, shown only now:\n{}",
        auth_file.display(),
        keys.display(),
        key.text
    ))
}

fn file() -> String {
    format!(
        "# Who may do what. The server looks at it every two seconds; `leasehold check-config --auth-file` checks it.\n\
         # Rights: read, acquire, revoke, files-read, files-write, admin. Only a * at the end of a name is special.\n\
         version = 1\n\
         key-files = [\"{KEYS}\"]\n{}",
        key::rule("admins", "admin", &["admin".into()], &["*".into()])
    )
}
