#!/usr/bin/env python3
"""Makes a store as a version of Keyspan leaves it, for the test that opens it with every later one.

    tests/stores/make.py BINARY NAME

BINARY is the `keyspan` of that version; NAME becomes the folder, for example its commit. `first.sql` is run, the server
stops; `second.sql` is run, `ask.sql` is asked, and the server is killed. What its folder holds goes to NAME/store, each
file by zstd, and the answers to NAME/answers.txt. Needs psql and zstd.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
# Those of the tests' harness.
OPERATOR_PASSWORD = "operator's password"
PASSWORDS = f"*:*:*:keyspan:{OPERATOR_PASSWORD}\n*:*:*:*:pass word\n"


class Server:
    """The version's server over a store, with memtables so small that there are segments."""

    def __init__(self, binary, store):
        arguments = [binary, "serve", "--store", store, "--listen", "127.0.0.1:0", "--memtable-size", "64KiB"]
        environment = {**os.environ, "KEYSPAN_PASSWORD": OPERATOR_PASSWORD}
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment)
        self.passwords = f"{store}.passwords"
        descriptor = os.open(self.passwords, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(PASSWORDS)
        self.port = self.process.stdout.readline().rpartition(":")[2].strip()

    def psql(self, database, role, *arguments):
        """Runs psql; its standard output."""
        connection = f"host=127.0.0.1 port={self.port} dbname={database} user={role}"
        environment = {**os.environ, "PGPASSFILE": self.passwords}
        command = ["psql", connection, "-X", "-q", "-v", "ON_ERROR_STOP=1", *arguments]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=environment)
        if done.returncode != 0:
            self.stop(signal.SIGKILL)
            sys.exit(f"psql {' '.join(map(str, arguments))}")
        return done.stdout

    def stop(self, by):
        """Ends it by a signal."""
        self.process.send_signal(by)
        self.process.wait()
        os.unlink(self.passwords)


def answers(server, moment):
    """What `ask.sql` gives: each line, and its rows. A moment between the two files is filled in."""
    text, database, role = "", "keyspan", "keyspan"
    for line in (HERE / "ask.sql").read_text().replace("{moment}", moment).splitlines():
        if line.startswith("\\connect "):
            _, database, role = line.split()
        else:
            rows = server.psql(database, role, "-A", "-t", "-P", "null=NULL", "-c", line)
        text += f"{line}\n" if line.startswith("\\") else f"{line}\n{rows}\n"
    return text


def main():
    """Makes the folder."""
    binary, name = sys.argv[1:]
    target = HERE / name
    with tempfile.TemporaryDirectory() as store:
        server = Server(binary, store)
        server.psql("keyspan", "keyspan", "-f", HERE / "first.sql")
        moment = server.psql("keyspan", "keyspan", "-A", "-t", "-c", "SELECT now()").strip()
        server.stop(signal.SIGTERM)
        server = Server(binary, store)
        server.psql("keyspan", "keyspan", "-f", HERE / "second.sql")
        text = answers(server, moment)
        server.stop(signal.SIGKILL)
        for file in sorted(Path(store).rglob("*")):
            packed = target / "store" / file.relative_to(store)
            if file.is_file():
                packed.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["zstd", "-q", "-19", "-o", f"{packed}.zst", file], check=True)
    (target / "answers.txt").write_text(text)


main()
