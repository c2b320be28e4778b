#!/usr/bin/env python3
"""Random queries on Keyspan and on PostgreSQL, compared.

    pip install 'psycopg[binary]'
    tests/random/run.py --keyspan 'host=127.0.0.1 port=5432 user=keyspan password=…' --postgres '…' [--seeds 0:5000]

Two tables of every common type, with and without NULLs, and two whose keys have several parts are made in a database
of its own on both servers. Each seed makes one query out of the templates below: joins, LATERAL, subqueries that name
the query around, groups and grouping sets, windows, DISTINCT, set operations, recursion, FOR UPDATE, casts between all
types, with constants and with parameters; a query of parts of keys, whose conditions become ranges; or a statement that
writes, in a transaction that is rolled back when the tables that it left were read; or several statements with cursors,
savepoints, views and temporary tables. What PostgreSQL answers is right: types and names of columns, rows, and their
order where ORDER BY says it. What differs is printed with its seed, an error of Keyspan alone too, and XX000 always.
(`varchar` counts as `text`: of a CASE or a coalesce of both PostgreSQL says the one and Keyspan the other.)

The exit code is 1 if anything was printed.
"""

import argparse
import collections
import pathlib
import random
import re
import sys

from psycopg import pq

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import sessions  # noqa: E402

# Types by their OIDs.
NUMERIC, FLOATS = 1700, (700, 701)
DATABASE = "random_queries"
TIMEOUT = "60s"
TABLES = {
    "t1": dict(id="int", a="int", b="bigint", s="smallint", c="text", d="text", e="numeric", n="numeric", f="float8",
               g="timestamp", h="date", z="timestamptz", i="boolean", k="boolean", v="varchar", iv="interval",
               j="jsonb", l="int[]"),
    "t2": dict(id="bigint", t="int", a="int", c="text", d="varchar", n="numeric", f="float8", g="timestamp",
               i="boolean"),
}
# Tables whose keys have several parts, which conditions and orders name.
KEYED = {
    "t3": dict(c="text", h="date", s="smallint", n="numeric", a="int", d="text"),
    "t4": dict(z="timestamptz", b="bigint", i="boolean", c="varchar", a="int", f="float8"),
}
PRIMARY_KEYS = {"t3": ["c", "h", "s"], "t4": ["z", "b", "i"]}
DEFINITIONS = [
    "CREATE TABLE t1 (id int PRIMARY KEY, a int, b bigint NOT NULL, s smallint, c text, d text NOT NULL, e numeric,"
    " n numeric(10,2) NOT NULL, f float8, g timestamp, h date NOT NULL, z timestamptz, i boolean, k boolean NOT NULL,"
    " v varchar(5), iv interval, j jsonb, l int[])",
    "CREATE TABLE t2 (id bigint PRIMARY KEY, t int NOT NULL, a int NOT NULL, c text NOT NULL, d varchar(10),"
    " n numeric(8,3), f float8 NOT NULL, g timestamp NOT NULL, i boolean)",
    "CREATE TABLE t3 (c text, h date, s smallint, n numeric, a int, d text NOT NULL, PRIMARY KEY (c, h, s))",
    "CREATE TABLE t4 (z timestamptz, b bigint, i boolean, c varchar(6), a int NOT NULL, f float8,"
    " PRIMARY KEY (z, b, i))",
]
WORDS = ["a", "b", "ab", "Abc", "x y", "", "10", "2", "zz", "é", "a'b"]
TYPES = ["int", "bigint", "text", "numeric", "float8", "boolean", "date", "timestamp"]
RARE = ["smallint", "varchar", "interval", "timestamptz", "jsonb", "int[]"]
NUMBERS = ["int", "bigint", "smallint", "numeric", "float8"]

# Values of a type that are written out.
CONSTANTS = {
    "int": ["-4", "0", "1", "3", "9"],
    "bigint": ["0::bigint", "12::bigint", "7::bigint"],
    "smallint": ["0::smallint", "4::smallint"],
    "numeric": ["1.5", "2.50", "0.1", "-1.25", "100.00", "3.0::numeric"],
    "float8": ["1.5::float8", "2.25::float8"],
    "text": ["'a'", "'ab'", "'x y'", "''", "'10'", "'b'::text"],
    "varchar": ["'a'::varchar", "'ab'::varchar(3)"],
    "boolean": ["true", "false", "null::boolean"],
    "date": ["date '2024-01-02'", "'2024-02-01'::date"],
    "timestamp": ["timestamp '2024-01-12 01:30:00'", "'2024-02-10'::timestamp"],
    "timestamptz": ["timestamptz '2024-01-03 12:00:00+00'"],
    "interval": ["interval '1 day'", "interval '2 hours'", "'30 minutes'::interval"],
    "jsonb": ["""'{"a": 1}'::jsonb""", "'[1, null, \"a\"]'::jsonb", "'2'::jsonb"],
    "int[]": ["array[1, 2]", "'{}'::int[]", "array[null, 3]"],
}
# The same as a client sends them: the type's OID and texts.
PARAMETERS = {
    "int": (23, ["-4", "0", "1", "3", "9"]), "bigint": (20, ["0", "12", "7"]), "smallint": (21, ["0", "4"]),
    "numeric": (1700, ["1.5", "2.50", "0.1", "-1.25", "100.00", "3"]), "float8": (701, ["1.5", "2.25", "-7"]),
    "text": (25, ["a", "ab", "x y", "", "10", None]), "boolean": (16, ["t", "f", None]), "date": (1082, ["2024-01-02"]),
    "timestamp": (1114, ["2024-01-12 01:30:00"]), "timestamptz": (1184, ["2024-01-03 12:00:00+00"]),
    "interval": (1186, ["1 day", "02:00:00"]),
    "jsonb": (3802, ['{"b":1,"a":1e2}', '{"a": 1}', "2", '[-0,"x",{"a":[]}]']),
    "int[]": (1007, ["{1,2}", "{}"]),
}

