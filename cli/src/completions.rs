//! `leasehold completions`: what a shell should know to complete our command line.

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::exit::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh > ~/.zfunc/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

/// Print a script that completes `leasehold` in a shell.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "leasehold", &mut script);
    print(&with_locks(args.shell, String::from_utf8_lossy(&script).trim_end()))
}

/// Commands whose first word is a lock's name.
const WITH_LOCK: &str = "run acquire renew release status watch history revoke";

/// What the generated script does not know: names of locks, asked of the server.
fn with_locks(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => {
            format!("{script}\n{}", LOCKS_BASH.replace("COMMANDS", &WITH_LOCK.replace(' ', "|")))
        }
        Shell::Fish => format!("{script}\n{}", LOCKS_FISH.replace("COMMANDS", WITH_LOCK)),
        // The generator offers files for every word it knows nothing about.
        Shell::Zsh => {
            let (head, body) = script.split_once('\n').unwrap_or((script, ""));
            let is_lock =
                |line: &str| line.starts_with("':lock --") || line.starts_with("'::lock --");
            let lines = body.lines().map(|line| match is_lock(line) {
                true => line.replace(":_default'", ":_leasehold_locks'"),
                false => line.into(),
            });
            format!("{head}\n{LOCKS_ZSH}{}", lines.collect::<Vec<_>>().join("\n"))
        }
        _ => script.into(),
    }
}

const LOCKS_BASH: &str = r#"
# The names of locks, asked of the server.
_leasehold_with_locks() {
    _leasehold "$@"
    local current="${COMP_WORDS[COMP_CWORD]}" name
    case "${COMP_WORDS[1]}" in
        COMMANDS) ;;
        *) return ;;
    esac
    [[ $current == -* || ${COMP_CWORD} -lt 2 ]] && return
    while IFS= read -r name; do
        [[ $name == "$current"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
    done < <("${COMP_WORDS[0]}" ls --all --names --connect-timeout 0.5 2>/dev/null)
}
complete -F _leasehold_with_locks -o bashdefault -o default leasehold"#;

const LOCKS_FISH: &str = r#"
# The names of locks, asked of the server.
function __leasehold_locks
    leasehold ls --all --names --connect-timeout 0.5 2>/dev/null
end
complete -c leasehold -n "__fish_seen_subcommand_from COMMANDS" -a "(__leasehold_locks)""#;

const LOCKS_ZSH: &str = r#"
# The names of locks, asked of the server.
_leasehold_locks() {
    local -a locks
    locks=(${(f)"$(leasehold ls --all --names --connect-timeout 0.5 2>/dev/null)"})
    compadd -a locks
}
"#;

/// Everything but what is hidden: that is no command for people, and a shell would offer it.
fn shown() -> Command {
    let whole = crate::Cli::command();
    let shown = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("leasehold").version(env!("CARGO_PKG_VERSION")).subcommands(shown.cloned())
}
