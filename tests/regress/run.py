#!/usr/bin/env python3
"""PostgreSQL's own regression files, statement by statement, on PostgreSQL and on Keyspan.

    apt-get source --download-only postgresql-15=15.18-0+deb12u1     # or the version that is installed
    tar xjf postgresql-15_15.18.orig.tar.bz2
    pip install 'psycopg[binary]'
    tests/regress/run.py --source postgresql-15.18 --postgres 'host=/tmp port=5432 user=postgres' \\
        --keyspan 'host=127.0.0.1 port=5432 user=keyspan password=…'

Both servers get a database `regression`, made anew. Each file is a session of its own on both; every statement is sent
to both, and the answers are compared as text: rows (in their order where the statement has an outer ORDER BY, else as
a multiset), or the SQLSTATE of the error. What psql does by itself is left out (`\\d`, `\\echo`), and so is EXPLAIN.

A statement

    agrees     has the same rows on both, or fails with the same SQLSTATE;
    refused    answers on PostgreSQL; on Keyspan it is an error of class 0A (not supported);
    fails      answers on PostgreSQL; on Keyspan it is another error;
    error      fails on both with other SQLSTATEs, or fails on PostgreSQL only;
    differs    answers other rows.

The last two columns count what is left without the statements that ask for what Keyspan does not have: indexes, and
constraints that are indexes or triggers (UNIQUE, FOREIGN KEY), triggers, functions and operators of users, rules,
partitions, inheritance, `money`; and without those that name what such a statement would have made.

A statement that differs and is listed in differences.txt, with its reason, is counted as `listed`. The exit code is 1
if one differs that is not listed, or if Keyspan said XX000 or lost the connection.
"""

import argparse
import collections
import os
import pathlib
import re
import sys

from psycopg import pq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import sessions  # noqa: E402

# Files whose subject Keyspan has or means to have. Not here: geometry, ranges, networks, text search, XML, large
# objects, triggers and functions of users, partitions, inheritance, kinds of indexes, collations, foreign data.
FILES = """
boolean char name varchar text int2 int4 int8 float4 float8 bit numeric uuid strings numerology date time timetz
timestamp timestamptz interval horology comments expressions unicode select select_into select_distinct
select_distinct_on select_implicit select_having subselect union case join aggregates transactions random arrays
update delete insert insert_conflict groupingsets window with limit prepare portals returning merge json jsonb
json_encoding jsonpath jsonb_jsonpath copyselect sequence identity truncate temp tsrf rowtypes rangefuncs guc
regex tablesample tidscan matview enum domain
""".split()

TIMEOUT = "20s"
# :name, :'name' and :"name" of psql.
VARIABLE = re.compile(r":'(\w+)'|:\"(\w+)\"|:(\w+)")
# What asks for kinds of objects that Keyspan does not have.
ASKS = re.compile(
    r"\b(?:create|alter|drop|comment\s+on)\s+(?:or\s+replace\s+)?(?:unique\s+|constraint\s+|event\s+)*"
    r"(?:index|trigger|function|procedure|routine|aggregate|operator|rule|cast|language)\b"
    r"|\bcreate\b.*\btable\b.*\b(?:unique|references|deferrable)\b|\bforeign\s+key\b|\bmoney\b"
    r"|\binherits\s*\(|\binherit\b|\bpartition\s+(?:of|by\s+(?:range|list|hash))\b|\b(?:at|de)tach\s+partition\b"
    r"|^\s*do\b",
    re.I | re.S,
)
# What a statement makes.
MAKES = re.compile(
    r"create\s+(?:or\s+replace\s+)?(?:(?:global|local|temp|temporary|unlogged|unique|recursive|materialized)\s+)*"
    r"(?:table|view|function|procedure|aggregate|index|sequence|type)\s+(?:if\s+not\s+exists\s+)?(?:\w+\.)?\"?(\w+)",
    re.I,
)
COPY_FILE = re.compile(r"(copy\b.*?\bfrom\s+)'([^']+)'(.*)", re.I | re.S)