# Expressions of a type. `{type}` is one of that type, `{=type}` a constant, `{x}` one of a type that is chosen
# for the whole template, `{=x}` a constant of it; `{any}` is of any type, `{T}` of the type that is asked for. A
# semicolon stands between templates.
EXPRESSIONS = {
    "int": """
        {int} + {int}; {int} - {int}; length({text}); ({bigint})::int; ({smallint})::int; ({numeric})::int;
        ({float8})::int; ({boolean})::int; abs({int}); extract(day from {date})::int; ({int}) % 3; ({int}) / 2;
        ({date}) - ({date}); position({text} in {text}); ascii({text}); case {text} when 'a' then {int} else 3 end;
        cardinality(array[{int}, 2]); (array[{int}, {int}])[2]; sign({numeric})::int; octet_length({text});
        strpos({text}, 'b'); (({int}) & 3) | 4; num_nulls({int}, {text}); -({int}); mod({int}, 5);
        (jsonb_build_array({int}, {text}) ->> 0)::int; ({int[]})[1]; cardinality({int[]}); array_length({int[]}, 1);
        array_position({int[]}, {int}); (({jsonb}) ->> 'a')::int; ({int}) << 1;
        ({date} - {date}) / nullif({int}, 0);
        gcd({int}, {int}); ({int}) # 5; ~({int}); width_bucket({float8}, 0, 10, 5);
        extract(isodow from {date})::int;
        extract(week from {timestamp})::int; date_part('quarter', {date})::int; array_upper({int[]}, 1);
        regexp_count({text}, 'a'); (string_to_array({text}, ' '))[1]::int; min_scale({numeric}); scale({numeric});
        jsonb_array_length(jsonb_build_array({any}, {int})); least({int}, {smallint}, 2); num_nonnulls({any}, {any})
        """,
    "bigint": """
        ({int})::bigint; ({bigint}) + {int}; ({bigint}) * {int}; ({bigint}) % 4; greatest({bigint}, {int});
        ({bigint}) / 3; extract(epoch from {timestamp})::bigint
        """,
    "smallint": "(({int}) % 7)::smallint; abs({=smallint})",
    "numeric": """
        ({numeric}) + ({numeric}); ({numeric}) - ({int}); ({numeric}) * ({int}); round({numeric}, 1);
        ({int})::numeric; ({bigint})::numeric; ({float8})::numeric; ({int})::numeric(10,2); trunc({numeric});
        ({numeric}) / 4; extract(hour from {timestamp}); abs({numeric}); ceil({numeric}); mod({numeric}, 3);
        ({numeric}) / nullif({int}, 0); -({numeric}); round({numeric}); floor({numeric});
        ({numeric})::numeric(12,1); extract(epoch from {interval}); div({numeric}, 2); trim_scale({numeric});
        power({numeric}, 2); sqrt(abs({numeric})); exp({int} % 5::numeric); ln(abs({numeric}) + 1);
        extract(second from {timestamp}); greatest({numeric}, {int}); (({jsonb}) -> 'a')::numeric; factorial(4);
        round({numeric}, {int} % 4); trunc({numeric}, 1); ({text} || '1')::numeric
        """,
    "float8": """
        ({float8}) + ({float8}); ({float8}) - ({int}); ({int})::float8; ({numeric})::float8; floor({float8});
        ({float8}) / 2; round({int}); date_part('day', {timestamp}); extract(epoch from {timestamptz})::float8;
        sqrt(abs({float8})); power({float8}, 2); least({float8}, {int}); ({float8})::real::float8; cbrt({float8});
        trunc({float8}); sign({float8}); degrees({float8}); atan2({float8}, 2)
        """,
    "text": """
        ({text}) || ({text}); ({any})::text; ({varchar})::text; upper({text}); lower({text}); substr({text}, 1, 2);
        replace({text}, 'a', 'q'); to_char({timestamp}, 'YYYY-MM'); lpad({text}, 4, '*'); concat({any}, {text});
        left({text}, 2); trim({text}); to_char({numeric}, '999.99'); ({text})::varchar(3);
        split_part({text}, 'a', 1); reverse({text}); initcap({text}); repeat({text}, 2);
        translate({text}, 'ab', 'ba'); md5({text}); to_char({int}, '000');
        case {int} when 1 then {text} when 2 then 'two' else {text} end; overlay({text} placing 'Q' from 1 for 1);
        regexp_replace({text}, '[ab]', 'X', 'g'); concat_ws('-', {text}, {int});
        jsonb_build_object('k', {int}) ->> 'k'; ({jsonb}) ->> 'a'; jsonb_typeof({jsonb}); ({jsonb}) #>> '{b,0}';
        array_to_string({int[]}, ',', '-'); array_to_string(array[{text}, {text}], ','); right({text}, 2);
        format('%s-%I-%L', {any}, {text}, {text}); quote_literal({text}); quote_ident({text}); rpad({text}, 3);
        to_char({date}, 'Dy DDth Mon'); to_char({interval}, 'HH24:MI'); to_char({float8}, 'FM990.0');
        chr(65 + abs({int}) % 26);
        to_hex({int}); encode({text}::bytea, 'hex'); btrim({text}, 'ab'); substring({text} from 'a.');
        ltrim({text}, 'a');
        regexp_replace({text}, '(a)(b)?', '<\\1\\2>'); (regexp_match({text}, 'a(.)?'))[1]; substr({text}, {int}, 2);
        ({jsonb})::text; jsonb_pretty({jsonb}); to_char({timestamp}, 'IYYY-IW-ID HH12:MI:SS AM'); ({int[]})::text;
        (string_to_array({text}, 'a'))[2]; greatest({text}, {text}); ({interval})::text; left({text}, {int});
        nullif({text}, '') || {text}; trim(leading 'a' from {text}); regexp_substr({text}, '[a-z]+');
        ({numeric})::text
        """,
    "varchar": "({text})::varchar(4); ({int})::varchar",
    "boolean": """
        ({x}) = ({x}); ({x}) < ({x}); ({x}) <> ({x}); ({x}) >= ({x}); ({boolean}) and ({boolean});
        ({boolean}) or ({boolean}); not ({boolean}); ({any}) is null; ({any}) is not null;
        ({x}) in ({=x}, {=x}, {x}); ({x}) not in ({=x}, {x}); ({x}) between ({=x}) and ({x}); ({text}) like '%a%';
        ({text}) not like '_'; ({text}) ilike 'a%'; ({x}) is distinct from ({x}); ({x}) is not distinct from ({x});
        ({int}) < ({numeric}); ({bigint}) = ({float8}); ({text}) ~ '^[a-c]'; ({int}) = any (array[{=int}, {int}]);
        ({text}) <> all (array[{=text}, {text}]); ({boolean}) is true; ({boolean}) is not true;
        ({boolean}) is not false; ({boolean}) is unknown; (({int}), ({text})) < (({int}), ({text}));
        (({int}), ({text})) = (({int}), ({text})); starts_with({text}, 'a'); ({text}) similar to '(a|b)%';
        ({int}) = any ({int[]}); ({int[]}) @> ({int[]}); ({int[]}) && ({int[]}); ({jsonb}) @> ({=jsonb});
        ({jsonb}) ? 'a'; ({int[]}) = ({int[]}); ({jsonb}) = ({jsonb}); ({text}) ^@ ({text}); ({int[]}) < ({int[]});
        now() > ({timestamptz}); current_date >= ({date}); ({date}, {interval}) overlaps ({date}, {interval});
        ({jsonb}) ?| array['a', 'b']; ({jsonb}) @? '$.a'; ({int[]}) <@ ({int[]}); ({jsonb}) < ({jsonb});
        ({x}) = any (array[{x}, {=x}]); ({text}) !~ 'a$'; ({text}) ~* 'AB'; isfinite({timestamp});
        ({boolean}) <> ({boolean});
        ({int}) between symmetric ({int}) and ({int}); ({text}) like any (array['a%', {text}]);
        (({int}), ({date})) is distinct from (({int}), ({date}));
        row({int}, {text}) in (row(1, 'a'), row({int}, {text}))
        """,
    "date": """
        ({timestamp})::date; ({date}) + 3; ({date}) - 1; date_trunc('month', {date})::date;
        make_date(2024, 1 + abs({int}) % 12, 3); to_date('2024-0' || (1 + abs({int}) % 9), 'YYYY-MM');
        least({date}, {date}); ({date} + {interval})::date; date_trunc('week', {timestamp})::date
        """,
    "timestamp": """
        date_trunc('day', {timestamp}); date_trunc('week', {timestamp}); ({date})::timestamp;
        ({timestamp}) + ({interval}); ({date}) - ({interval}); ({timestamptz}) at time zone 'America/New_York';
        to_timestamp({int}) at time zone 'UTC'; date_bin('15 minutes', {timestamp}, timestamp '2024-01-01');
        greatest({timestamp}, {date}); make_timestamp(2024, 1 + abs({int}) % 12, 3, 4, 5, 6.5);
        ({timestamp}) - ({interval})
        """,
    "timestamptz": """
        ({timestamp})::timestamptz; ({timestamptz}) + ({interval}); ({timestamp}) at time zone 'Europe/Berlin'
        """,
    "interval": """
        ({interval}) + ({interval}); ({timestamp}) - ({timestamp}); ({interval}) * 2; age({timestamp}, {timestamp});
        make_interval(days => {int}); -({interval}); justify_hours({interval}); justify_days({interval});
        ({interval}) / 2; ({timestamptz}) - ({timestamptz}); age({timestamp}, {date});
        date_trunc('hour', {interval})
        """,
    "jsonb": """
        to_jsonb({any}); jsonb_build_object('a', {any}, 'b', {int}); ({jsonb}) || ({jsonb}); ({jsonb}) -> 'a';
        jsonb_build_array({any}, {text}); to_jsonb({int[]}); jsonb_strip_nulls({jsonb}); ({jsonb}) - 'a';
        jsonb_set({jsonb}, array['a'], {jsonb}); ({jsonb}) #> '{a,0}'; jsonb_path_query_first({jsonb}, '$.a');
        ({jsonb}) - 0;
        jsonb_path_query_array({jsonb}, '$[*]'); jsonb_object(array['a', {text}]); to_jsonb({numeric}) || ({jsonb});
        jsonb_insert({jsonb}, array['b'], {jsonb}); ({text} || '1')::jsonb; coalesce({jsonb} -> 'b', 'null')
        """,
    "int[]": """
        array[{int}, {int}]; ({int[]}) || ({int}); array_append({int[]}, {int}); ({int[]})[1:2];
        array_remove({int[]}, {int}); ({int[]}) || ({int[]}); array_prepend({int}, {int[]});
        array_replace({int[]}, {int}, {int}); array_fill({int}, array[2]); array_positions({int[]}, {int});
        trim_array({int[]}, 0);
        array_cat({int[]}, {int[]}); (array[{int}, {int}])[2:]; array(select {=int})
        """,
}
OF_ANY_TYPE = """
    coalesce({T}, {T}); case when {boolean} then {T} else {T} end; nullif({T}, {=T});
    case when {boolean} then {T} end
    """
