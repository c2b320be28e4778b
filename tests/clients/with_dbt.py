"""dbt against a server: seeds, views, tables, incremental models in each strategy, snapshots, tests, documents.

Called by .ci/drivers with: host port user database password. Each step has to succeed, and rows are compared where it matters.
"""

import importlib.metadata
import os
import pathlib
import shutil
import sys
import tempfile

import psycopg2
from dbt.cli.main import dbtRunner

HOST, PORT, USER, DATABASE, PASSWORD = sys.argv[1:]
os.environ.update(DBT_HOST=HOST, DBT_PORT=PORT, DBT_USER=USER, DBT_DATABASE=DATABASE, DBT_PASSWORD=PASSWORD)
os.environ.update(DBT_SEND_ANONYMOUS_USAGE_STATS="false", DBT_USE_COLORS="false")


def ask(sql):
    connection = psycopg2.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, password=PASSWORD)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(sql)
        rows = cursor.fetchall() if cursor.description else []
    connection.close()
    return rows


def same(what, expected, actual):
    if expected != actual:
        sys.exit(f"dbt: {what}: expected {expected!r}, got {actual!r}")
    print(f"ok: dbt {what}", flush=True)


def step(*words):
    """Runs a command of dbt."""
    done = runner.invoke([*words, "--project-dir", str(project), "--profiles-dir", str(project), "--quiet"])
    if not done.success:
        results = [(result.node.name, result.message) for result in getattr(done.result, "results", [])]
        sys.exit(f"dbt {' '.join(words)}: {done.exception or ''} {results}")
    print(f"ok: dbt {' '.join(words)}", flush=True)


# dbt writes logs and compiled models beside the project.
folder = tempfile.mkdtemp()
project = pathlib.Path(folder) / "project"
shutil.copytree(pathlib.Path(__file__).parent / "dbt", project)
runner = dbtRunner()
versions = [f"{name} {importlib.metadata.version(name)}" for name in ("dbt-core", "dbt-postgres")]
print(", ".join(versions), flush=True)

step("debug")
step("seed")
step("run")
step("test")
step("snapshot")
totals = "SELECT id, name, total, orders FROM totals ORDER BY id"
same("a table", "[(1, 'Ana', '15.25', 2), (3, 'Cy, the third', '1.00', 1)]", str([(a, b, f"{c:.2f}", d) for a, b, c, d in ask(totals)]))
same("a view over an ephemeral model", [("Ana",), ("Cy, the third",)], ask("SELECT name FROM of_small ORDER BY name"))
same("comments", [("Their number.",)], ask("SELECT col_description('totals'::regclass, 1)"))

# What is new comes, what is there stays, and the snapshot keeps what was.
ask("INSERT INTO orders VALUES (5, 2, 2.50, '2024-03-01'); UPDATE customers SET name = 'Bob' WHERE id = 2")
for strategy in ("delete+insert", "append"):
    step("run", "--select", "events", "--vars", f"{{strategy: {strategy}}}")
    same(f"an incremental model, {strategy}", [(5, 5)], ask("SELECT count(*), max(id) FROM events"))
# One row changes, one is new.
ask("UPDATE orders SET amount = 7.50, at = '2024-04-01' WHERE id = 1; INSERT INTO orders VALUES (6, 2, 1.25, '2024-04-02')")
step("run", "--select", "events", "--vars", "{strategy: merge}")
merged = "SELECT count(*), max(id), sum(amount) FILTER (WHERE id = 1) = 7.5 FROM events"
same("an incremental model, merge", [(6, 6, True)], ask(merged))
step("snapshot")
kept = "SELECT name, dbt_valid_to IS NULL FROM customers_over_time WHERE id = 2 ORDER BY 2"
same("a snapshot", [("Bo", False), ("Bob", True)], ask(kept))
step("seed", "--full-refresh")
step("run", "--full-refresh")
same("all anew", [(4,)], ask("SELECT count(*) FROM events"))
step("test")
step("docs", "generate")
step("build")

for relation, kind in [("of_small", "VIEW"), ("totals", "TABLE"), ("events", "TABLE"), ("active_customers", "VIEW"), ("customers_over_time", "TABLE"), ("customers", "TABLE"), ("orders", "TABLE")]:
    ask(f"DROP {kind} {relation} CASCADE")
same("nothing is left", [(0,)], ask("SELECT count(*) FROM pg_class WHERE relname LIKE '%dbt%'"))
shutil.rmtree(folder)
