ALTER TABLE sqlx_notes ADD COLUMN at timestamptz;