AGGREGATES = """
    count(*); count({any}); count(distinct {any}); sum({int}); sum({bigint}); sum({numeric});
    sum(distinct {int}); avg({int}); avg({numeric}); avg({float8}); min({int}); max({text}); min({date});
    max({timestamp}); max({numeric}); bool_and({boolean}); bool_or({boolean});
    length(string_agg({text}, ',' order by {text})); string_agg(distinct {text}, ',');
    count(*) filter (where {boolean}); sum({int}) filter (where {boolean}); max({int})::text;
    array_agg({int} order by {int}, {text}) is null; array_agg(distinct {int}); every({boolean});
    max({int[]}); jsonb_array_length(jsonb_agg({int})); bit_or({int}); variance({int}); stddev({numeric});
    percentile_cont(0.5) within group (order by {int}); percentile_disc(0.5) within group (order by {text});
    mode() within group (order by {int}); count(distinct ({int}, {text})); max({interval}); sum({interval});
    min({timestamptz}) filter (where {boolean}); sum({float8} * 0); avg({interval}); bit_and({int});
    max(distinct {text});
    jsonb_agg({any} order by {int}, {text}) is not null; jsonb_object_agg({int}, {any}) is null;
    regr_count({int}, {int});
    covar_pop({int}, {int}); stddev_pop({int}); min({jsonb} ->> 'a'); bit_xor({int});
    length(string_agg({text}, '-' order by {int}, {text}) filter (where {boolean})); sum({int}) + count({any});
    percentile_cont(array[0.25, 0.75]) within group (order by {float8}); rank({=int}) within group (order by {int});
    case when count(*) > 1 then max({text}) end; coalesce(sum({numeric}), 0); max({date}) - min({date});
    sum(distinct {numeric}); avg(distinct {int}); bool_and({boolean}) or count({any}) > 2
    """
# Windows over groups.
OVER_GROUPS = """
    sum(count(*)) over (); rank() over (order by count(*)); max(sum({int})) over ();
    count(*) over (order by min({int})); sum(sum({int})) over (order by count(*))
    """
WINDOWS = """
    count(*) over (partition by {int}); sum({int}) over (partition by {text});
    rank() over (order by {int}, {text}); max({text}) over (partition by {boolean});
    count({text}) over (partition by {text} order by {int});
    dense_rank() over (partition by {boolean} order by {date} desc); rank() over (order by {text}) / 2;
    max({int}) filter (where {boolean}) over (partition by {int}); cume_dist() over (order by {int});
    sum({int}) over (order by {int}); percent_rank() over (partition by {int} order by {date});
    sum({numeric}) over (order by {int} range between 1 preceding and 1 following);
    count(*) over (order by {int} groups between 1 preceding and current row);
    max({text}) over (order by {int} groups between unbounded preceding and 1 following);
    count(*) over (order by {date} range between interval '2 days' preceding and current row);
    sum({int}) over (order by {int} range between current row and unbounded following exclude group);
    avg({int}) over (partition by {text}); min({numeric}) over (partition by {text} order by {int} desc nulls last)
    """
# `{key}` is what tells the rows of the query around apart.
ORDERED_WINDOWS = """
    row_number() over (partition by {text} order by {key}); ntile(3) over (order by {key});
    lag({any}) over (partition by {boolean} order by {key}); lag({int}, 2, 0) over (order by {key});
    lead({text}, 1, 'none') over (order by {key}); first_value({any}) over (partition by {int} order by {key});
    last_value({text}) over (order by {key} rows between unbounded preceding and unbounded following);
    nth_value({int}, 2) over (order by {key} desc); last_value({int}) over (order by {key});
    sum({int}) over (order by {key} rows between 2 preceding and current row);
    count({int}) over (order by {key} rows between 1 following and 3 following);
    array_agg({int}) over (partition by {text} order by {key});
    min({date}) over (order by {key} rows between 1 preceding and 1 following exclude current row);
    sum({numeric}) over (order by {int}, {key} rows unbounded preceding)
    """
# `{col}` is a column of the query around, of whole numbers.
CONDITIONS = """
    exists (select 1 from t2 w where w.a = {col} and w.id > 5);
    not exists (select 1 from t1 w where w.id = {col} and w.k);
    {col} in (select w.a from t1 w where w.b > {col}); {col} not in (select w.id from t2 w where w.a = {col});
    (select count(*) from t1 w where w.a = {col}) > 1; {col} = any (select w.a from t2 w);
    {col} > all (select w.a from t2 w where w.id < 9 and w.a < {col});
    (select max(w.id) from t1 w where w.a = {col}) is not null; ({text}) in (select w.c from t2 w);
    ({int}) > (select avg(w.a) from t2 w); (select false); (select max(w.a) from t2 w) > 100;
    ({col}, {text}) in (select w.a, w.c from t2 w);
    ({col}, 1) not in (select w.id, w.a from t1 w where w.a is not null);
    exists (select w.a from t1 w where w.id <= {col} group by w.a having count(*) > 1);
    exists (select 1 from t1 w join t2 u on u.a = w.a where w.id = {col} and u.id > {int});
    {col} in (select max(w.a) from t1 w where w.k group by w.c union select 3); {text} = any (select w.d from t2 w);
    (select bool_or(w.i) from t2 w where w.a = {col}); {col} <> all (select w.b from t1 w where w.a = {col});
    {col} = (select w.a from t2 w where w.id = {col} order by w.t limit 1)
    """
SCALARS = """
    (select count(*) from t1 w where w.a = {col}); (select sum(w.b) from t1 w where w.id < {col});
    (select max(w.c) from t2 w where w.a = {col} having count(*) > 1);
    (select w.d from t1 w where w.id = {col}); exists (select 1 from t2 w where w.a = {col});
    array(select w.a from t1 w where w.id <= {col} and w.k order by w.id);
    (select w.c from t1 w where w.a = {col} order by w.id desc limit 1);
    (select count(*) from t1 w where ({col}, w.k) = (w.a, {boolean}));
    (select jsonb_agg(w.a order by w.id) from t2 w where w.id < {col}); {col} in (select w.a from t2 w where w.i);
    (select string_agg(w.c, ',' order by w.id) from t1 w where w.a > {col} and w.d <> {text});
    (select {int} + max(w.id) from t2 w);
    (select sum(u.n) from (select w.n, w.a from t1 w where w.id <> {col}) u where u.a = {col})
    """
# What stands behind LATERAL, and the columns that it has.
LATERALS = [
    ("jsonb_each_text({jsonb}) y(q, m)", {"q": "text", "m": "text"}),
    ("jsonb_array_elements(jsonb_build_array({int}, {any})) y(m)", {"m": "jsonb"}),
    ("generate_series(1, 3) y(m)", {"m": "int"}),
    ("regexp_split_to_table({text}, '') y(m)", {"m": "text"}),
    ("(values ({int}, {text}), (2, {text})) y(m, q)", {"m": "int", "q": "text"}),
    ("unnest(array[{int}, {int}]) with ordinality y(m, q)", {"m": "int", "q": "bigint"}),
    ("(select w.a as m, w.c as q from t2 w where w.a = {col}) y", {"m": "int", "q": "text"}),
    ("(select {int} + w.a as m, {text} as q from t2 w where w.id < {col}) y", {"m": "int", "q": "text"}),
    (
        "(select sum(w.a) as m, {text} as q from t1 w where w.a > {col} having count(*) > 1) y",
        {"m": "bigint", "q": "text"},
    ),
    ("jsonb_to_record(jsonb_build_object('m', {int}, 'q', {text})) y(m int, q text)", {"m": "int", "q": "text"}),
]
# Conditions of a part of a key, by its type; `{key}` is the part, `{=}` a constant of its type.
OF_KEYS = """
    {key} = {=}; {key} = {=}; {key} in ({=}, {=}); {key} not in ({=}, {=}); {key} <> {=}; {key} < {=}; {key} >= {=};
    {key} > {=} and {key} <= {=}; {key} between {=} and {=}; not ({key} = {=}); not ({key} < {=} or {key} > {=});
    {key} = any (array[{=}, {=}]); {key} is distinct from {=}; {key} is not null; {key} is null; {=} < {key};
    coalesce({key}, {=}) = {=}; ({key} = {=}) is not true; ({key} > {=}) = true; {key} not between {=} and {=};
    {key} = {=} or {key} > {=}; nullif({key}, {=}) is null; {key} = (select {=}); {key} >= all (array[{=}, {=}]);
    case when {key} > {=} then {key} = {=} else {key} < {=} end; {key} between symmetric {=} and {=};
    {key} in (select {=}); ({key} < {=}) <> ({key} > {=}); greatest({key}, {=}) = {key}; {key} <> all (array[{=}])
    """
