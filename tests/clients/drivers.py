"""Drivers of Python against a server: connect, types both ways, prepared statements, transactions, errors, COPY, cursors.

Usage: drivers.py HOST PORT DATABASE USER PASSWORD
The database has the table `flights` of gateway/demo/schema.sql. Each check prints "ok: DRIVER VERSION: WHAT"; the first that fails ends the run.
"""

import asyncio
import datetime
import decimal
import io
import sys
import uuid

HOST, PORT, DATABASE, USER, PASSWORD = sys.argv[1], int(sys.argv[2]), *sys.argv[3:6]
URL = f"{USER}:{PASSWORD}@{HOST}:{PORT}/{DATABASE}"
UTC = datetime.timezone.utc
AT = datetime.datetime(2013, 8, 1, 12, 30, 15, 250_000, tzinfo=UTC)
COLUMNS = "origin, dest, scheduled, flight"
KEY = "origin = 'TST' AND dest = 'PY'"


def same(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")
    print(f"ok: {what}")


# What is asked for by every driver that gives Python's types: SQL, and the value.
VALUES = [
    ("SELECT true", True),
    ("SELECT 7::smallint", 7),
    ("SELECT -7", -7),
    ("SELECT 7000000000", 7_000_000_000),
    ("SELECT 1.5::real", 1.5),
    ("SELECT 0.1::double precision", 0.1),
    ("SELECT 12.50::numeric(8, 2)", decimal.Decimal("12.50")),
    ("SELECT 'é \N{AIRPLANE}'", "é \N{AIRPLANE}"),
    ("SELECT NULL::text", None),
    ("SELECT '\\x00ff'::bytea", b"\x00\xff"),
    ("SELECT date '2013-08-01'", datetime.date(2013, 8, 1)),
    ("SELECT timestamp '2013-08-01 12:30:15.25'", AT.replace(tzinfo=None)),
    ("SELECT timestamptz '2013-08-01 14:30:15.25+02'", AT),
    ("SELECT uuid '5f0c8b39-6a0f-4c5b-9e1d-0f7c9a4a3d2e'", uuid.UUID("5f0c8b39-6a0f-4c5b-9e1d-0f7c9a4a3d2e")),
    ("SELECT ARRAY[1, 2, NULL]", [1, 2, None]),
]


def values(name, ask):
    for sql, expected in VALUES:
        found = ask(sql)
        found = bytes(found) if isinstance(found, memoryview) else found
        if isinstance(found, str) and isinstance(expected, uuid.UUID):
            found = uuid.UUID(found)
        if found != expected or type(found) is not type(expected):
            sys.exit(f"{name}: {sql}: expected {expected!r}, found {found!r}")
    print(f"ok: {name}: {len(VALUES)} types")


def psycopg_sync():
    import psycopg

    name = f"psycopg {psycopg.__version__}"
    with psycopg.connect(f"postgresql://{URL}") as connection:
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                values(f"{name}, {'binary' if binary else 'text'}", lambda sql: cursor.execute(sql).fetchone()[0])
        for parameter in (7, -2.5, "text", True, decimal.Decimal("1.25"), AT, datetime.date(2013, 8, 1), b"\x00\x01", uuid.UUID(int=7), None):
            found = connection.execute("SELECT %s", (parameter,), prepare=True).fetchone()[0]
            same(f"{name}: a parameter {type(parameter).__name__}", found, parameter)
        insert = f"INSERT INTO flights ({COLUMNS}, dep_delay) VALUES ('TST', 'PY', %s, %s, %s)"
        with connection.cursor() as cursor:
            cursor.executemany(insert, [(AT, number, number / 2) for number in range(100)])
        connection.rollback()
        count = f"SELECT count(*) FROM flights WHERE {KEY}"
        same(f"{name}: rolled back", connection.execute(count).fetchone()[0], 0)
        with connection.cursor() as cursor:
            cursor.executemany(insert, [(AT, number, number / 2) for number in range(100)])
        connection.commit()
        same(f"{name}: committed", connection.execute(count).fetchone()[0], 100)
        with connection.cursor("on_the_server") as cursor:
            cursor.itersize = 7
            cursor.execute(f"SELECT flight FROM flights WHERE {KEY} ORDER BY flight")
            same(f"{name}: a server-side cursor", [row[0] for row in cursor], list(range(100)))
        try:
            with connection.transaction():
                connection.execute(insert, (AT, 5, None))
        except psycopg.errors.UniqueViolation as error:
            same(f"{name}: SQLSTATE", error.sqlstate, "23505")
        else:
            sys.exit(f"{name}: a key was written twice")
        found = connection.execute(f"UPDATE flights SET dep_delay = 9 WHERE {KEY} AND flight = 5 RETURNING flight, dep_delay").fetchall()
        same(f"{name}: RETURNING", found, [(5, 9)])
        connection.commit()
        with connection.cursor() as cursor:
            with cursor.copy(f"COPY flights ({COLUMNS}) FROM STDIN") as copy:
                for number in range(1_000, 3_000):
                    copy.write_row(("TST", "PY", AT, number))
            with cursor.copy(f"COPY (SELECT flight FROM flights WHERE {KEY} AND flight >= 1000 ORDER BY flight) TO STDOUT") as copy:
                same(f"{name}: COPY both ways", [int(row[0]) for row in copy.rows()], list(range(1_000, 3_000)))
        connection.commit()
        with connection.pipeline():
            cursors = [connection.execute("SELECT %s::int + 1", (number,)) for number in range(20)]
            same(f"{name}: a pipeline", [cursor.fetchone()[0] for cursor in cursors], list(range(1, 21)))
        same(f"{name}: DELETE", connection.execute(f"DELETE FROM flights WHERE {KEY}").rowcount, 2_100)
    with psycopg.connect(f"postgresql://{URL}", autocommit=True) as listener, psycopg.connect(f"postgresql://{URL}") as teller:
        listener.execute("LISTEN news")
        teller.execute("SELECT pg_notify('news', %s)", ("told",))
        teller.commit()
        heard = [(told.channel, told.payload, told.pid) for told in listener.notifies(timeout=60, stop_after=1)]
        same(f"{name}: a notification", heard, [("news", "told", teller.info.backend_pid)])


async def psycopg_async():
    import psycopg
    from psycopg_pool import AsyncConnectionPool

    name = f"psycopg {psycopg.__version__}, async pool"
    async with AsyncConnectionPool(f"postgresql://{URL}", min_size=2, max_size=4, open=False) as pool:

        async def ask(number):
            async with pool.connection() as connection:
                return (await (await connection.execute("SELECT %s::bigint", (number,))).fetchone())[0]

        same(name, await asyncio.gather(*map(ask, range(40))), list(range(40)))


def psycopg2_():
    import psycopg2
    import psycopg2.extras

    name = f"psycopg2 {psycopg2.__version__.split()[0]}"
    connection = psycopg2.connect(host=HOST, port=PORT, dbname=DATABASE, user=USER, password=PASSWORD)
    psycopg2.extras.register_uuid()
    cursor = connection.cursor()

    def ask(sql):
        cursor.execute(sql)
        return cursor.fetchone()[0]

    values(name, ask)
    psycopg2.extras.execute_values(cursor, f"INSERT INTO flights ({COLUMNS}) VALUES %s", [("TST", "PY", AT, number) for number in range(500)])
    connection.commit()
    cursor.copy_expert(f"COPY flights ({COLUMNS}) FROM STDIN WITH (FORMAT csv)", io.StringIO("TST,PY,2013-08-01 12:30:15.25Z,900\n"))
    out = io.StringIO()
    cursor.copy_expert(f"COPY (SELECT count(*) FROM flights WHERE {KEY}) TO STDOUT", out)
    same(f"{name}: COPY", out.getvalue(), "501\n")
    with connection.cursor("on_the_server") as served:
        served.itersize = 50
        served.execute(f"SELECT flight FROM flights WHERE {KEY} ORDER BY flight")
        same(f"{name}: a server-side cursor", sum(1 for _ in served), 501)
    cursor.execute(f"DELETE FROM flights WHERE {KEY}")
    same(f"{name}: DELETE", cursor.rowcount, 501)
    connection.commit()
    try:
        cursor.execute("SELECT nothing FROM flights")
    except psycopg2.errors.UndefinedColumn as error:
        same(f"{name}: SQLSTATE", error.pgcode, "42703")
    connection.rollback()
    connection.close()


def pg8000_():
    import pg8000
    import pg8000.dbapi
    from importlib.metadata import version

    name = f"pg8000 {version('pg8000')}"
    connection = pg8000.dbapi.connect(USER, host=HOST, port=PORT, database=DATABASE, password=PASSWORD)
    cursor = connection.cursor()

    def ask(sql):
        cursor.execute(sql)
        return cursor.fetchone()[0]

    values(name, ask)
    cursor.executemany(f"INSERT INTO flights ({COLUMNS}) VALUES (%s, %s, %s, %s)", [("TST", "PY", AT, number) for number in range(20)])
    cursor.execute(f"DELETE FROM flights WHERE {KEY}")
    same(f"{name}: writes", cursor.rowcount, 20)
    connection.commit()
    connection.close()


def sqlalchemy_():
    import pandas
    import sqlalchemy
    from sqlalchemy.orm import Session, declarative_base

    for driver in ("psycopg", "psycopg2", "pg8000"):
        name = f"SQLAlchemy {sqlalchemy.__version__} over {driver}"
        engine = sqlalchemy.create_engine(f"postgresql+{driver}://{URL}")
        flights = sqlalchemy.Table(
            "flights",
            sqlalchemy.MetaData(),
            *(sqlalchemy.Column(key, sqlalchemy.Text, primary_key=True) for key in ("origin", "dest")),
            sqlalchemy.Column("scheduled", sqlalchemy.DateTime(timezone=True), primary_key=True),
            sqlalchemy.Column("flight", sqlalchemy.Integer, primary_key=True, autoincrement=False),
            sqlalchemy.Column("dep_delay", sqlalchemy.Integer),
        )
        Base = declarative_base()

        class Flight(Base):
            __table__ = flights

        with Session(engine) as session:
            session.add_all(Flight(origin="TST", dest="PY", scheduled=AT, flight=number, dep_delay=number) for number in range(10))
            session.commit()
            one = session.get(Flight, ("TST", "PY", AT, 3))
            one.dep_delay = 33
            session.commit()
            found = session.scalars(sqlalchemy.select(Flight.dep_delay).where(Flight.origin == "TST").order_by(Flight.flight)).all()
            same(f"{name}: ORM", found[:4], [0, 1, 2, 33])
            session.delete(one)
            session.commit()
        five = sqlalchemy.select(Flight).where(Flight.origin == "TST", Flight.flight == 5)

        def refused(what, run, expected):
            try:
                run()
            except sqlalchemy.exc.DBAPIError as error:
                code = getattr(error.orig, "sqlstate", None) or getattr(error.orig, "pgcode", None) or error.orig.args[0]["C"]
                return same(f"{name}: {what}", code, expected)
            sys.exit(f"{name}: {what} was not refused")

        with Session(engine) as first, Session(engine) as second:
            first.scalars(five.with_for_update()).one().dep_delay = 50
            refused("FOR UPDATE NOWAIT of what another holds", lambda: second.scalars(five.with_for_update(nowait=True)).one(), "55P03")
            second.rollback()
            passed = second.scalars(five.with_for_update(skip_locked=True)).all()
            same(f"{name}: FOR UPDATE SKIP LOCKED of what another holds", passed, [])
            # Nobody waits: that both have locked it is found when the second commits.
            second.scalars(five.with_for_update()).one().dep_delay = 51
            first.commit()
            refused("FOR UPDATE of what another has changed", second.commit, "40001")
        frame = pandas.read_sql(f"SELECT flight, dep_delay FROM flights WHERE {KEY} ORDER BY flight", engine)
        same(f"pandas {pandas.__version__} over {driver}: read_sql", list(frame["flight"]), [0, 1, 2, 4, 5, 6, 7, 8, 9])
        with engine.begin() as connection:
            connection.execute(sqlalchemy.delete(flights).where(flights.c.origin == "TST"))
        reflected(name, engine)
        engine.dispose()


def reflected(name, engine):
    import sqlalchemy

    inspector = sqlalchemy.inspect(engine)
    same(f"{name}: schemas", inspector.get_schema_names(), ["information_schema", "public"])
    columns = {column["name"]: column for column in inspector.get_columns("flights")}
    found = [(str(columns[column]["type"]), columns[column]["nullable"]) for column in ("origin", "scheduled", "dep_delay")]
    same(f"{name}: columns", found, [("TEXT", False), ("TIMESTAMP", False), ("INTEGER", True)])
    key = inspector.get_pk_constraint("flights")
    same(f"{name}: a primary key", (key["name"], key["constrained_columns"]), ("flights_pkey", ["origin", "dest", "scheduled", "flight"]))
    nothing = [inspector.get_foreign_keys("flights"), inspector.get_unique_constraints("flights"), inspector.get_check_constraints("flights")]
    nothing += [inspector.get_indexes("flights"), inspector.get_view_names(), inspector.get_enums()]
    same(f"{name}: what there is none of", nothing, [[]] * 6)
    same(f"{name}: has_table", (inspector.has_table("flights"), inspector.has_table("nothing")), (True, False))
    known = sqlalchemy.MetaData()
    known.reflect(engine)
    same(f"{name}: reflect", sorted(known.tables), ["airports", "flights", "readings", "weather"])
    with engine.connect() as connection:
        same(f"{name}: a reflected table", connection.execute(sqlalchemy.select(known.tables["airports"])).all(), [])


async def asyncpg_():
    import asyncpg

    name = f"asyncpg {asyncpg.__version__}"
    connection = await asyncpg.connect(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE)
    for sql, expected in VALUES:
        found = await connection.fetchval(sql)
        if found != expected:
            sys.exit(f"{name}: {sql}: expected {expected!r}, found {found!r}")
    print(f"ok: {name}: {len(VALUES)} types")
    # Types that the driver asks the catalog for, by a recursive query.
    same(f"{name}: arrays", await connection.fetchval("SELECT $1::int[]", [1, None, 3]), [1, None, 3])
    same(f"{name}: a type by its name", (await connection.fetchrow("SELECT indkey FROM pg_index LIMIT 1"))["indkey"][:1], [1])
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=str, decoder=lambda text: ("decoded", text))
    same(f"{name}: a codec", await connection.fetchval("SELECT '{}'::jsonb"), ("decoded", "{}"))
    async with connection.transaction():
        rows = [("TST", "PY", AT, number) for number in range(100)]
        await connection.copy_records_to_table("flights", records=rows, columns=COLUMNS.split(", "))
        found = [row["flight"] async for row in connection.cursor(f"SELECT flight FROM flights WHERE {KEY} ORDER BY flight", prefetch=7)]
        same(f"{name}: COPY and a cursor", found, list(range(100)))
    statement = await connection.prepare("SELECT count(*) FROM flights WHERE origin = $1 AND flight = ANY($2)")
    same(f"{name}: a prepared statement", await statement.fetchval("TST", [1, 2, 300]), 2)
    try:
        await connection.execute(f"INSERT INTO flights ({COLUMNS}) VALUES ($1, $2, $3, $4)", *rows[0])
        sys.exit(f"{name}: a key was written twice")
    except asyncpg.UniqueViolationError as error:
        same(f"{name}: SQLSTATE", error.sqlstate, "23505")
    same(f"{name}: DELETE", await connection.execute(f"DELETE FROM flights WHERE {KEY}"), "DELETE 100")
    heard = asyncio.get_running_loop().create_future()
    await connection.add_listener("news", lambda *told: heard.set_result(told[2:]))
    await connection.execute("NOTIFY news, 'told'")
    same(f"{name}: a listener", await asyncio.wait_for(heard, 60), ("news", "told"))
    await connection.close()
    async with asyncpg.create_pool(host=HOST, port=PORT, user=USER, password=PASSWORD, database=DATABASE, min_size=2, max_size=4) as pool:
        found = await asyncio.gather(*(pool.fetchval("SELECT $1::int", number) for number in range(20)))
        same(f"{name}: a pool", found, list(range(20)))


