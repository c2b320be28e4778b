CREATE TABLE sqlx_notes (id bigint PRIMARY KEY, note text NOT NULL);