class Psql:
    """Reads a file as psql does: cuts it into statements, follows \\set, and gives (line, text, data of COPY)."""

    def __init__(self, text, variables):
        self.text = text
        self.variables = dict(variables)
        self.at = 0

    def __iter__(self):
        begin, depth, statement = 0, 0, []
        line_begin = 1
        text = self.text
        while self.at < len(text):
            rest = text[self.at :]
            char = rest[0]
            taken = None
            if rest.startswith("--"):
                end = rest.find("\n")
                self.at += len(rest) if end < 0 else end
                continue
            if rest.startswith("/*"):
                taken = self.comment(rest)
            elif char == "'" or (char in "eE" and rest[1:2] == "'" and not self.in_word()):
                taken = self.quoted(rest)
            elif char == '"':
                taken = re.match(r'"[^"]*"?', rest).group()
            elif char == "$" and not self.in_word() and (tag := re.match(r"\$([A-Za-z_]\w*)?\$", rest)):
                end = rest.find(tag.group(), len(tag.group()))
                taken = rest if end < 0 else rest[: end + len(tag.group())]
            elif char == "\\":
                end = rest.find("\n")
                line = rest if end < 0 else rest[:end]
                self.at += len(line)
                command = line.split("--")[0].strip()
                body = "".join(statement).strip()
                name = command.split()[0] if command.split() else ""
                if name in ("\\gset", "\\g", "\\gx", "\\crosstabview", "\\gexec", "\\gdesc") and body:
                    yield line_begin, None if name != "\\g" and name != "\\gx" else body, None
                    statement, depth = [], 0
                elif name == "\\;":
                    statement.append(";")
                else:
                    self.command(command)
                    if name in ("\\r", "\\reset"):
                        statement, depth = [], 0
                continue
            elif char == ":" and (variable := VARIABLE.match(rest)) and not rest.startswith("::"):
                name = next(group for group in variable.groups() if group)
                if name in self.variables and text[self.at - 1 : self.at] != ":":
                    value = self.variables[name]
                    if variable.group(1):
                        value = "'" + value.replace("'", "''") + "'"
                    statement.append(value)
                    self.at += len(variable.group())
                    continue
            elif char == "(":
                depth += 1
            elif char == ")":
                depth = max(0, depth - 1)
            elif char == ";" and depth == 0:
                self.at += 1
                body = "".join(statement).strip()
                statement = []
                if body:
                    yield line_begin, body, self.copy_data(body)
                continue
            taken = taken or char
            if not statement or not "".join(statement).strip():
                line_begin = text.count("\n", 0, self.at) + 1
            statement.append(taken)
            self.at += len(taken)

    def in_word(self):
        before = self.text[self.at - 1 : self.at]
        return before.isalnum() or before in ("_", "$")

    @staticmethod
    def comment(rest):
        depth = 0
        for found in re.finditer(r"/\*|\*/", rest):
            depth += 1 if found.group() == "/*" else -1
            if depth == 0:
                return rest[: found.end()]
        return rest

    @staticmethod
    def quoted(rest):
        pattern = r"'(?:[^']|'')*'?" if rest[0] == "'" else r"[eE]'(?:[^'\\]|''|\\.)*'?"
        return re.match(pattern, rest, re.S).group()

    def command(self, command):
        words = command.split(None, 2)
        if words[:1] == ["\\set"] and len(words) >= 2:
            parts = re.findall(r":'\w+'|:\w+|'(?:[^']|'')*'|\S+", words[2]) if len(words) > 2 else []
            value = ""
            for part in parts:
                if part.startswith(":"):
                    value += self.variables.get(part.strip(":'"), "")
                else:
                    value += part.strip("'")
            self.variables[words[1]] = value
        elif words[:1] == ["\\getenv"] and len(words) == 3:
            self.variables.setdefault(words[1], "")
        elif words[:1] == ["\\unset"] and len(words) == 2:
            self.variables.pop(words[1], None)

    def copy_data(self, body):
        if not re.match(r"copy\b.*\bfrom\s+stdin\b", body, re.I | re.S):
            return None
        start = self.text.index("\n", self.at) + 1
        end = re.compile(r"^\\\.[ \t]*$", re.M).search(self.text, start)
        data = self.text[start : end.start() if end else len(self.text)]
        self.at = end.end() if end else len(self.text)
        return data.encode()


class Server:
    """One session. `run` gives ("ok", rows) or ("error", SQLSTATE, message)."""

    def __init__(self, address, database):
        self.address, self.database = address, database
        self.connect()

    def connect(self):
        self.connection = sessions.connect(f"{self.address} dbname={self.database} application_name=pg_regress/x")
        # As pg_regress sets them.
        for setting in (
            "timezone = 'PST8PDT'",
            "datestyle = 'Postgres, MDY'",
            "intervalstyle = 'postgres_verbose'",
            f"statement_timeout = '{TIMEOUT}'",
        ):
            self.connection.exec_(f"SET {setting}".encode())

    def run(self, text, data=None):
        self.connection.send_query(text.encode())
        answer = None
        while True:
            result = self.connection.get_result()
            if result is None:
                break
            status = result.status
            if status == pq.ExecStatus.COPY_IN:
                if data is None:
                    self.connection.put_copy_end(b"no data")
                else:
                    for at in range(0, len(data), 1 << 16):
                        self.connection.put_copy_data(data[at : at + (1 << 16)])
                    self.connection.put_copy_end()
                continue
            if status == pq.ExecStatus.COPY_OUT:
                rows = []
                while True:
                    size, piece = self.connection.get_copy_data(0)
                    if size < 0:
                        break
                    rows.append((bytes(piece),))
                answer = ("ok", rows)
                continue
            if status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
                if answer is None or answer[0] == "ok" and status == pq.ExecStatus.TUPLES_OK:
                    columns = range(result.nfields)
                    answer = ("ok", [tuple(result.get_value(row, c) for c in columns) for row in range(result.ntuples)])
                continue
            code = result.error_field(pq.DiagnosticField.SQLSTATE)
            answer = ("error", code.decode() if code else "lost", result.error_message.decode(errors="replace").strip())
        if self.connection.status != pq.ConnStatus.OK:
            self.connect()
            return ("error", "lost", "the connection was lost")
        return answer or ("ok", [])