def adbc():
    import adbc_driver_postgresql
    import adbc_driver_postgresql.dbapi

    name = f"ADBC {adbc_driver_postgresql.__version__}"
    with adbc_driver_postgresql.dbapi.connect(f"postgresql://{URL}") as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 AS a, 'x'::text AS b, 0.1::float8 AS c, timestamptz '2013-08-01 14:30:15.25+02' AS d, true AS e,"
            " ARRAY['a', NULL] AS f, NULL::date AS g"
        )
        found = cursor.fetch_arrow_table().to_pylist()
        same(f"{name}: types", found, [{"a": 1, "b": "x", "c": 0.1, "d": AT, "e": True, "f": ["a", None], "g": None}])
        cursor.execute("SELECT * FROM generate_series(1, 20000)")
        same(f"{name}: rows", cursor.fetch_arrow_table().num_rows, 20_000)
        cursor.execute("SELECT * FROM flights")
        same(f"{name}: no rows", cursor.fetch_arrow_table().num_rows, 0)
        cursor.execute("SELECT $1::int + 1", (41,))
        same(f"{name}: a parameter", cursor.fetchall(), [(42,)])
        import pyarrow

        rows = pyarrow.table({"faa": ["TST", "TSU"], "name": ["one", "two"], "alt": pyarrow.array([1, None], pyarrow.int32())})
        same(f"{name}: ingest", cursor.adbc_ingest("airports", rows, mode="append"), 2)
        cursor.execute("DELETE FROM airports WHERE faa LIKE 'TS%'")
        same(f"{name}: DELETE", cursor.rowcount, 2)
        schema = connection.adbc_get_table_schema("flights")
        same(f"{name}: a table's schema", [str(schema.field(column).type) for column in ("origin", "flight")], ["string", "int32"])
        objects = connection.adbc_get_objects(db_schema_filter="public", table_types_filter=["table"]).read_all().to_pylist()
        tables = [table for schema in objects[0]["catalog_db_schemas"] for table in schema["db_schema_tables"]]
        found = {table["table_name"]: {column["column_name"] for column in table["table_columns"]} for table in tables}
        same(f"{name}: objects", {"origin", "scheduled", "dep_delay"} <= found.get("flights", set()), True)
        connection.commit()


def main():
    psycopg_sync()
    asyncio.run(psycopg_async())
    psycopg2_()
    pg8000_()
    sqlalchemy_()
    asyncio.run(asyncpg_())
    adbc()


main()