OF_TEXT_KEYS = """
    {key} like 'a%'; {key} like 'a_%'; {key} not like 'a%'; starts_with({key}, {=}); {key} || '' = {=}; {key} ~ '^a';
    {key} ^@ 'ab'; lower({key}) = {=}; {key} ilike 'A%'; {key} similar to '(a|b)%'; left({key}, 1) = {=};
    substr({key}, 1, 1) = 'a'; {key} like {=} || '%'; {key} > {=} and {key} < {=} || 'z'; {key} like '%b';
    {key} ~~ 'é%'
    """
OF_DATE_KEYS = """
    {key} >= timestamp '2024-01-02 00:00'; {key} < timestamp '2024-01-02 10:00'; date_trunc('month', {key}) = {=};
    extract(year from {key}) = 2024; {key} + 1 > {=}; {key} - {=} < 2; {key} > '2024-01-01'; {key}::text > '2024-01-02';
    {key} between {=} and {=} + interval '1 day'; {key} >= timestamptz '2024-01-02 03:00+02'; {key} = '2024-01-02';
    date_part('month', {key}) = 1; {key} <= 'infinity'; to_char({key}, 'MM') = '01'; {key} > {=} - interval '36 hours'
    """
OF_NUMBER_KEYS = """
    {key} > 1.5; {key} = 2.0; {key} < 2.5::float8; {key} + 1 > {=}; {key} % 2 = 0; -{key} < {=}; {key} > -100000;
    {key} < 3000000000; {key} = '2'; {key} between 0.5 and {=}; {key}::text = '2'; {key} * 2 = {=}; {key} in (1, 2.0);
    abs({key}) = {=}; {key} >= -32769; {key} < 1e30; {key} = 1.25
    """
OF_TIME_KEYS = """
    {key} >= '2024-01-02'; {key} < timestamp '2024-01-02 10:00';
    date_trunc('day', {key}) = timestamptz '2024-01-02 UTC';
    {key} > {=} - interval '1 hour'; {key}::date = date '2024-01-02'; {key} between {=} and {=} + interval '1 day';
    {key} = '2024-01-03 12:00+00'; {key} at time zone 'UTC' > timestamp '2024-01-02'; {key} < date '2024-01-03';
    extract(day from {key}) = 2; {key} <= now(); {key} > '-infinity'
    """
OF_BOOLEAN_KEYS = "{key}; not {key}; {key} is true; {key} is not false; {key} = {=}; {key} is unknown; {key} > {=}"
JOINS = ["join", "left join", "join", "right join", "full join"]
KEYS = ["x.id = y.id", "x.a = y.a", "x.c = y.c", "x.id = y.a"]


def alternatives(templates):
    return [" ".join(template.split()) for template in templates.split(";")]


EXPRESSIONS = {kind: alternatives(templates) for kind, templates in EXPRESSIONS.items()}
OF_ANY_TYPE, AGGREGATES, OVER_GROUPS = map(alternatives, (OF_ANY_TYPE, AGGREGATES, OVER_GROUPS))
WINDOWS, ORDERED_WINDOWS = map(alternatives, (WINDOWS, ORDERED_WINDOWS))
CONDITIONS, SCALARS = map(alternatives, (CONDITIONS, SCALARS))
OF_KEYS = alternatives(OF_KEYS)
OF_KEYS_OF = {
    "text": alternatives(OF_TEXT_KEYS), "date": alternatives(OF_DATE_KEYS), "smallint": alternatives(OF_NUMBER_KEYS),
    "bigint": alternatives(OF_NUMBER_KEYS), "timestamptz": alternatives(OF_TIME_KEYS),
    "boolean": alternatives(OF_BOOLEAN_KEYS),
}