def is_ordered(text):
    """Whether a statement has an ORDER BY outside of all brackets."""
    depth = 0
    for found in re.finditer(r"'(?:[^']|'')*'|[()]|order\s+by", text, re.I):
        token = found.group()
        if token == "(":
            depth += 1
        elif token == ")":
            depth -= 1
        elif depth == 0 and token[0] in "oO":
            return True
    return False


def judge(text, expected, found):
    if found[0] == "error" and found[1] in ("lost", "XX000"):
        return "broken"
    if expected[0] == "error" and found[0] == "error":
        return "agrees" if expected[1] == found[1] else "error"
    if expected[0] == "error":
        return "error"
    if found[0] == "error":
        return "refused" if found[1].startswith("0A") else "fails"
    if expected[1] == found[1]:
        return "agrees"
    if not is_ordered(text):
        key = lambda row: tuple((value is not None, value or b"") for value in row)
        if sorted(expected[1], key=key) == sorted(found[1], key=key):
            return "agrees"
    return "differs"


def shown(answer):
    if answer[0] == "error":
        return f"{answer[1]} {answer[2].splitlines()[0] if answer[2] else ''}"
    rows = [" | ".join("NULL" if v is None else v.decode(errors="replace") for v in row) for row in answer[1][:6]]
    return f"{len(answer[1])} rows: " + " // ".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--source", required=True, type=pathlib.Path, help="the unpacked sources of PostgreSQL")
    parser.add_argument("--postgres", required=True, help="where PostgreSQL is, as libpq's words")
    parser.add_argument("--keyspan", required=True, help="where Keyspan is, as libpq's words")
    parser.add_argument("--verbose", action="store_true", help="print each statement that does not agree")
    parser.add_argument("files", nargs="*", default=FILES)
    options = parser.parse_args()
    regress = options.source / "src/test/regress"
    listed = set()
    for line in (pathlib.Path(__file__).parent / "differences.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            listed.add(line.split()[0])

    for address, maintenance in ((options.postgres, "postgres"), (options.keyspan, "keyspan")):
        server = Server(address, maintenance)
        server.run("DROP DATABASE IF EXISTS regression WITH (FORCE)")
        answer = server.run("CREATE DATABASE regression")
        if answer[0] == "error":
            sys.exit(f"{address}: {answer[2]}")
    variables = {"abs_srcdir": str(regress), "libdir": "", "dlsuffix": ""}
    kinds = ("agrees", "refused", "fails", "error", "differs", "listed", "broken")
    total, total_left = collections.Counter(), collections.Counter()
    # What the first file could not make.
    base = set()
    print(f"{'file':20}" + "".join(f"{kind:>9}" for kind in kinds) + "    all   agree   left   agree")
    for name in ["test_setup", *options.files]:
        path = regress / f"sql/{name}.sql"
        postgres, keyspan = Server(options.postgres, "regression"), Server(options.keyspan, "regression")
        count, left = collections.Counter(), collections.Counter()
        # What is missing since it was asked for, and whether that ended the transaction.
        missing, ended = set(base), False
        for line, text, data in Psql(path.read_text(errors="replace"), variables):
            if text is None or re.match(r"\s*(explain)\b", text, re.I):
                continue
            # Files of the server's machine are sent by the client, to both.
            if (file := COPY_FILE.match(text)) and os.path.exists(file.group(2)):
                data = pathlib.Path(file.group(2)).read_bytes()
                text = f"{file.group(1)}STDIN{file.group(3)}"
            expected, found = postgres.run(text, data), keyspan.run(text, data)
            kind = judge(text, expected, found)
            if kind == "differs" and f"{name}:{line}" in listed:
                kind = "listed"
            count[kind] += 1
            asks = bool(ASKS.search(text) or missing.intersection(re.findall(r"\w+", text.lower())))
            # A function that a file before makes, which is not run.
            asks |= expected[0] == "error" and expected[1] == "42883"
            if found[0] == "error" and expected[0] == "ok":
                asks |= found[1] == "25P02" and ended
                ended = asks
                if asks and (made := MAKES.search(text)):
                    missing.add(made.group(1).lower())
            if not asks:
                left[kind] += 1
            if options.verbose and kind != "agrees":
                print(f"\n{name}:{line} {kind}\n    {' '.join(text.split())[:300]}")
                print(f"    PostgreSQL: {shown(expected)[:300]}\n    Keyspan:    {shown(found)[:300]}")
        report(name, count, left, kinds)
        base |= missing if name == "test_setup" else set()
        if name != "test_setup":
            total += count
            total_left += left
        sys.stdout.flush()
    report("all", total, total_left, kinds)
    sys.exit(1 if total["differs"] or total["broken"] else 0)


def report(name, count, left, kinds):
    shares = ""
    for counted in (count, left):
        whole = sum(counted.values())
        share = 100 * counted["agrees"] / whole if whole else 100
        shares += f"{whole:>7} {share:6.1f}%"
    print(f"{name:20}" + "".join(f"{count[kind]:>9}" for kind in kinds) + shares)


if __name__ == "__main__":
    main()
