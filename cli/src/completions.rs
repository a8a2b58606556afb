//! `leasehold completions`: scripts that complete our command line in a shell.

use clap::{Arg, Args, Command, CommandFactory};
use clap_complete::Shell;

use crate::exit::Failure;
use crate::output::print;

const EXAMPLES: &str = "\
Examples:
  leasehold completions bash > ~/.local/share/bash-completion/completions/leasehold
  leasehold completions zsh > ~/.zfunc/_leasehold
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish";

/// Print a completion script for a shell.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for.
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "leasehold", &mut script);
    print(&with_locks(args.shell, String::from_utf8_lossy(&script).trim_end()))
}

/// Commands whose first argument is the name of a lock.
const WITH_LOCK: [&str; 8] =
    ["run", "acquire", "renew", "release", "status", "watch", "history", "revoke"];

/// Adds to the generated script the completion of lock names, which it reads from the server.
fn with_locks(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => {
            let values = value_flags().join("|");
            let more = LOCKS_BASH.replace("COMMANDS", &WITH_LOCK.join("|"));
            format!("{script}\n{}", more.replace("VALUE_FLAGS", &values))
        }
        Shell::Fish => {
            let values = value_flags().join(" ");
            let more = LOCKS_FISH.replace("COMMANDS", &WITH_LOCK.join(" "));
            format!("{script}\n{}", more.replace("VALUE_FLAGS", &values))
        }
        // The generator offers file names for every argument that it knows nothing about.
        Shell::Zsh => {
            let (head, body) = script.split_once('\n').unwrap_or((script, ""));
            let begins = ["':lock --", "'::lock --", "'*-l+[", "'*--lock=["];
            let is_lock = |line: &str| begins.iter().any(|begin| line.starts_with(begin));
            let lines = body.lines().map(|line| match is_lock(line) {
                true => line.replace(":_default'", ":_leasehold_locks'"),
                // What follows the lock is a separate command line.
                false if line.starts_with("'*::words -- ") => line
                    .replace("'*::words -- ", "'*:::words -- ")
                    .replace(":_default'", ":_normal'"),
                false => line.into(),
            });
            format!("{head}\n{LOCKS_ZSH}{}", lines.collect::<Vec<_>>().join("\n"))
        }
        _ => script.into(),
    }
}

/// Returns the flags of those commands that take a value: the word after such a flag is not the name of a lock.
fn value_flags() -> Vec<String> {
    let whole = shown();
    let commands = whole.get_subcommands().filter(|it| WITH_LOCK.contains(&it.get_name()));
    let mut flags: Vec<_> = commands
        .flat_map(Command::get_arguments)
        .filter(|arg| !arg.is_positional() && takes_next(arg) && arg.get_id() != "locks")
        .flat_map(|arg| {
            let long = arg.get_long_and_visible_aliases().unwrap_or_default();
            let short = arg.get_short_and_visible_aliases().unwrap_or_default();
            let long = long.into_iter().map(|name| format!("--{name}"));
            long.chain(short.into_iter().map(|letter| format!("-{letter}"))).collect::<Vec<_>>()
        })
        .collect();
    flags.sort();
    flags.dedup();
    flags
}

/// Returns whether the word after the flag is its value.
pub(crate) fn takes_next(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

const LOCKS_BASH: &str = r#"
# The names of locks, asked of the server.
_leasehold_locks() {
    local name
    COMPREPLY=()
    while IFS= read -r name; do
        [[ $name == "$1"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
    done < <("${COMP_WORDS[0]}" ls --all --names --connect-timeout 0.5 2>/dev/null)
}
_leasehold_with_locks() {
    local current="${COMP_WORDS[COMP_CWORD]}" n n_words=0 has_locks=0
    _leasehold "$@"
    case "${COMP_WORDS[1]}" in
        COMMANDS) ;;
        *) return ;;
    esac
    [[ ${COMP_CWORD} -lt 2 ]] && return
    # How many words there are before this one that are neither flags nor their values.
    for ((n = 2; n < COMP_CWORD; n++)); do
        case "${COMP_WORDS[n]}" in
            -l | --lock) has_locks=1 n=$((n + 1)) ;;
            VALUE_FLAGS) n=$((n + 1)) ;;
            -*) ;;
            *) n_words=$((n_words + 1)) ;;
        esac
        # The words of a command are none of ours.
        if [[ ${COMP_WORDS[1]} == run ]] && ((n_words + has_locks > 1 && n_words > 0)); then
            COMPREPLY=()
            return
        fi
    done
    if ((n > COMP_CWORD)); then
        # The value of a flag: only that of -l is a lock.
        case "${COMP_WORDS[COMP_CWORD - 1]}" in
            -l | --lock) _leasehold_locks "$current" ;;
        esac
    elif [[ $current == -* ]]; then
        return
    elif ((n_words == 0 && !has_locks)); then
        _leasehold_locks "$current"
    elif [[ ${COMP_WORDS[1]} == run ]]; then
        COMPREPLY=()
        while IFS= read -r n; do COMPREPLY+=("$n"); done < <(compgen -c -- "$current")
    fi
}
complete -F _leasehold_with_locks -o bashdefault -o default leasehold"#;

const LOCKS_FISH: &str = r#"
# The names of locks, asked of the server.
function __leasehold_locks
    leasehold ls --all --names --connect-timeout 0.5 2>/dev/null
end
# Whether the word at the cursor is a lock's name: the first that is neither a flag nor the value of one.
function __leasehold_wants_lock
    set -l words (commandline -opc)
    set -l is_value 0
    for word in $words[3..]
        if test $is_value = 1
            set is_value 0
        else if contains -- $word VALUE_FLAGS
            set is_value 1
        else if contains -- $word -l --lock; or not string match -q -- '-*' $word
            return 1
        end
    end
    return 0
end
complete -c leasehold -n "__fish_seen_subcommand_from COMMANDS; and __leasehold_wants_lock" -a "(__leasehold_locks)"
complete -c leasehold -n "__fish_leasehold_using_subcommand run" -s l -l lock -x -a "(__leasehold_locks)""#;

const LOCKS_ZSH: &str = r#"
# The names of locks, asked of the server.
_leasehold_locks() {
    local -a locks
    locks=(${(f)"$(leasehold ls --all --names --connect-timeout 0.5 2>/dev/null)"})
    compadd -a locks
}
"#;

/// Returns the command line without hidden commands and flags: they are internal, and a shell would offer them.
fn shown() -> Command {
    visible(&crate::Cli::command()).version(env!("CARGO_PKG_VERSION"))
}

fn visible(whole: &Command) -> Command {
    let arguments = whole.get_arguments().filter(|arg| !arg.is_hide_set()).cloned();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).map(visible);
    let name = whole.get_name().to_owned();
    let visible = Command::new(name).args(arguments).subcommands(commands);
    match whole.get_about() {
        Some(about) => visible.about(about.clone()),
        None => visible,
    }
}
