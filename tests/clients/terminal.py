"""psql at a terminal: completion by the tab key, \\watch, Ctrl-C of a statement and of \\watch. Notifications as psql tells them.

Called by .ci/clients, with PGHOST, PGPORT, PGUSER, PGDATABASE and PGPASSWORD set, in a database with the tables of the demo.
"""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

PATIENCE_SECONDS = 60
# What a terminal is told beside text: colours, places, titles.
SEQUENCES = re.compile(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])")


class Terminal:
    """psql, with a terminal in the place of a person's."""

    def __init__(self):
        inputrc = tempfile.NamedTemporaryFile("w", suffix=".inputrc", delete=False)
        inputrc.write("set bell-style none\nset enable-bracketed-paste off\nset show-all-if-ambiguous on\n")
        inputrc.close()
        self.process, self.screen = pty.fork()
        if self.process == 0:
            os.environ.update(INPUTRC=inputrc.name, TERM="dumb", PSQL_HISTORY="/dev/null", COLUMNS="400")
            os.execvp("psql", ["psql", "--no-psqlrc", "--pset=pager=off"])
        self.shown = ""
        self.until(r"=> $")
        os.unlink(inputrc.name)

    def type(self, keys):
        os.write(self.screen, keys.encode())

    def until(self, pattern):
        """Reads until what is shown since the last call has the pattern; gives all up to its end."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = re.search(pattern, self.shown)
            if found:
                passed, self.shown = self.shown[: found.end()], self.shown[found.end() :]
                return passed
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.screen], [], [], left)[0]:
                sys.exit(f"psql did not show {pattern!r} but {self.shown!r}")
            self.read()

    def read(self):
        more = os.read(self.screen, 65536).decode(errors="replace")
        self.shown = SEQUENCES.sub("", self.shown + more).replace("\r", "")

    def completes(self, typed, expected):
        """The tab key makes of what is typed what is expected."""
        self.type(typed + "\t")
        self.until(re.escape(expected))
        print(f"ok: tab: {typed} -> {expected}", flush=True)
        # The line is emptied and given up. Not by Ctrl-C: readline may have a signal wait for the next key.
        self.type("\x15\n")
        self.until(r"\n[^\n]*=> $")

    def stops(self, statement):
        """Ctrl-C stops a statement that runs.

        Before psql has sent the statement, Ctrl-C drops the line, and nothing runs: hence the look at what is active first.
        """
        self.type(statement + ";\n")
        end = time.monotonic() + PATIENCE_SECONDS
        while ask(f"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '{statement}%'") == "0":
            if time.monotonic() > end:
                sys.exit(f"{statement} does not run")
        self.type("\x03")
        self.until(r"ERROR:  canceling statement due to user request\n")
        self.until(r"=> $")
        told = self.runs("SELECT 'there ' || 'again';")
        if "there again\n" not in told:
            sys.exit(f"psql did not go on after {statement} but showed {told!r}")
        print(f"ok: Ctrl-C stops {statement}", flush=True)

    def runs(self, statement):
        self.type(statement + "\n")
        return self.until(r"=> $")


def ask(sql):
    done = subprocess.run(["psql", "--no-psqlrc", "-qAtc", sql], capture_output=True, text=True, check=True)
    return done.stdout.strip()


terminal = Terminal()
for typed, expected in [
    ("SELECT * FROM fligh", "flights "),
    ("SELECT * FROM flights WHERE tailn", "tailnum "),
    ("INSERT INTO airp", "airports "),
    ("UPDATE flights SET dep_de", "dep_delay "),
    ("DROP TABLE weat", "weather "),
    ("DELETE FROM airpo", "airports "),
    ("TRUNCATE flig", "flights "),
    ("ALTER TABLE flights RENAME COLUMN dista", "distance "),
    ("SET search_pa", "search_path "),
    ("SHOW standard_conf", "standard_conforming_strings "),
    ("SELECT * FROM information_schema.column_pri", "information_schema.column_privileges"),
    ("\\d airp", "airports "),
    ("\\dt weat", "weather "),
]:
    terminal.completes(typed, expected)

before = int(ask("SELECT count(*) FROM airports"))
terminal.type("SELECT 'there are ' || count(*) AS told FROM airports \\watch 0.1\n")
for _ in range(3):
    terminal.until(rf"there are {before}\b")
ask("INSERT INTO airports (faa, name) VALUES ('ZZZ', 'Nowhere')")
terminal.until(rf"there are {before + 1}\b")
terminal.type("\x03")
terminal.until(r"=> $")
ask("DELETE FROM airports WHERE faa = 'ZZZ'")
print("ok: \\watch shows what changes, until Ctrl-C", flush=True)

for statement in [
    "SELECT pg_sleep(3600)",
    "SELECT count(*) FROM generate_series(1, 100000000) a, generate_series(1, 1000) b",
    "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b WHERE a.a * b.b = -1",
]:
    terminal.stops(statement)

terminal.runs("LISTEN news;")
ask("NOTIFY news, 'from elsewhere'")
told = terminal.runs("SELECT 1;")
if 'Asynchronous notification "news" with payload "from elsewhere"' not in told:
    sys.exit(f"psql told no notification but {told!r}")
print("ok: psql tells notifications", flush=True)
terminal.type("\\q\n")
_, status = os.waitpid(terminal.process, 0)
if status:
    sys.exit(f"psql ended with {status}")
