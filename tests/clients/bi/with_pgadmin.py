"""pgAdmin against a server, through its own HTTP API: connection, the tree of objects with their properties and SQL, the dashboard, the
query tool, a table's data.

Usage: with_pgadmin.py HOST PORT DATABASE USER PASSWORD, by the Python of its environment; its own files go to the home folder.
The database has the tables of gateway/demo/schema.sql with the rows that .ci/bi writes. Each check prints "ok: WHAT"; the first that
fails ends the run.
"""

import builtins
import importlib.util
import json
import logging
import sys
import time

HOST, PORT, DATABASE, USER, PASSWORD = sys.argv[1:6]

# As its desktop program starts it: one user, no login.
builtins.SERVER_MODE = False
sys.path.insert(0, importlib.util.find_spec("pgadmin4").submodule_search_locations[0])
import config  # noqa: E402

config.MASTER_PASSWORD_REQUIRED = False
config.USE_OS_SECRET_STORAGE = False
config.UPGRADE_CHECK_ENABLED = False
config.WTF_CSRF_ENABLED = False
from pgadmin import create_app  # noqa: E402

app = create_app()
app.PGADMIN_INT_KEY, app.PGADMIN_RUNTIME, app.PGADMIN_EXTERNAL_AUTH_SOURCE = "", False, "internal"
app.config["sessions"] = {}
app.run_before_app_start()
logging.disable(logging.ERROR)
client = app.test_client()


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")
    print(f"ok: {what}", flush=True)


def ask(path, method="get", **arguments):
    began = time.monotonic()
    answer = getattr(client, method)(path, **arguments)
    found = answer.get_json(silent=True)
    if answer.status_code != 200 or isinstance(found, dict) and found.get("success") == 0:
        sys.exit(f"{method} {path}: {answer.status_code} {answer.get_data(as_text=True)}")
    took = time.monotonic() - began
    if took > 5:
        print(f"    {path} took {took:.1f} s")
    return found


client.get("/browser/")
server = {
    "name": "keyspan", "host": HOST, "port": int(PORT), "username": USER, "db": DATABASE, "password": PASSWORD, "save_password": False,
    "role": "", "comment": "", "sslmode": "prefer", "connect_now": False, "gid": 1,
}
server = ask("/browser/server/obj/1/", "post", json=server)["node"]["_id"]
wrong = client.post(f"/browser/server/connect/1/{server}", data={"password": "wrong"})
same("a wrong password is refused", (wrong.status_code, "authentication failed" in wrong.get_data(as_text=True)), (401, True))
connected = ask(f"/browser/server/connect/1/{server}", "post", data={"password": PASSWORD})["data"]
same("connected", (connected["connected"], connected["type"], connected["user"]["name"]), (True, "pg", USER))


# The tree: nodes of a kind below a path of numbers, and one of them by its name.
def nodes(kind, *path):
    return {node["label"]: node["_id"] for node in ask(f"/browser/{kind}/nodes/{'/'.join(map(str, path))}/")["data"]}


def properties(kind, *path):
    return ask(f"/browser/{kind}/obj/{'/'.join(map(str, path))}")


def sql(kind, *path):
    return ask(f"/browser/{kind}/sql/{'/'.join(map(str, path))}")


databases = nodes("database", 1, server)
same("databases", list(databases), [DATABASE])
database = (1, server, databases[DATABASE])
ask(f"/browser/database/connect/{'/'.join(map(str, database))}", "post")
same("a database's properties", properties("database", *database)["name"], DATABASE)
same("a database's SQL", "CREATE DATABASE vx" in sql("database", *database), True)
same("roles", USER in nodes("role", 1, server), True)
kinds = [node["label"] for node in ask(f"/browser/database/children/{'/'.join(map(str, database))}")["data"]]
same("kinds of objects", {"Schemas", "Extensions", "Languages"} <= set(kinds), True)
schemas = nodes("schema", *database)
same("schemas", "public" in schemas, True)
schema = (*database, schemas["public"])
same("a schema's properties", properties("schema", *schema)["name"], "public")
for kind in ["aggregate", "collation", "domain", "fts_configuration", "function", "mview", "operator", "procedure", "sequence", "type"]:
    nodes(kind, *schema)
print("ok: kinds of objects that there are none of")

