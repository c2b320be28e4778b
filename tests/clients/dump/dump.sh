#!/usr/bin/env bash
# Dumps of one tenant's database by pg_dump, restored into another's by psql and pg_restore: rows and definitions are equal then.
# HOST and PORT say where a server listens, whose operator has the password KEYSPAN_PASSWORD; BIN is the folder of PostgreSQL's
# programs. psql of the PATH asks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export PGHOST=$1 PGPORT=$2 PGPASSWORD=$KEYSPAN_PASSWORD
bin=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
asked=(psql --no-psqlrc --set ON_ERROR_STOP=1 --quiet --no-align --tuples-only)

# operator SQL
operator() {
    "${asked[@]}" --username keyspan --dbname keyspan --command "$1"
}
# told DATABASE: all that has to be the same.
told() {
    "${asked[@]}" --username "$1" --dbname "$1" --file told.sql
}
# owned DATABASE OWNER: an empty database of a role, in the place of one of that name. Role "other" may connect to it.
owned() {
    operator "DROP DATABASE IF EXISTS $1"
    operator "DROP ROLE IF EXISTS $1"
    operator "CREATE ROLE $1 LOGIN PASSWORD '$KEYSPAN_PASSWORD'"
    operator "CREATE DATABASE $1 OWNER $1"
    operator "GRANT CONNECT ON DATABASE $1 TO other"
}
# dumped OPTION…: a dump of the first tenant.
dumped() {
    "$bin/pg_dump" --username dumped_from --dbname dumped_from "$@"
}
# same WHAT EXPECTED ACTUAL: files.
same() {
    diff "$2" "$3" || { echo "$version: $1 differs" >&2; exit 1; }
    echo "ok: $version, $1"
}

version=$("$bin/pg_dump" --version)
operator "CREATE ROLE other LOGIN PASSWORD '$KEYSPAN_PASSWORD'"
operator "CREATE TABLE dumped_readings (device text, at timestamptz, temperature double precision, log text, PRIMARY KEY (device, at DESC),
    FAMILY m (temperature), FAMILY logs (log)) WITH (m.max_versions = 5)"
owned dumped_from
"${asked[@]}" --username dumped_from --dbname dumped_from --file made.sql
told dumped_from >"$folder/expected"

# Plain, without the rows of shared tables; roles that the dump names are there, but for its owner.
owned dumped_to
dumped --no-owner --file "$folder/plain.sql"
"${asked[@]}" --username dumped_to --dbname dumped_to --file "$folder/plain.sql" >"$folder/said"
"${asked[@]}" --username dumped_from --dbname dumped_from --command "COPY dumped_readings TO STDOUT" |
    "${asked[@]}" --username dumped_to --dbname dumped_to --command "COPY dumped_readings FROM STDIN"
told dumped_to >"$folder/actual"
same "plain" "$folder/expected" "$folder/actual"
if grep -n "dumped_readings\|keyspan\." "$folder/plain.sql" | grep -v "VIEW\|FROM public.dumped_readings\|GRANT\|ACL\|default_table_access_method"; then
    echo "$version: the dump defines or fills shared tables" >&2
    exit 1
fi
# A dump of what was restored is the same text.
"$bin/pg_dump" --no-owner --username dumped_to --dbname dumped_to --file "$folder/again.sql"
neutral() {
    sed -e '/^\\restrict/d; /^\\unrestrict/d; s/dumped_to/dumped_from/g' "$1"
}
same "dumped again" <(neutral "$folder/plain.sql") <(neutral "$folder/again.sql")

# Custom, with the rows of shared tables.
owned dumped_to
PGOPTIONS='-c keyspan.dump_shared=on' dumped --format custom --file "$folder/custom.dump"
"$bin/pg_restore" --no-owner --exit-on-error --username dumped_to --dbname dumped_to "$folder/custom.dump"
told dumped_to >"$folder/actual"
same "custom, with shared rows" "$folder/expected" "$folder/actual"

# In one transaction, definitions first, then data in another.
owned dumped_to
"$bin/pg_restore" --no-owner --schema-only --single-transaction --username dumped_to --dbname dumped_to "$folder/custom.dump"
"$bin/pg_restore" --data-only --single-transaction --username dumped_to --dbname dumped_to "$folder/custom.dump"
told dumped_to >"$folder/actual"
same "definitions, then data" "$folder/expected" "$folder/actual"

# One table, as INSERTs of several rows, cleaned before.
dumped --no-owner --table notes --rows-per-insert 2 --clean --if-exists --file "$folder/notes.sql"
"${asked[@]}" --username dumped_to --dbname dumped_to --file "$folder/notes.sql" >"$folder/said"
told dumped_to >"$folder/actual"
same "one table by INSERT" "$folder/expected" "$folder/actual"

# The owner's name is restored where the role is known: by an operator.
owned dumped_to
operator "GRANT CONNECT ON DATABASE dumped_to TO dumped_from"
"$bin/pg_restore" --exit-on-error --username keyspan --dbname dumped_to "$folder/custom.dump"
owner=$("${asked[@]}" --username keyspan --dbname dumped_to --command "SELECT relowner::regrole FROM pg_class WHERE oid = 'public.notes'::regclass")
[[ $owner == dumped_from ]] || { echo "$version: the owner is $owner" >&2; exit 1; }
echo "ok: $version, owners"

operator "DROP DATABASE dumped_from"
operator "DROP DATABASE dumped_to"
operator "DROP TABLE dumped_readings"
operator "DROP ROLE dumped_from"
operator "DROP ROLE dumped_to"
operator "DROP ROLE other"
