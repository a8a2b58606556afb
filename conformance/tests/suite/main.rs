//! The suite with Rust's driver, and the suite judged itself: deliberate bugs are found.

mod bugs;
mod page;
mod rust;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use leasehold_conformance::subject::Setup;

/// One after the other: each run wants the machine for itself.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The server's binary. It is another package's, so cargo does not build it for us, unless all packages are tested:
/// then `LEASEHOLD_BIN` says where it is. Built alone it has other features, and so has everything it is made of.
fn server() -> PathBuf {
    static SERVER: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        if let Ok(built) = std::env::var("LEASEHOLD_BIN") {
            return built.into();
        }
        let cargo = std::env::var("CARGO").unwrap_or("cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "-p", "leasehold-cli", "--bin", "leasehold"]);
        build.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        assert!(build.status().is_ok_and(|status| status.success()), "the server does not build");
        let beside = PathBuf::from(env!("CARGO_BIN_EXE_rust-driver"));
        beside.with_file_name("leasehold")
    };
    SERVER.get_or_init(build).clone()
}

fn setup(driver: &str) -> Setup {
    Setup { server: server(), driver: vec![driver.into()], environment: Vec::new() }
}