class Maker:
    """Makes one query. `scope` is the relations whose columns may stand in it: names and types of columns by alias."""

    def __init__(self, seed, sent=None):
        """With a list of what is `sent`, half of the constants are parameters, which it gets: types' OIDs and texts."""
        self.random, self.scope, self.sent = random.Random(seed), {}, sent

    def chance(self, odds):
        return self.random.random() < odds

    def one(self, items):
        return self.random.choice(items)

    def kind(self):
        return self.one(TYPES + TYPES + RARE)

    def columns(self, *kinds):
        scope = self.scope.items()
        return [f"{alias}.{name}" for alias, names in scope for name, kind in names.items() if kind in kinds]

    def constant(self, kind):
        if self.sent is None or kind not in PARAMETERS or self.chance(0.5):
            return self.one(CONSTANTS[kind])
        oid, texts = PARAMETERS[kind]
        self.sent.append((oid, self.one(texts)))
        return f"${len(self.sent)}"

    def filled(self, template, depth):
        """A template with an expression for each placeholder."""
        chosen = self.one(TYPES)

        def placed(found):
            constant, name = found.groups()
            kind = {"x": chosen, "any": self.kind()}.get(name, name)
            if name == "col":
                return self.one(self.columns("int", "bigint") or ["1"])
            if name == "key":
                return ", ".join(f"{alias}.id" for alias in self.scope)
            return self.constant(kind) if constant else self.expression(kind, depth)

        return re.sub(r"\{(=?)(\w+(?:\[\])?)\}", placed, template)

    def expression(self, kind, depth):
        if depth <= 0 or self.chance(0.25):
            columns = self.columns(kind, "varchar") if kind == "text" else self.columns(kind)
            return self.one(columns) if columns and self.chance(0.85) else self.constant(kind)
        if self.chance(0.2):
            return self.filled(self.one(OF_ANY_TYPE).replace("T}", kind + "}"), depth - 1)
        return self.filled(self.one(EXPRESSIONS[kind]), depth - 1)

    def relations(self, depth):
        """What stands behind FROM."""
        names = list(TABLES)
        x, y, w = self.one(names), self.one(names), self.one(names)
        form = self.random.randrange(17)
        if form == 0:
            self.scope = {"x": {"a": "int"}}
            values = "(values (1), (2), (2), (null)) x(a)"
            return self.one(["generate_series(1, 6) x(a)", values, "(select distinct a from t1) x"])
        if form == 1:
            shared = {"a", "c"}
            self.scope = {
                alias: {name: kind for name, kind in TABLES[table].items() if name not in shared}
                for alias, table in (("x", x), ("y", y))
            }
            return f"{x} x {self.one(JOINS)} {y} y using ({self.one(['a', 'c', 'a, c'])})"
        if form == 2:
            self.scope = {"x": TABLES[x], "w": TABLES[w]}
            condition = f"{self.expression('boolean', 1)} and w.id > x.a"
            some = f"select w.a as m, w.id as o from {w} w where {condition} order by w.id limit 2"
            all_of_them = f"select count(*) as m, max(w.id) as o from {w} w where {condition}"
            self.scope = {"x": TABLES[x], "y": {"m": "bigint"}}
            return f"{x} x {self.one(['left join', 'join'])} lateral ({self.one([some, all_of_them])}) y on true"
        if form == 3:
            self.scope = {"x": TABLES[x], "y": TABLES[y], "w": TABLES[w]}
            first = f"{x} x {self.one(JOINS)} {y} y on x.id = y.{self.one(['id', 'a'])}"
            return f"{first} {self.one(JOINS)} {w} w on {self.one('xy')}.a = w.{self.one(['a', 'id'])}"
        if form <= 5 and depth > 0:
            inner = Maker(self.random.random(), self.sent)
            query, columns = inner.select(depth - 1, named=True)
            self.scope = {"x": columns}
            return f"({query}) x"
        if form == 12 and depth > 0:
            query, columns = Maker(self.random.random(), self.sent).select(depth - 1, named=True)
            whole = [name for name, kind in columns.items() if kind in ("int", "bigint")]
            if whole:
                self.scope = {"x": TABLES[x], "y": columns}
                return f"{x} x {self.one(JOINS)} ({query}) y on x.{self.one(['id', 'a'])} = y.{self.one(whole)}"
        if form == 14:
            self.scope = {"x": TABLES[x]}
            call, names = self.one(LATERALS)
            rows = self.filled(call, 1)
            self.scope["y"] = names
            forms = [f"left join lateral {rows} on true", f"cross join lateral {rows}", f", {rows}"]
            return f"{x} x " + self.one(forms)
        if form == 15:
            self.scope = {"x": {"m": "int"}}
            word, step = self.one(["union all", "union"]), self.one(["r.m + 1", "r.m * 2", "r.m + w.a % 3 + 1"])
            other = " join t2 w on w.t = r.m" if "w.a" in step else ""
            query = f"select 1 {word} select {step} from r{other} where r.m < 6"
            return f"(with recursive r(m) as ({query}) select m from r) x"
        if form == 13:
            self.scope = {"x": TABLES[x]}
            if self.chance(0.5) and x == "t1":
                self.scope["y"] = {"m": "int"}
                return f"{x} x {self.one(['left join', 'join'])} lateral unnest(x.l) y(m) on true"
            return f"{x} x where x.id in (select w.{self.one(['id', 'a'])} from {w} w)"
        if form <= 8:
            self.scope = {"x": TABLES[x], "y": TABLES[y]}
            join = self.one(JOINS)
            on = self.one(KEYS)
            if join != "full join" and self.chance(0.3):
                on += f" and {self.expression('boolean', 1)}"
            if join != "full join" and self.chance(0.15):
                condition = self.condition()
                on = f"{on} and ({condition})" if self.chance(0.7) else condition
            return f"{x} x {join} {y} y on {on}"
        self.scope = {"x": TABLES[x]}
        return f"{x} x"

    def condition(self):
        """A condition with a subquery."""
        return self.subquery() if self.chance(0.5) else self.filled(self.one(CONDITIONS), 1)

    def subquery(self):
        """A condition with a subquery of any relations, which names columns outside of it."""
        inner = Maker(self.random.random(), self.sent)
        relations = re.sub(
            r"(?<=\bt[12] )[xyw]\b|(?<=\) )[xyw]\b|\b[xyw](?=[.(])", lambda found: f"in_{found[0]}", inner.relations(0)
        )
        own = {f"in_{alias}": names for alias, names in inner.scope.items()}
        # An aggregate of nothing but columns outside would be one of the query outside.
        inner.scope = own
        aggregates = ["count(*)", "max({int})", "sum({numeric})", "count({text})", "min({date})"]
        aggregate = inner.filled(self.one(aggregates), 1)
        key = self.one(inner.columns("int", "bigint") or ["1"])
        inner.scope = {**own, **self.scope}
        outside = self.one(self.columns("int", "bigint") or ["1"])
        conditions = [f"({inner.expression('boolean', 1)})" for _ in range(self.random.randint(0, 2))]
        if self.chance(0.7):
            conditions.append(f"{key} {self.one(['=', '=', '<', '>=', '<>'])} {outside}")
        word = "and" if " where " in relations.rsplit(")", 1)[-1] else "where"
        rest = f" from {relations}" + (f" {word} " + " and ".join(conditions) if conditions else "")
        shown = inner.expression("int", 1)
        form = self.random.randrange(8)
        if form <= 2:
            items = self.one(["1", "*", f"{shown}, {key} as id", f"distinct {shown}", f"{aggregate} as a"])
            having = self.one(["", f" group by {key}", f" group by {key} having {aggregate} is not null"])
            if items == "*" or items.startswith((shown, "distinct")):
                having = ""
            return f"{self.one(['', 'not '])}exists (select {items}{rest}{having})"
        if form <= 4:
            wanted = self.one([outside, self.expression("int", 1)])
            return f"{wanted} {self.one(['in', 'not in', '= any', '<> all', '< any'])} (select {shown}{rest})"
        if form == 5:
            return f"({outside}, {self.expression('text', 0)}) in (select {key}, {inner.expression('text', 0)}{rest})"
        compared = self.one(["is not null", "is null"])
        return f"(select {aggregate}{rest}{self.one(['', '', ' having count(*) > 1'])}) {compared}"

    def key_condition(self, alias, table):
        """A condition of parts of a table's key."""
        parts = [(f"{alias}.{name}", KEYED[table][name]) for name in PRIMARY_KEYS[table]]
        if self.chance(0.2):
            some = parts[self.random.randint(0, 1) :][: self.random.randint(2, 3)]
            names, kinds = zip(*some)
            row = lambda: "(" + ", ".join(self.constant(kind) for kind in kinds) + ")"  # noqa: E731
            left = f"({', '.join(names)})"
            return self.one(
                [
                    f"{left} {self.one(['>', '>=', '<', '<=', '=', '<>'])} {row()}",
                    f"{left} in ({row()}, {row()}, {row()})",
                    f"{left} {self.one(['>', '>='])} {row()} and {left} {self.one(['<', '<='])} {row()}",
                    " or ".join("(" + " and ".join(f"{n} = {self.constant(k)}" for n, k in some) + ")" for _ in "ab"),
                ]
            )
        name, kind = self.one(parts)
        template = self.one(OF_KEYS_OF[kind] if self.chance(0.35) else OF_KEYS)
        return re.sub(r"\{(key|=)\}", lambda found: name if found[1] == "key" else self.constant(kind), template)

    def key_conditions(self, alias, table, least=0):
        """Several of them, as a condition."""
        chosen = [f"({self.key_condition(alias, table)})" for _ in range(self.random.randint(least, 3))]
        if len(chosen) > 1 and self.chance(0.3):
            chosen = [f"({' or '.join(chosen)})"] + [f"({self.key_condition(alias, table)})"] * self.chance(0.5)
        if self.chance(0.15):
            chosen.append(f"({self.expression('boolean', 1)})")
        return " and ".join(chosen)

    def keyed(self):
        """A query of a table whose key has several parts: conditions, orders, groups and joins of the parts."""
        table = self.one(list(KEYED))
        self.scope = {"x": KEYED[table]}
        where = self.key_conditions("x", table)
        where = f" where {where}" if where else ""
        key = [f"x.{name}" for name in PRIMARY_KEYS[table]]
        prefix = key[: self.random.randint(1, 2)]
        form = self.random.randrange(9)
        if form <= 2:
            way = self.one(["", " desc"])
            order = ", ".join(part + (way if self.chance(0.85) else " desc") for part in key)
            items = [self.expression(self.kind(), self.random.randint(0, 1)) for _ in range(2)]
            shown = self.one([", ".join(key), ", ".join(items), f"{key[0]}, {items[0]}"])
            number, before = (f", {call} over (order by {order})" for call in ("row_number()", f"lag({key[-1]})"))
            window = self.one(["", number, before])
            limit = self.one(["", f" limit {self.random.randint(0, 6)}", " limit 3 offset 2", " offset 4"])
            return f"select {shown}{window} from {table} x{where} order by {order}{limit}"
        if form <= 4:
            aggregate = self.filled(self.one(AGGREGATES), 1)
            of_parts = [f"min({key[0]})", f"max({key[-2]})", f"count(distinct {key[1]})", "count(*)"]
            extreme = self.one([*of_parts, aggregate])
            if self.chance(0.35):
                return f"select {extreme}, count(*) from {table} x{where}"
            having = self.one(["", "", " having count(*) > 1"])
            order = self.one(["", f" order by {', '.join(prefix)}", f" order by 1{', 2' * (len(prefix) - 1)}"])
            limit = " limit 3" if order and self.chance(0.4) else ""
            listed = ", ".join(prefix)
            return f"select {listed}, {extreme} from {table} x{where} group by {listed}{having}{order}{limit}"
        if form == 5:
            listed = ", ".join(prefix if self.chance(0.7) else key[1:])
            order = f" order by {listed}" if self.chance(0.6) else ""
            limit = " limit 3" if order and self.chance(0.5) else ""
            return f"select distinct {listed} from {table} x{where}{order}{limit}"
        if form == 6:
            listed = ", ".join(prefix)
            rest = ", ".join(part + self.one(["", " desc"]) for part in key[len(prefix) :])
            value = self.expression(self.kind(), 0)
            return f"select distinct on ({listed}) {listed}, {value} from {table} x{where} order by {listed}, {rest}"
        if form == 7:
            self.scope["y"] = KEYED[table]
            on = " and ".join(f"{part} = y.{part[2:]}" for part in self.one([prefix, key, key[1:], key[:1]]))
            further = self.key_conditions("y", table)
            on += f" and {further}" if further and self.chance(0.5) else ""
            shown = self.one([", ".join(key), "count(*), min(y.a)", f"{key[0]}, y.a, {self.expression('text', 1)}"])
            return f"select {shown} from {table} x {self.one(JOINS[:4])} {table} y on {on}{where}"
        other = self.one([name for name in KEYED if name != table])
        self.scope = {"x": KEYED[table], "y": KEYED[other]}
        on = "x.a = y.a" if self.chance(0.6) else "x.c = y.c"
        further = self.key_conditions("y", other, 1)
        exists = f"{self.one(['', 'not '])}exists (select 1 from {other} y where {on} and {further})"
        self.scope = {"x": KEYED[table]}
        return f"select {', '.join(key)} from {table} x where {exists}" + where.replace(" where ", " and ")

    def keyed_write(self):
        """A statement that changes or deletes rows by their keys."""
        table = self.one(list(KEYED))
        self.scope = {"x": KEYED[table]}
        where = self.key_conditions("x", table, 1)
        if self.chance(0.4):
            return f"delete from {table} as x where {where}"
        text = "x.c" if table == "t3" else "left(x.c, 1)"
        return f"update {table} as x set a = {self.one(['x.a + 1', '7'])}, c = {text} where {where}"

    def where(self, before=""):
        """WHERE, or AND where there is one `before`."""
        if self.chance(0.45):
            return ""
        conditions = [self.expression("boolean", 2)] if self.chance(0.8) else []
        if not conditions or self.chance(0.2):
            conditions.append(self.condition())
        word = "and" if " where x.id in (" in before else "where"
        return f" {word} " + " and ".join(f"({condition})" for condition in conditions)

    def items(self, named):
        """Items without groups."""
        items = []
        for _ in range(self.random.randint(1, 4)):
            kind = self.kind()
            items.append((self.expression(kind, self.random.randint(0, 2)), kind))
        if not named and self.chance(0.2):
            items.append((self.subquery() if self.chance(0.3) else self.filled(self.one(SCALARS), 1), None))
        is_distinct = self.chance(0.35)
        if not is_distinct and self.chance(0.35):
            has_keys = all("id" in names for names in self.scope.values())
            windows = ORDERED_WINDOWS if has_keys and self.chance(0.6) else WINDOWS
            items.append((self.filled(self.one(windows), 1), None))
        return is_distinct, items, ""

    def groups(self):
        """Items of groups, and what stands behind WHERE."""
        groups = []
        for _ in range(self.random.randint(0, 3)):
            kind = self.kind()
            groups.append((self.expression(kind, self.random.randint(0, 2)), kind))
        items = [group for group in groups if self.chance(0.85)]
        items += [(f"({text})::text", "text") for text, kind in groups if kind in ("int", "date") and self.chance(0.15)]
        for _ in range(self.random.randint(0 if items else 1, 3)):
            items.append((self.filled(self.one(AGGREGATES), 1), None))
        if self.chance(0.12):
            items.append((self.filled(self.one(OVER_GROUPS), 1), None))
        # Constants are places in GROUP BY.
        keys = [text for text, _ in groups if re.search(r"[xyw]\.\w", text)]
        tail = f" group by {', '.join(keys)}" if keys else ""
        if keys and self.chance(0.1):
            tail = f" group by {self.one(['rollup', 'cube'])}({', '.join(keys)})"
        if self.chance(0.2):
            tail += f" having {self.filled(self.one(AGGREGATES[:3]), 1)} > 0"
        return False, items, tail

    def select(self, depth, named=False):
        """A SELECT; with `named`, its columns have names, which are given with their types."""
        relations = self.relations(depth)
        where = self.where(relations)
        is_distinct, items, tail = self.items(named) if self.chance(0.45) else self.groups()
        labels = [f"c{at}" for at in range(len(items))]
        shown = [f"{text} as {label}" if named or self.chance(0.3) else text for (text, _), label in zip(items, labels)]
        query = f"select {'distinct ' if is_distinct else ''}{', '.join(shown)} from {relations}{where}{tail}"
        if named:
            return query, {label: kind for label, (_, kind) in zip(labels, items) if kind}
        if self.chance(0.4):
            places = (str(at + 1) + self.one(["", " desc", " nulls first"]) for at in range(len(items)))
            query += " order by " + ", ".join(places)
            query += self.one([" limit 3", " offset 2"]) if self.chance(0.2) else ""
        return query

    def united(self):
        """Set operations of two or three queries."""
        kinds = [self.kind() for _ in range(self.random.randint(1, 3))]

        def part():
            relations = self.relations(0)
            items = ", ".join(self.expression(kind, 1) for kind in kinds)
            return f"select {items} from {relations}{self.where(relations)}"

        def operator():
            return self.one(["union", "union all", "intersect", "except", "intersect all", "except all"])

        query = f"{part()} {operator()} {part()}"
        if self.chance(0.3):
            query = f"({query}) {operator()} {part()}" if self.chance(0.5) else f"{query} {operator()} {part()}"
        if self.chance(0.3):
            query += " order by " + ", ".join(str(at + 1) for at in range(len(kinds)))
            query += " limit 4" if self.chance(0.4) else ""
        return query

    def write(self):
        """A statement that writes. Where it joins, each row meets one at most."""
        form = self.random.randrange(5)
        target, other = self.one([("t1", "t2"), ("t2", "t1")])
        names = TABLES[target]

        def set_clause():
            chosen = self.random.sample([name for name in names if name != "id"], self.random.randint(1, 3))
            return ", ".join(f"{name} = {self.expression(names[name], 2)}" for name in chosen)

        def condition():
            return f" and ({self.expression('boolean', 2)})" if self.chance(0.6) else ""

        def returning():
            if self.chance(0.4):
                return ""
            return " returning " + ", ".join(self.expression(self.kind(), 1) for _ in range(2))

        if form == 0:
            self.scope = {"x": names}
            return f"update {target} as x set {set_clause()}{self.where()}{returning()}"
        if form == 1:
            self.scope = {"x": names, "y": TABLES[other]}
            return f"update {target} as x set {set_clause()} from {other} y where x.id = y.id{condition()}{returning()}"
        if form == 2:
            self.scope = {"x": names, "y": TABLES[other]}
            if self.chance(0.5):
                return f"delete from {target} as x using {other} y where y.id = x.id{condition()}{returning()}"
            self.scope = {"x": names}
            return f"delete from {target} as x{self.where()}{returning()}"
        self.scope = {"y": TABLES[other]}
        needed = [name for name in ("id", "t", "a", "b", "c", "d", "n", "f", "g", "h", "k") if name in names]
        values = ["y.id"] + [self.expression(names[name], 1) for name in needed[1:]]
        if form == 3:
            values[0] = f"y.id + {self.one(['0', '2', '30'])}"
            query = f"insert into {target} as x ({', '.join(needed)}) select {', '.join(values)} from {other} y"
            query += self.where()
            self.scope = {"x": names, "excluded": {name: names[name] for name in needed}}
            if self.chance(0.7):
                query += " on conflict (id) do "
                query += "nothing" if self.chance(0.3) else f"update set {set_clause()}"
                query += self.where() if query.endswith(")") else ""
            self.scope = {"x": names}
            return query + returning()
        insert = f"insert ({', '.join(needed)}) values ({', '.join(values)})"
        self.scope = {"x": names, "y": TABLES[other]}
        when = [f"when matched{condition()} then {self.one(['update set ' + set_clause(), 'delete', 'do nothing'])}"]
        when += [f"when matched then update set {set_clause()}"] if self.chance(0.4) else []
        when += [f"when not matched then {insert}"] if self.chance(0.7) else []
        return f"merge into {target} as x using {other} y on x.id = y.id {' '.join(when)}"

    def everyday(self):
        """Shapes that are written by hand: names and places in ORDER BY and GROUP BY, several WITH, unions in FROM."""
        form = self.random.randrange(8)
        table = self.one(list(TABLES))
        self.scope = {"x": TABLES[table]}
        first, second = self.one(["int", "bigint", "numeric"]), self.one(["text", "date", "boolean"])
        if form == 0:
            items = f"{self.expression(first, 1)} as p, {self.expression(second, 1)} as q"
            order = ", ".join([self.one(["p", "q desc", self.expression("int", 1), "q nulls first", "1 desc"]), "x.id"])
            limit = self.one(["", f" limit {self.random.randint(1, 9)}", " limit 5 offset 3"])
            return f"select {items}, x.id from {table} x{self.where()} order by {order}{limit}"
        if form == 1:
            # A name of a column would be that column.
            items = f"{self.column_expression(first)} as p, {self.column_expression(second)} as q"
            by = self.one(["1, 2", "p, q", "2, p", "q, 1"])
            order = self.one(["", " order by 1, 2", " order by q, p", " order by count(*), 1, 2"])
            aggregate = self.filled(self.one(AGGREGATES), 1)
            return f"select {items}, count(*), {aggregate} from {table} x{self.where()} group by {by}{order}"
        if form == 2:
            a, b = self.random.sample([f"x.{name}" for name in TABLES[table] if name not in ("j", "l")], 2)
            sets = self.one([f"({a}, {b}), ({a}), ()", f"({a}), ({b})", f"rollup({a}, {b})", f"({b}, {a}), ({b})"])
            aggregate = self.one(["count(*)", "sum(x.id)", "max(x.c)", f"count({b})"])
            having = self.one(["", " having count(*) > 1", f" having grouping({a}) = 0"])
            items = f"{a}, {b}, grouping({a}, {b}), {aggregate}"
            rows = f"from {table} x{self.where()}"
            return f"select {items} {rows} group by grouping sets({sets}){having} order by 1, 2, 3"
        if form == 3:
            word = self.one(["union all", "union all", "union"])
            parts = f" {word} ".join(
                f"select {n} as n, w.id, w.a, w.c, w.i from {w} w{self.one(['', ' where w.a > 0'])}"
                for n, w in enumerate(self.random.sample(list(TABLES) * 2, self.random.randint(2, 3)))
            )
            self.scope = {"x": dict(n="int", id="bigint", a="int", c="text", i="boolean")}
            shown = self.one(["x.*", "count(*), sum(x.a), max(x.c)", f"x.n, x.id, {self.expression('text', 1)}"])
            orders = ["", " order by x.n, x.id limit 4", " order by x.id desc, x.n"]
            order = "" if "count" in shown else self.one(orders)
            return f"select {shown} from ({parts}) x{self.where()}{order}"
        if form == 4:
            how = self.one(["", "", " materialized", " not materialized"])
            inner = f"select x.id, x.a, {self.expression('text', 1)} as q from {table} x{self.where()}"
            again = "select s.a, count(*) as n, min(s.q) as q from s group by s.a"
            self.scope = {"x": dict(id="int", a="int", q="text"), "y": dict(a="int", n="bigint", q="text")}
            last = self.one(
                [
                    f"select x.id, y.n, {self.expression('text', 1)} from s x {self.one(JOINS)} r y on x.a = y.a",
                    "select s.id, (select max(r.n) from r where r.a <= s.a) from s",
                    "select a, n from r except select a, 1 from s",
                    "select * from r where n = (select max(n) from r)",
                ]
            )
            return f"with s as{how} ({inner}), r as ({again}) {last}"
        if form == 5:
            kind = self.one(["natural join", "natural left join", "cross join"])
            left = f"(select id, a, c from {table}{self.one(['', ' where a > 0'])}) x"
            right = f"(select id, {self.one(['t', 'a', 'a as b'])} from t2) y"
            self.scope = {"x": dict(id="int", a="int", c="text")}
            return f"select * from {left} {kind} {right}{self.where()}"
        if form == 6:
            number = self.random.randint(1, 4)
            window = f"partition by {self.expression(second, 0)} order by {self.expression(first, 0)}, x.id"
            inner = f"select x.id, x.a, x.c, row_number() over ({window}) as r from {table} x{self.where()}"
            return f"select y.* from ({inner}) y where y.r {self.one(['=', '<=', '<'])} {number} order by y.id"
        self.scope = {"x": TABLES[table]}
        series = "generate_series(date '2024-01-01', date '2024-01-08', interval '1 day') d(d)"
        within = "x.g >= d.d and x.g < d.d + interval '1 day'"
        on = self.one(["x.g::date = d.d::date", "date_trunc('day', x.g) = d.d", within])
        rows = f"{series} left join {table} x on {on}"
        return f"select d.d::date, count(x.id), coalesce(sum(x.a), 0) from {rows} group by d.d order by d.d"

    def column_expression(self, kind):
        """An expression of a type that reads a column."""
        while not re.search(r"\bx\.", text := self.expression(kind, 1)):
            pass
        return text

    def session(self):
        """Several statements that see each other: temporary tables, views, cursors, savepoints."""
        form = self.random.randrange(4)
        inner, columns = Maker(self.random.random()).select(1, named=True)
        self.scope = {"x": columns}
        again = f"select {self.expression(self.kind(), 1)}, count(*) over () from made x{self.where()}"
        if form == 0:
            made = f"create temporary table made as {inner}"
            return ["begin", made, again, "select count(*) from made", "rollback"]
        if form == 1:
            return ["begin", f"create view made as {inner}", again, "select count(*) from made", "rollback"]
        if form == 2:
            ordered = self.keyed() if self.chance(0.5) else f"select * from {self.one(list(TABLES))} order by 1"
            while " order by" not in outermost(ordered) or self.sent:
                self.sent = None
                ordered = self.keyed()
            scroll = self.one(["", "scroll "])
            moves = ["fetch 3 from c", "fetch c", "fetch forward 4 from c", "move 2 from c", "fetch all from c"]
            if scroll:
                moves += [f"fetch {to} from c" for to in ("-2", "first", "absolute 3", "relative -1", "prior", "last")]
            chosen = [self.one(moves) for _ in range(4)]
            return ["begin", f"declare c {scroll}cursor for {ordered}", *chosen, "close c", "rollback"]
        tables = [f"select * from {table} order by 1" for table in TABLES]
        writes = [self.write() for _ in range(3)]
        back = self.one(["rollback to a", "release a", "rollback to savepoint a"])
        return ["begin", writes[0], "savepoint a", writes[1], back, writes[2], *tables, "rollback"]

    def statements(self):
        """What is run one after the other, each with what is sent with it."""
        if self.chance(0.05):
            return [(text, []) for text in self.session()]
        self.sent = [] if self.chance(0.3) else None
        if self.chance(0.03):
            tables = [(f"select * from {table} order by 1, 2, 3", []) for table in KEYED]
            return [("begin", []), (self.keyed_write(), self.sent or []), *tables, ("rollback", [])]
        if self.chance(0.15):
            tables = [(f"select * from {table} order by 1", []) for table in TABLES]
            return [("begin", []), (self.write(), self.sent or []), *tables, ("rollback", [])]
        return [(self.query(), self.sent or [])]

    def query(self):
        if self.chance(0.2):
            return self.keyed()
        if self.chance(0.2):
            return self.everyday()
        if self.chance(0.12):
            return self.united()
        if self.chance(0.09):
            inner, columns = Maker(self.random.random(), self.sent).select(1, named=True)
            self.scope = {"x": columns}
            further = ""
            if self.chance(0.4):
                name = self.one(list(columns) or ["c0"])
                further = f" {self.one(JOINS)} x y on x.{name} = y.{name}"
                self.scope["y"] = columns
            items = ", ".join(self.expression(self.kind(), 1) for _ in range(2))
            return f"with x as ({inner}) select {items} from x{further}{self.where()}"
        if self.chance(0.04):
            # What is locked is read anew, with values in the place of parameters.
            table = self.one(list(TABLES))
            self.scope = {"x": TABLES[table]}
            items = ", ".join(self.expression(self.kind(), 2) for _ in range(2))
            return f"select {items} from {table} x{self.where()} for {self.one(['update', 'share', 'no key update'])}"
        if self.chance(0.04):
            relations = self.relations(0)
            first, second = self.expression(self.kind(), 1), self.expression(self.kind(), 1)
            third = self.expression("int", 1)
            order = f"order by {first}, {third}, {second}"
            where = self.where(relations)
            return f"select distinct on ({first}) {first}, {second}, {third} from {relations}{where} {order}"
        return self.select(1)


