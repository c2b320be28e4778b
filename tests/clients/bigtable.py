"""Rows that Google's client for Python writes are found and joined by SQL, and rows that SQL writes are read by it.

    BIGTABLE_EMULATOR_HOST=127.0.0.1:8086 python tests/clients/bigtable.py HOST PORT PASSWORD

The server at HOST:PORT, whose operator has the password, asks the same emulator; the instance is one that nobody has.
"""

import datetime
import os
import struct
import sys

import psycopg
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigtable
from google.cloud.bigtable.row_set import RowSet

PROJECT = "clients"
INSTANCE = f"python-{os.getpid()}"


def check(found, expected):
    if found != expected:
        sys.exit(f"found    {found}\nexpected {expected}")


def connect(host, port, password, database):
    return psycopg.connect(
        host=host, port=port, user="keyspan", password=password, dbname=database, autocommit=True
    )


def main(host, port, password):
    client = bigtable.Client(project=PROJECT, admin=True, credentials=AnonymousCredentials())
    instance = client.instance(INSTANCE)
    metrics = instance.table("metrics")
    metrics.create(column_families={"m": None, "friends": None})
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    rows = []
    for n in range(100):
        row = metrics.direct_row(f"alto#host-{n % 4}#2026-01-01T{n // 4:02}:00")
        row.set_cell("m", "cpu", struct.pack(">d", n / 8), timestamp=at)
        # The client packs whole numbers as Bigtable adds them.
        row.set_cell("m", "requests", n, timestamp=at)
        row.set_cell("m", "state", b"ok", timestamp=at)
        row.set_cell("friends", f"host-{(n + 1) % 4}", b"1", timestamp=at)
        rows.append(row)
    for status in metrics.mutate_rows(rows):
        check(status.code, 0)

    operator = connect(host, port, password, "keyspan")
    operator.execute(
        "CREATE SERVER others FOREIGN DATA WRAPPER bigtable"
        f" OPTIONS (project '{PROJECT}', instance '{INSTANCE}')"
    )
    operator.execute(
        "IMPORT FOREIGN SCHEMA bigtable FROM SERVER others INTO public OPTIONS (writable 'true')"
    )
    operator.execute("CREATE DATABASE alto")
    alto = connect(host, port, password, "alto")
    columns = alto.execute("SELECT * FROM metrics LIMIT 0").description
    check(
        [(column.name, column.type_display) for column in columns],
        [("key_1", "text"), ("key_2", "text")]
        + [(f"host-{n}", "int8") for n in range(4)]
        + [("cpu", "float8"), ("requests", "int8"), ("state", "text")],
    )
    alto.execute("CREATE TABLE places (host text PRIMARY KEY, place text)")
    alto.execute("INSERT INTO places VALUES ('host-1', 'Ulm'), ('host-3', 'Graz')")
    joined = (
        "SELECT place, count(*), sum(requests), max(cpu) FROM metrics JOIN places ON host = key_1"
        " GROUP BY place ORDER BY place"
    )
    expected = [
        (place, 25, sum(range(first, 100, 4)), (96 + first) / 8) for place, first in [("Graz", 3), ("Ulm", 1)]
    ]
    check([tuple(row) for row in alto.execute(joined)], expected)

    alto.execute("INSERT INTO metrics (key_1, key_2, cpu, requests, state) VALUES ('sql', '1', 2.5, 7, 'neu')")
    alto.execute("UPDATE metrics SET requests = requests + 1000 WHERE key_1 = 'host-2' AND key_2 = '2026-01-01T03:00'")
    alto.execute("DELETE FROM metrics WHERE key_1 = 'host-3'")
    written = metrics.read_row(b"alto#sql#1")
    cell = lambda row, column: row.cells["m"][column][0].value
    check(struct.unpack(">d", cell(written, b"cpu")), (2.5,))
    check(struct.unpack(">q", cell(written, b"requests")), (7,))
    check(cell(written, b"state"), "neu".encode())
    updated = metrics.read_row(b"alto#host-2#2026-01-01T03:00")
    check(struct.unpack(">q", cell(updated, b"requests")), (1014,))
    check(cell(updated, b"state"), b"ok")
    gone = RowSet()
    gone.add_row_range_with_prefix("alto#host-3")
    check(list(metrics.read_rows(row_set=gone)), [])

    alto.close()
    operator.execute("DROP DATABASE alto WITH (FORCE)")
    operator.execute("DROP TABLE metrics")
    operator.execute("DROP SERVER others")
    check(metrics.read_row(b"alto#sql#1") is not None, True)
    print("Google's client for Python: found, joined, written and read")


main(*sys.argv[1:])
