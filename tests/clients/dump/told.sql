-- All that is to be the same after a dump and its restoration.
SELECT relname, relkind, reloptions, relnatts, relchecks FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname;
SELECT table_name, column_number, column_name, data_type, not_null, column_default, key_part, direction FROM keyspan.columns ORDER BY table_name, column_number, column_name, data_type, not_null;
SELECT c.relname, conname, contype, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON conrelid = c.oid ORDER BY c.relname, conname;
SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY viewname;
SELECT s.relname, seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcycle, pg_describe.relname, refobjsubid, deptype
  FROM pg_sequence JOIN pg_class s ON seqrelid = s.oid
  LEFT JOIN pg_depend d ON d.objid = s.oid AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
  LEFT JOIN pg_class pg_describe ON d.refobjid = pg_describe.oid ORDER BY s.relname;
SELECT c.relname, objsubid, description FROM pg_description JOIN pg_class c ON objoid = c.oid ORDER BY c.relname, objsubid;
SELECT last_value, is_called FROM always_id_seq;
SELECT last_value, is_called FROM orders_id_seq;
SELECT last_value, is_called FROM numbered_id_seq;
SELECT last_value, is_called FROM invoices;
SELECT last_value, is_called FROM untouched;
SELECT nspname, obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname !~ '^pg_' ORDER BY nspname;
SELECT n.nspname, relname, relkind FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname IN ('sales', 'Odd Schema') ORDER BY 1, 2;
SELECT schemaname, viewname, definition FROM pg_views WHERE schemaname = 'sales' ORDER BY 1, 2;
SELECT last_value, is_called FROM sales.notes_id_seq;
SELECT last_value, is_called FROM "Odd Schema".counter;
SELECT * FROM sales.notes ORDER BY id;
SELECT * FROM "Odd Schema".notes ORDER BY id;
SELECT * FROM sales.both_notes ORDER BY id;
SELECT * FROM names_of_sales ORDER BY what;
SELECT has_schema_privilege('other', 'sales', 'USAGE'), has_schema_privilege('other', 'Odd Schema', 'USAGE');
SELECT * FROM notes ORDER BY id;
SELECT * FROM events ORDER BY at, what;
SELECT * FROM "Odd ""name" ORDER BY 1, 2;
SELECT * FROM orders ORDER BY id;
SELECT * FROM always ORDER BY id;
SELECT * FROM numbered ORDER BY id;
SELECT * FROM invoiced ORDER BY number;
SELECT * FROM cheaper ORDER BY 1;
SELECT * FROM warm ORDER BY 1;