def rows():
    """The statements that fill the tables, always the same."""
    chosen = random.Random(7)

    def written(value):
        if value is None:
            return "null"
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()

    def perhaps(value):
        return value if chosen.random() > 0.25 else None

    def time():
        return f"2024-0{chosen.randint(1, 3)}-1{chosen.randint(0, 9)} 0{chosen.randint(0, 9)}:30:00"

    for number in range(1, 25):
        yield "t1", [
            written(value)
            for value in (
                number, perhaps(chosen.randint(-3, 6)), chosen.randint(-5, 12), perhaps(chosen.randint(-2, 5)),
                perhaps(chosen.choice(WORDS)), chosen.choice(WORDS),
                perhaps(chosen.choice(["1.5", "2.50", "-3", "0", "10.125"])), chosen.randint(-500, 900) / 100,
                perhaps(chosen.randint(1, 20) / 4), perhaps(time()),
                f"2024-0{chosen.randint(1, 2)}-0{chosen.randint(1, 4)}",
                perhaps(f"2024-01-0{chosen.randint(1, 5)} 12:00:00+00"), perhaps(chosen.random() < 0.5),
                chosen.random() < 0.4, perhaps(chosen.choice(WORDS)),
                perhaps(f"{chosen.randint(0, 3)} days {chosen.randint(0, 20)} hours"),
                perhaps(chosen.choice(['{"a": 1, "b": ["x"]}', '{"a": "2"}', '[1, 2]', '{"c": null}', "3"])),
                perhaps(chosen.choice(["{1,2,3}", "{}", "{NULL,4}", "{2}"])),
            )
        ]
    for number in range(1, 15):
        yield "t2", [
            written(value)
            for value in (
                number * 3, chosen.randint(1, 10), chosen.randint(-3, 6), chosen.choice(WORDS),
                perhaps(chosen.choice(WORDS)), perhaps(chosen.randint(-5000, 9000) / 1000),
                chosen.randint(1, 20) / 4, time(), perhaps(chosen.random() < 0.5),
            )
        ]


