-- What comes after a start: changes of what lies in segments, and of definitions. Then the server is killed, so that
-- the last of it is in the log alone.
DROP DATABASE gone;
ALTER TABLE altered ADD COLUMN d integer;
ALTER TABLE altered RENAME COLUMN a TO first;
ALTER TABLE altered DROP COLUMN b;
ALTER TABLE readings SET (m.max_versions = 2);

\connect alto alto
UPDATE readings SET temperature = -1, note = 'last' WHERE device = 'd1' AND at < '2026-01-01 01:00:00+00';
DELETE FROM readings WHERE device = 'd2' AND at >= '2026-01-02 00:00:00+00';
UPDATE ordered SET c = 'changed' WHERE a < -10;
DELETE FROM ordered WHERE a > 10;
INSERT INTO totals VALUES ('2026-02-01', 1, 1, 1) ON CONFLICT (day) DO UPDATE SET hits = EXCLUDED.hits, least = EXCLUDED.least, most = EXCLUDED.most;
UPDATE wide SET props = props - 'name' WHERE id = 'w1';
UPDATE altered SET d = k * 2 WHERE k <= 10;
INSERT INTO books.entries (amount, note) VALUES (0.01, 'after');
INSERT INTO kinds (t) VALUES ('third');
ALTER TYPE severity ADD VALUE 'error' BEFORE 'critical';
ALTER DOMAIN percent ADD CONSTRAINT lucky CHECK (VALUE <> 13);
INSERT INTO alerts (level, least, share) VALUES ('error', 'error', 12.5);
DELETE FROM large WHERE k = 1;
INSERT INTO readings SELECT 'e' || k % 2, '2026-02-01 00:00:00+00'::timestamptz + k * interval '1 second', k, NULL FROM generate_series(1, 500) AS g(k);
