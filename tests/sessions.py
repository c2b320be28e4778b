"""Sessions of the scripts that ask Keyspan and PostgreSQL the same."""

import sys

from psycopg import pq


def connect(conninfo):
    """A connection of libpq that prints no notices; ends the program where there is none."""
    connection = pq.PGconn.connect(f"{conninfo} client_encoding=UTF8".encode())
    if connection.status != pq.ConnStatus.OK:
        sys.exit(f"{conninfo}: {connection.error_message.decode()}")
    connection.notice_handler = lambda notice: None
    return connection


def remake(address, maintenance, database):
    """Makes a database anew, from within another one; gives the settings of connections to it."""
    first = connect(f"{address} dbname={maintenance}")
    for text in (f"DROP DATABASE IF EXISTS {database} WITH (FORCE)", f"CREATE DATABASE {database}"):
        result = first.exec_(text.encode())
        if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
            sys.exit(f"{address}: {result.error_message.decode()}")
    first.finish()
    return f"{address} dbname={database}"