tables = nodes("table", *schema)
same("tables", list(tables), ["airports", "flights", "readings", "weather"])
table = (*schema, tables["flights"])
found = properties("table", *table)
same("a table's properties", (found["name"], found["relowner"], len(found["columns"])), ("flights", "vx", 17))
KEY = ["origin", "dest", "scheduled", "flight"]
same("a table's primary key", [column["column"] for column in found["primary_key"][0]["columns"]], KEY)
text = sql("table", *table)
print("\n".join(f"    {line}" for line in text.splitlines() if "CONSTRAINT" in line or "scheduled" in line))
same("a table's SQL", "CONSTRAINT flights_pkey PRIMARY KEY (origin, dest, scheduled, flight)" in text, True)
columns = nodes("column", *table)
same("columns", [*columns][:4], KEY)
found = properties("column", *table, columns["scheduled"])
same("a column's properties", (found["cltype"], found["attnotnull"]), ("timestamp with time zone", True))
keys = nodes("primary_key", *table)
same("primary keys", list(keys), ["flights_pkey"])
found = properties("primary_key", *table, keys["flights_pkey"])
same("a primary key's properties", [column["column"] for column in found["columns"]], KEY)
for kind in ["foreign_key", "index", "rule", "trigger", "unique_constraint", "row_security_policy"]:
    nodes(kind, *table)
print("ok: kinds of a table's objects that there are none of")
for tab in ["dependency", "dependent", "stats"]:
    ask(f"/browser/table/{tab}/{'/'.join(map(str, table))}")
print("ok: a table's dependencies, dependents, statistics")
count = ask(f"/browser/table/count_rows/{'/'.join(map(str, table))}")["data"]["total_rows"]
same("count of rows", int(count), 3)

# The dashboard.
charts = "session_stats,tps_stats,ti_stats,to_stats,bio_stats"
stats = ask(f"/dashboard/dashboard_stats/{server}/{database[-1]}?chart_names={charts}")
same("the dashboard's charts", (sorted(stats), stats["session_stats"]["Active"] >= 1), (sorted(charts.split(",")), True))
activity = ask(f"/dashboard/activity/{server}/{database[-1]}")[0]["activity"]
same("the dashboard's sessions", activity[0]["usename"], USER)
for what in ["locks", "prepared"]:
    ask(f"/dashboard/{what}/{server}/{database[-1]}")
same("the dashboard's settings", "bytea_output" in {one["name"] for one in ask(f"/dashboard/config/{server}")}, True)


# The query tool.
def answer(tool):
    while True:
        found = client.get(f"/sqleditor/poll/{tool}").get_json()
        if (found["data"] or {}).get("status") not in ("Busy", "NotInitialised"):
            return found


def query(text):
    ask("/sqleditor/query_tool/start/1", "post", data=json.dumps({"sql": text}), content_type="html/json")
    return answer(1)


where = f"1/{server}/{database[-1]}"
ask(f"/sqleditor/initialize/sqleditor/1/{where}", "post", data=json.dumps({"dbname": DATABASE}))
found = query("SELECT dest, count(*), max(scheduled) FROM flights GROUP BY dest ORDER BY dest")["data"]
same("a query", found["result"], [["LAX", "1", "2013-07-04 11:50:00+00"], ["SFO", "2", "2013-07-05 11:00:00+00"]])
same("its types", [column["type_code"] for column in found["colinfo"]], [25, 20, 1184])
found = query("SELECT nothing FROM flights")
same("a fault is told", "SQL state: 42703" in found["errormsg"], True)
same("its place is told", "Character: 8" in found["errormsg"], True)
found = query("INSERT INTO flights (origin, dest, scheduled, flight) VALUES ('TST', 'BI', '2013-08-01 00:00Z', 1)")["data"]
same("a write", found["result"], "INSERT 0 1")
same("a delete", query("DELETE FROM flights WHERE origin = 'TST'")["data"]["result"], "DELETE 1")
same("EXPLAIN", query("EXPLAIN SELECT * FROM flights WHERE origin = 'EWR'")["data"]["result"][0], ["KeyspanScan: flights"])
same("all columns of a table", [column["name"] for column in query("SELECT * FROM flights")["data"]["colinfo"]][:4], KEY)

# A table's data, as the button of the tree shows it.
ask(f"/sqleditor/initialize/viewdata/2/3/table/{where}/{table[-1]}", "post", data=json.dumps({"dbname": DATABASE}))
ask("/sqleditor/view_data/start/2")
found = answer(2)["data"]
same("a table's data", [row[:2] for row in found["result"]], [["EWR", "LAX"], ["EWR", "SFO"], ["EWR", "SFO"]])
# pgAdmin asks for them without an order.
same("its key", sorted(found["primary_keys"]), sorted(KEY))
