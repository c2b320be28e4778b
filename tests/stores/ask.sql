\connect alto alto
SELECT device, count(*), sum(temperature), count(note), min(at), max(at) FROM readings GROUP BY device ORDER BY device;
SELECT at, temperature, note FROM readings WHERE device = 'd1' ORDER BY at LIMIT 12;
SELECT at, temperature, note FROM readings WHERE device = 'd3' ORDER BY at DESC LIMIT 5;
SELECT count(*), sum(length(note)) FROM readings WHERE note LIKE 'nn%';
SELECT count(*), count(DISTINCT qualifier), min(length(value)), max(length(value)) FROM cells('readings') WHERE qualifier = 'temperature';
SELECT * FROM ordered ORDER BY a, b;
SELECT a, b, c FROM ordered WHERE a = -15 AND b = 5.625;
SELECT count(*), sum(a) FROM ordered FOR SYSTEM_TIME AS OF '{moment}';
SELECT * FROM salted WHERE id IN (7, 8, 49) ORDER BY id;
SELECT count(*), sum((v->>'k')::int) FROM salted;
SELECT * FROM hosts WHERE host LIKE '%.example.com' ORDER BY host;
SELECT * FROM totals;
SELECT * FROM wide ORDER BY id;
SELECT id, props->>'fan_rpm' FROM wide WHERE props ? 'list';
SELECT * FROM altered WHERE k IN (1, 10, 11, 100) ORDER BY k;
SELECT count(*), count(first), count(c), sum(d) FROM altered;
SELECT * FROM kinds ORDER BY id;
SELECT id, n + 1, m * 2, span * 2 FROM kinds ORDER BY id;
SELECT * FROM books.entries ORDER BY id;
SELECT * FROM books.sums ORDER BY 1;
SELECT * FROM daily ORDER BY device;
SELECT k, length(v), md5(v) FROM large ORDER BY k;
SELECT * FROM alerts ORDER BY level DESC, id;
SELECT * FROM strong ORDER BY id;
SELECT typname, typtype, format_type(typbasetype, typtypmod), typnotnull, typdefault, obj_description(oid, 'pg_type') FROM pg_type WHERE typtype IN ('d', 'e') ORDER BY 1;
SELECT enum_range(NULL::severity);
SELECT obj_description('books.entries'::regclass), col_description('books.entries'::regclass, 2);
SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema IN ('public', 'books') ORDER BY 1, 2;
SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns WHERE table_schema IN ('public', 'books') ORDER BY table_name, ordinal_position;
SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype IN ('c', 'p') ORDER BY conname;
\connect alto reader
SELECT count(*), sum(amount) FROM books.entries;
\connect altostrat altostrat
SELECT device, count(*), sum(temperature), min(note) FROM readings GROUP BY device ORDER BY device;
SELECT * FROM altered;
SELECT * FROM kinds;
\connect keyspan keyspan
SELECT tenant, count(*), count(note) FROM readings GROUP BY tenant ORDER BY tenant;
SELECT datname FROM pg_database WHERE datname NOT LIKE 'template%' ORDER BY 1;
SELECT rolname, rolsuper, rolcanlogin FROM pg_roles WHERE rolname IN ('alto', 'altostrat', 'gone', 'reader', 'keyspan') ORDER BY 1;
