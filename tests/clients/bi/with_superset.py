"""Superset against a server, through its own REST API: connection test, schema browser, a dataset, charts, SQL Lab.

Usage: with_superset.py HOST PORT DATABASE USER PASSWORD, by the Python of its environment, with SUPERSET_CONFIG_PATH and BI_HOME set.
The database has the table `flights` of gateway/demo/schema.sql with the rows that .ci/bi writes. Each check prints "ok: WHAT"; the first that
fails ends the run.
"""

import logging
import sys

from superset.app import create_app

HOST, PORT, DATABASE, USER, PASSWORD = sys.argv[1:6]
URI = f"postgresql://{USER}:{PASSWORD}@{HOST}:{PORT}/{DATABASE}"

logging.disable(logging.ERROR)
client = create_app().test_client()
headers = {}


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")
    print(f"ok: {what}", flush=True)


def ask(method, path, status=200, **arguments):
    answer = getattr(client, method)(f"/api/v1/{path}", headers=headers, **arguments)
    if answer.status_code != status:
        sys.exit(f"{method} {path}: {answer.status_code} {answer.get_data(as_text=True)}")
    return answer.get_json()


token = ask("post", "security/login", json={"username": "admin", "password": "admin", "provider": "db"})["access_token"]
headers["Authorization"] = f"Bearer {token}"

connection = {"database_name": "keyspan", "sqlalchemy_uri": URI}
same("test_connection", ask("post", "database/test_connection/", json=connection), {"message": "OK"})
wrong = {**connection, "sqlalchemy_uri": URI.replace(PASSWORD, "wrong")}
said = ask("post", "database/test_connection/", 400, json=wrong)["errors"][0]
same("a wrong password is told", said["error_type"], "CONNECTION_INVALID_PASSWORD_ERROR")
database = ask("post", "database/", 201, json={**connection, "expose_in_sqllab": True, "allow_dml": True})["id"]

# The schema browser.
same("schemas", sorted(ask("get", f"database/{database}/schemas/?q=(force:!t)")["result"]), ["information_schema", "public"])
tables = ask("get", f"database/{database}/tables/?q=(force:!t,schema_name:public)")["result"]
names = [table["value"] for table in tables if table["type"] == "table"]
same("tables", names, ["airports", "flights", "readings", "weather"])
table = ask("get", f"database/{database}/table_metadata/?name=flights&schema=public")
columns = {column["name"]: column["type"] for column in table["columns"]}
same("number of columns", len(columns), 17)
expected = {"origin": "TEXT", "scheduled": "TIMESTAMP", "flight": "INTEGER"}
same("types of columns", {name: columns[name] for name in expected}, expected)

# A dataset, and charts of it.
dataset = ask("post", "dataset/", 201, json={"database": database, "schema": "public", "table_name": "flights"})["id"]
ask("put", f"dataset/{dataset}/refresh")
found = ask("get", f"dataset/{dataset}")["result"]["columns"]
same("times of a dataset", [column["column_name"] for column in found if column["is_dttm"]][:1], ["scheduled"])


def chart(result_type="full", **query):
    source = {"id": dataset, "type": "table"}
    question = {"datasource": source, "result_format": "json", "result_type": result_type, "force": True, "queries": [query]}
    return ask("post", "chart/data", json=question)["result"][0]["data"]


def metric(aggregate, column):
    return {"expressionType": "SIMPLE", "aggregate": aggregate, "column": {"column_name": column}, "label": aggregate}


def over_time(grain):
    time = {"timeGrain": grain, "columnType": "BASE_AXIS", "sqlExpression": "scheduled", "label": "time", "expressionType": "SQL"}
    rows = chart(
        columns=[time], metrics=[metric("AVG", "dep_delay"), "count"], extras={"time_grain_sqla": grain},
        granularity="scheduled", time_range="2013-01-01 : 2014-01-01", row_limit=100,
    )
    return sorted((row["time"], row["AVG"], row["count"]) for row in rows)


HOUR, MINUTE = 3_600_000, 60_000
MORNING = 1_372_935_600_000  # 2013-07-04 11:00
DAY = MORNING - 11 * HOUR
same("a chart by minutes", over_time("PT1M"), [(MORNING, -2, 1), (MORNING + 50 * MINUTE, 0, 1), (MORNING + 24 * HOUR, 40, 1)])
same("a chart by half hours", over_time("PT30M"), [(MORNING, -2, 1), (MORNING + 30 * MINUTE, 0, 1), (MORNING + 24 * HOUR, 40, 1)])
same("a chart by hours", over_time("PT1H"), [(MORNING, -1, 2), (MORNING + 24 * HOUR, 40, 1)])
same("a chart by days", over_time("P1D"), [(DAY, -1, 2), (DAY + 24 * HOUR, 40, 1)])
same("a chart by weeks", [row[0] for row in over_time("P1W")], [DAY - 72 * HOUR])
same("a chart by months", [row[2] for row in over_time("P1M")], [3])
same("a chart by quarters", [row[0] for row in over_time("P3M")], [DAY - 72 * HOUR])
same("a chart by years", [row[2] for row in over_time("P1Y")], [3])
rows = chart(
    columns=["dest"], metrics=["count", metric("SUM", "distance"), metric("COUNT_DISTINCT", "tailnum")],
    filters=[{"col": "origin", "op": "IN", "val": ["EWR"]}, {"col": "dest", "op": "ILIKE", "val": "%f%"}],
    extras={"having": "COUNT(*) > 1", "where": "distance > 1"}, orderby=[["count", False]], row_limit=10,
)
same("a chart by filters", rows, [{"dest": "SFO", "count": 2, "SUM": 5130, "COUNT_DISTINCT": 2}])
rows = chart(
    columns=["dest"], metrics=["count"], series_columns=["dest"], series_limit=1, is_timeseries=True, granularity="scheduled",
    extras={"time_grain_sqla": "P1D"}, time_range="2013-01-01 : 2014-01-01",
)
same("the greatest series of a chart", {row["dest"] for row in rows}, {"SFO"})
same("samples", len(chart("samples", columns=[], metrics=[], row_limit=10)), 3)


# SQL Lab.
def lab(sql, status=200):
    question = {"database_id": database, "schema": "public", "sql": sql, "runAsync": False, "client_id": str(abs(hash(sql)))[:11]}
    return ask("post", "sqllab/execute/", status, json=question)


answer = lab("SELECT dest, count(*) AS n, max(scheduled) AS latest FROM flights GROUP BY dest ORDER BY dest")
latest = ["2013-07-04T11:50:00+00:00", "2013-07-05T11:00:00+00:00"]
same("SQL Lab", answer["data"], [{"dest": "LAX", "n": 1, "latest": latest[0]}, {"dest": "SFO", "n": 2, "latest": latest[1]}])
same("its types", [column["type"] for column in answer["columns"]], ["STRING", "LONGINTEGER", "DATETIMETZ"])
lab("INSERT INTO flights (origin, dest, scheduled, flight) VALUES ('TST', 'BI', '2013-08-01 00:00Z', 1)")
same("a write of SQL Lab", lab("SELECT flight FROM flights WHERE origin = 'TST'")["data"], [{"flight": 1}])
lab("DELETE FROM flights WHERE origin = 'TST'")
same("a delete of SQL Lab", lab("SELECT flight FROM flights WHERE  origin = 'TST'")["data"], [])
said = lab("SELECT nothing FROM flights", 500)["errors"][0]["message"]
# It knows the message by the place behind it, which it tells in words of its own; it has sent the column on a line of its own.
same("a fault is told", said, "We can't seem to resolve the column \"nothing\" at line 2.")
