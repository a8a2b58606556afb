//! Runs the suite with the Rust driver, and tests that the suite finds deliberate bugs.

mod bugs;
mod page;
mod rust;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use leasehold_conformance::subject::Setup;

/// Makes the tests run one at a time, because each run needs the whole machine.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns the path of the server's binary. It belongs to another package, so cargo builds it only if all packages are
/// tested; then `LEASEHOLD_BIN` contains its path. Otherwise it is built here, with the features of that package alone.
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