def keyed_rows():
    """The rows of the tables whose keys have several parts."""
    chosen = random.Random(8)
    for word in ("", "a", "ab", "abc", "b", "ba", "é", "a'b", "B"):
        for day in range(1, 5):
            for number in (-3, 0, 1, 2, 4):
                if chosen.random() < 0.5:
                    n = chosen.choice(["null", "1.5", "2.50", "-3"])
                    a = chosen.choice(["null", "1", "2", "6"])
                    word_sql = word.replace("'", "''")
                    yield "t3", [f"'{word_sql}'", f"'2024-0{chosen.randint(1, 2)}-0{day}'", str(number), n, a, "'ab'"]
    for hour in range(0, 96, 9):
        for number in (-1, 0, 2, 7, 12):
            for flag in ("true", "false"):
                if chosen.random() < 0.5:
                    time = f"timestamptz '2024-01-01 00:00+00' + interval '{hour} hours'"
                    c = chosen.choice(["null", "'a'", "'ab'", "''", "'zz'"])
                    yield "t4", [time, str(number), flag, c, str(chosen.randint(0, 6)), str(chosen.randint(0, 9) / 4)]


class Server:
    """One session in a database made anew. `run` gives ("rows", types, names, rows) or ("error", SQLSTATE, message)."""

    def __init__(self, address, maintenance):
        self.address = sessions.remake(address, maintenance, DATABASE)
        self.begin()
        filled = [f"INSERT INTO {table} VALUES ({', '.join(row)})" for table, row in [*rows(), *keyed_rows()]]
        for text in DEFINITIONS + filled:
            answer = self.run(text)
            if answer[0] == "error":
                sys.exit(f"{address}: {text}: {answer[2]}")

    def begin(self):
        self.connection = sessions.connect(self.address)
        self.connection.exec_(f"SET statement_timeout = '{TIMEOUT}'; SET TimeZone = 'UTC'".encode())

    def run(self, text, sent=()):
        values = [value if value is None else value.encode() for _, value in sent]
        oids = [oid for oid, _ in sent]
        run = self.connection
        result = run.exec_params(text.encode(), values, oids) if sent else run.exec_(text.encode())
        if self.connection.status != pq.ConnStatus.OK:
            self.begin()
            return ("error", "XX000", "the connection was lost")
        if result.error_message:
            code = result.error_field(pq.DiagnosticField.SQLSTATE) or b"?"
            return ("error", code.decode(), result.error_message.decode().split("\n")[0])
        columns = range(result.nfields)
        # varchar and text, and arrays of them.
        types = [{1043: 25, 1015: 1009}.get(result.ftype(at), result.ftype(at)) for at in columns]
        names = [result.fname(at).decode() for at in columns]
        values = [
            tuple(value if (value := result.get_value(row, at)) is None else value.decode() for at in columns)
            for row in range(result.ntuples)
        ]
        return ("rows", types, names, values)


