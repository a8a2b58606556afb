"""Runs the `sh` blocks of a page in one shell and compares what they print with the `text` blocks below them.

usage: tour.py PAGE FOLDER, which is left as it was found. Numbers and secrets may differ, and so may spaces.
"""

import os
import re
import subprocess
import sys

MARK = "--- end of block"
SECONDS_MAX = 900


def main():
    page, folder = sys.argv[1:]
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"^```(sh|text)\n(.*?)^```$", file.read(), re.M | re.S)
    before = set(os.listdir(folder))
    commands = [text for kind, text in blocks if kind == "sh"]
    printed = run(commands, folder)
    if len(printed) != len(commands):
        sys.exit(f"{page}: block {len(printed) + 1} of {len(commands)} was not finished:\n{commands[len(printed)]}")
    n_commands = 0
    for kind, text in blocks:
        if kind == "sh":
            n_commands += 1
        elif masked(text) != masked(printed[n_commands - 1]):
            sys.exit(f"{page}: expected of block {n_commands}:\n{text}\nbut it printed:\n{printed[n_commands - 1]}")
    if left := set(os.listdir(folder)) ^ before:
        sys.exit(f"{page}: it leaves behind: {sorted(left)}")
    print(f"{page}: {n_commands} blocks do what they say")


def run(commands, folder):
    """What each block printed, up to the first that failed."""
    script = "ip link set lo up\n" + "".join(f"{command}echo '{MARK}'\n" for command in commands)
    # No network but loopback, so that the server can have its usual port; whatever is still running ends with the shell.
    shell = ["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-e", "-c", script]
    if os.geteuid() != 0:
        shell.insert(1, "--map-root-user")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    done = subprocess.run(
        shell, cwd=folder, env=environment, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )
    pieces = done.stdout.split(f"{MARK}\n")
    if done.returncode != 0:
        print(pieces[-1], file=sys.stderr)
    return pieces[:-1]


def masked(text):
    """The lines in any order: programs that run at the same time print when they like."""
    digits = (re.sub(r"\d+\.[0-9a-f]{32}|[0-9a-f]{32}|\d+(\.\d+)?", "0", line) for line in text.splitlines())
    lines = (re.sub(r"\s+", " ", line).strip() for line in digits)
    return sorted(line for line in lines if line)


main()
