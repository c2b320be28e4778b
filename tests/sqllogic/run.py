#!/usr/bin/env python3
"""SQLite's logic tests, statement by statement, on Keyspan.

    mvn dependency:get -Dartifact=net.hydromatic:sql-logic-test:0.3 -Dtransitive=false
    pip install 'psycopg[binary]'
    tests/sqllogic/run.py --jar ~/.m2/repository/net/hydromatic/sql-logic-test/0.3/sql-logic-test-0.3.jar \\
        --keyspan 'host=127.0.0.1 port=5432 user=keyspan password=…' [--postgres '…'] [random/select index/between/1]

The files are those of https://sqlite.org/sqllogictest, which the Maven artifact net.hydromatic:sql-logic-test carries.
Each runs in a database of its own, made anew, with what the files say of `postgresql` by `skipif` and `onlyif`. Their
answers are SQLite's: where Keyspan gives another one and --postgres names a server, the file so far is run there, and
PostgreSQL's answer is the one that counts.

A statement

    agrees     gives the values that the file has, or fails as it says, or answers as PostgreSQL does;
    refused    is an error of class 0A (not supported), or names a relation that such a statement would have made or
               filled;
    fails      is another error;
    differs    gives other values.

The exit code is 1 if one differs or fails, or if Keyspan said XX000 or lost the connection.
"""

import argparse
import collections
import hashlib
import pathlib
import re
import sys
import zipfile

from psycopg import pq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import sessions  # noqa: E402

TIMEOUT = "60s"
# What a statement makes or fills.
MAKES = re.compile(r"(?:create\s+(?:temp\w*\s+)?(?:table|view)|insert\s+into)\s+\"?(\w+)", re.I)
KINDS = ("agrees", "refused", "fails", "differs", "broken")


def records(text):
    """The statements and queries of a file: (line, kind, what is expected of it, SQL, the lines of its values)."""
    first = 1
    for block in re.split(r"\n(?:[ \t\r]*\n)", text):
        line, first = first, first + block.count("\n") + 2
        lines = block.replace("\r", "").split("\n")
        while lines and not lines[0].strip():
            lines.pop(0)
            line += 1
        skipped = False
        while lines and (lines[0].startswith(("#", "skipif", "onlyif", "halt", "hash-threshold"))):
            words = lines[0].split("#")[0].split()
            if words[:1] == ["skipif"]:
                skipped |= words[1] == "postgresql"
            elif words[:1] == ["onlyif"]:
                skipped |= words[1] != "postgresql"
            elif words[:1] == ["halt"] and not skipped:
                return
            lines.pop(0)
            line += 1
        if skipped or not lines:
            continue
        words = lines[0].split("#")[0].split() or ["comment"]
        if words[0] == "statement":
            yield line, "statement", words[1], "\n".join(lines[1:]), []
        elif words[0] == "query":
            at = lines.index("----") if "----" in lines else len(lines)
            yield line, "query", words[1:3], "\n".join(lines[1:at]), lines[at + 1 :]


class Server:
    """One session in a database made anew. `run` gives ("ok", rows) or ("error", SQLSTATE, message)."""

    def __init__(self, address, maintenance, database):
        self.connection = sessions.connect(sessions.remake(address, maintenance, database))
        self.connection.exec_(f"SET statement_timeout = '{TIMEOUT}'".encode())

    def run(self, text):
        result = self.connection.exec_(text.encode())
        if self.connection.status != pq.ConnStatus.OK:
            return ("error", "lost", "the connection was lost")
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
            columns = range(result.nfields)
            return ("ok", [[result.get_value(row, column) for column in columns] for row in range(result.ntuples)])
        code = result.error_field(pq.DiagnosticField.SQLSTATE)
        return ("error", code.decode() if code else "lost", result.error_message.decode(errors="replace").strip())

    def close(self):
        self.connection.finish()


def shown(value, kind):
    """A value as the files print it: `I` as an integer, `R` with three digits behind the point, `T` as a text."""
    if value is None:
        return "NULL"
    text = value.decode(errors="replace")
    try:
        if kind == "I":
            return str(int(float(text))) if "." in text or "e" in text else str(int(text))
        if kind == "R":
            return f"{float(text):.3f}"
    except ValueError:
        return {"t": "1", "f": "0"}.get(text, text)
    text = "".join(char if " " <= char <= "~" else "@" for char in text)
    return text or "(empty)"


def listed(rows, types, sort):
    """The values of rows in the files' order."""
    rows = [[shown(value, types[min(at, len(types) - 1)]) for at, value in enumerate(row)] for row in rows]
    if sort == "rowsort":
        rows.sort()
    values = [value for row in rows for value in row]
    return sorted(values) if sort == "valuesort" else values