def is_same(ours, theirs, type, is_any_of_equals):
    """Whether two values of a type are the same: of floats all but the last digits, of numerics all digits, but where
    one of several equal ones is shown."""
    if ours == theirs or None in (ours, theirs):
        return ours == theirs
    try:
        left, right = float(ours), float(theirs)
    except ValueError:
        return False
    if type == NUMERIC:
        return is_any_of_equals and left == right
    is_float = type in FLOATS or any("e" in text or len(text) > 14 for text in (ours, theirs))
    return is_float and abs(left - right) <= 1e-9 * max(abs(left), abs(right))


def in_order(rows):
    return sorted(rows, key=lambda row: ([sort_key(value) for value in row], [value or "" for value in row]))


def sort_key(value):
    """Numbers by what they are, so that equal ones stand beside each other."""
    try:
        return (0, float(value), "")
    except (TypeError, ValueError):
        return (1 if value is not None else 2, 0, value or "")


def outermost(query):
    """A query without what is in brackets."""
    depth, kept = 0, []
    for letter in query:
        depth += (letter == "(") - (letter == ")")
        kept.append(letter if depth == 0 else "")
    return "".join(kept)


def judged(query, ours, theirs):
    """What is wrong with an answer; `None` if nothing is."""
    if theirs[0] == "error":
        # What only PostgreSQL refuses is no wrong answer.
        return "fails inside" if ours[0] == "error" and ours[1] == "XX000" else None
    if ours[0] == "error":
        return "fails"
    if ours[1:3] != theirs[1:3]:
        return "other columns"
    if len(ours[3]) != len(theirs[3]):
        return "other rows"
    is_ordered = " order by" in outermost(query)
    is_any_of_equals = any(word in query for word in ("distinct", "group by", "union", "intersect", "except"))

    def alike(left, right):
        return all(
            is_same(a, b, type, is_any_of_equals)
            for one, other in zip(left, right)
            for a, b, type in zip(one, other, ours[1])
        )

    if not alike(in_order(ours[3]), in_order(theirs[3])):
        return "other rows"
    return "another order" if is_ordered and not alike(ours[3], theirs[3]) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keyspan", required=True, help="libpq's settings of an operator, without a database")
    parser.add_argument("--postgres", required=True, help="libpq's settings of a superuser, without a database")
    parser.add_argument("--seeds", default="0:2000", help="the first seed, and the first that is left out")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    ours, theirs = Server(options.keyspan, "keyspan"), Server(options.postgres, "postgres")
    count = collections.Counter()
    for seed in range(first, end):
        statements = Maker(seed).statements()
        found = [(ours.run(*statement), theirs.run(*statement)) for statement in statements]
        judgements = [judged(text, *answers) for (text, _), answers in zip(statements, found)]
        refused = any(theirs[0] == "error" for _, theirs in found)
        at = next((at for at, wrong in enumerate(judgements) if wrong), None)
        count[(at is not None and judgements[at]) or ("refused by PostgreSQL" if refused else "agrees")] += 1
        if at is not None:
            parts = slice(3, 4) if judgements[at] in ("other rows", "another order") else slice(1, None)
            shown = [str(answer[parts])[:400] for answer in found[at]]
            told = f"    Keyspan:    {shown[0]}\n    PostgreSQL: {shown[1]}\n"
            texts = [f"{text} {sent}" if sent else text for text, sent in statements[: at + 1]]
            print(f"seed {seed} {judgements[at]}\n    " + ";\n    ".join(texts) + "\n" + told, flush=True)
    print(", ".join(f"{number} {what}" for what, number in count.most_common()))
    sys.exit(any(what not in ("agrees", "refused by PostgreSQL") for what in count))


if __name__ == "__main__":
    main()