def agrees(values, expected):
    if len(expected) == 1 and (found := re.fullmatch(r"(\d+) values hashing to ([0-9a-f]{32})", expected[0])):
        digest = hashlib.md5("".join(value + "\n" for value in values).encode()).hexdigest()
        return len(values) == int(found.group(1)) and digest == found.group(2)
    # Values of several columns may stand on one line.
    return values == expected or values == " ".join(expected).split()


def judge(kind, what, answer, expected):
    if answer[0] == "error":
        if kind == "statement" and what == "error":
            return "agrees"
        if answer[1] in ("lost", "XX000"):
            return "broken"
        return "refused" if answer[1].startswith("0A") else "fails"
    if kind == "statement":
        return "differs" if what == "error" else "agrees"
    sort = what[1] if len(what) > 1 else "nosort"
    return "agrees" if agrees(listed(answer[1], what[0], sort), expected) else "differs"


class Arbiter:
    """PostgreSQL, asked only where Keyspan's answer is not SQLite's: then it gets the file's statements so far."""

    def __init__(self, address, database):
        self.address, self.database, self.server, self.pending = address, database, None, []

    def says(self, text, what):
        """The values that PostgreSQL gives; `None` where it fails, or where there is none to ask."""
        if self.address is None:
            return None
        if self.server is None:
            self.server = Server(self.address, "postgres", self.database)
        for statement in self.pending:
            self.server.run(statement)
        self.pending = []
        answer = self.server.run(text)
        if answer[0] == "error":
            return ("error",)
        return listed(answer[1], what[0], what[1] if len(what) > 1 else "nosort") if isinstance(what, list) else []


def run_file(name, text, options):
    server = Server(options.keyspan, "keyspan", options.database)
    arbiter = Arbiter(options.postgres, options.database)
    count, missing = collections.Counter(), set()
    for line, kind, what, sql, expected in records(text):
        answer = server.run(sql)
        verdict = judge(kind, what, answer, expected)
        if verdict in ("differs", "fails") and missing.intersection(re.findall(r"\w+", sql.lower())):
            verdict = "refused"
        if verdict == "refused" and (made := MAKES.search(sql)):
            missing.add(made.group(1).lower())
        if verdict in ("differs", "fails") and (other := arbiter.says(sql, what)) is not None:
            if answer[0] == "error":
                verdict = "agrees" if other == ("error",) else verdict
            elif other == (listed(answer[1], what[0], what[1] if len(what) > 1 else "nosort") if kind == "query" else []):
                verdict = "agrees"
        elif kind == "statement":
            arbiter.pending.append(sql)
        count[verdict] += 1
        if verdict not in ("agrees", "refused") or options.verbose and verdict == "refused":
            found = " ".join(str(part) for part in answer[1:])[:300] if answer[0] == "error" else str(answer[1])[:300]
            print(f"\n{name}:{line} {verdict}\n    {' '.join(sql.split())[:300]}\n    expected: {expected[:6]}\n    Keyspan:  {found}")
        if verdict == "broken" and answer[1] == "lost":
            break
    server.close()
    if arbiter.server:
        arbiter.server.close()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--jar", required=True, help="the Maven artifact net.hydromatic:sql-logic-test")
    parser.add_argument("--keyspan", required=True, help="where Keyspan is, as libpq's words, for an operator")
    parser.add_argument("--postgres", help="where PostgreSQL is, for what SQLite answers otherwise")
    parser.add_argument("--database", default="sqllogic", help="made anew for each file; runs at a time need their own")
    parser.add_argument("--every", type=int, default=1, help="take every N-th file only")
    parser.add_argument("--verbose", action="store_true", help="print what is refused, too")
    parser.add_argument("files", nargs="*", help="how the names of files begin: random, index/between, select1")
    options = parser.parse_args()
    with zipfile.ZipFile(options.jar) as jar:
        names = [name for name in jar.namelist() if name.startswith("test/") and name.endswith(".test")]
        names = sorted(name.removeprefix("test/") for name in names)
        names = [name for name in names if not options.files or name.startswith(tuple(options.files))]
        folders, total = {}, collections.Counter()
        for at, name in enumerate(names[:: options.every]):
            count = run_file(name, jar.read(f"test/{name}").decode(), options)
            folder = "/".join(name.split("/")[:2]) if "/" in name else name
            folders.setdefault(folder, collections.Counter()).update(count)
            total.update(count)
            if sys.stderr.isatty():
                print(f"\r{at + 1} of {len(names[:: options.every])} files ", end="", file=sys.stderr)
    print(f"{'files':24}" + "".join(f"{kind:>9}" for kind in KINDS) + "      all   agree")
    for folder, count in [*folders.items(), ("all", total)]:
        whole = sum(count.values())
        share = 100 * count["agrees"] / whole if whole else 100
        print(f"{folder:24}" + "".join(f"{count[kind]:>9}" for kind in KINDS) + f"{whole:>9} {share:6.1f}%")
    sys.exit(1 if total["fails"] or total["differs"] or total["broken"] else 0)


if __name__ == "__main__":
    main()
