// Drivers of Go against a server: pgx, and database/sql over it. Usage: go run . HOST PORT DATABASE USER PASSWORD; see drivers.py.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

var name = "pgx"

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, name, err)
		os.Exit(1)
	}
}

func same(what string, found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		fmt.Fprintf(os.Stderr, "%s: %s: expected %v, found %v\n", name, what, expected, found)
		os.Exit(1)
	}
	fmt.Printf("ok: %s: %s\n", name, what)
}

const key = "origin = 'TST' AND dest = 'GO'"

func main() {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/jackc/pgx/v5" {
				name = "pgx " + module.Version
			}
		}
	}
	ctx := context.Background()
	url := fmt.Sprintf("postgresql://%s:%s@%s:%s/%s", os.Args[4], os.Args[5], os.Args[1], os.Args[2], os.Args[3])
	pool, err := pgxpool.New(ctx, url)
	check(err)
	at := time.Date(2013, 8, 1, 12, 30, 15, 250_000_000, time.UTC)

	var truth bool
	var small int16
	var number int32
	var big int64
	var real float64
	var text string
	var none *string
	var bytes []byte
	var when time.Time
	var list []int32
	check(pool.QueryRow(ctx, `SELECT true, 7::smallint, -7, 7000000000, 0.1::float8, 'é', NULL::text, '\x00ff'::bytea,
		timestamptz '2013-08-01 14:30:15.25+02', ARRAY[1, 2]`).Scan(&truth, &small, &number, &big, &real, &text, &none, &bytes, &when, &list))
	same("types, binary", []any{truth, small, number, big, real, text, none, bytes, when.Equal(at), list},
		[]any{true, int16(7), int32(-7), int64(7_000_000_000), 0.1, "é", (*string)(nil), []byte{0, 255}, true, []int32{1, 2}})
	check(pool.QueryRow(ctx, "SELECT $1::int + 1, $2::text, $3::timestamptz", 41, "x", at).Scan(&number, &text, &when))
	same("parameters", []any{number, text, when.Equal(at)}, []any{int32(42), "x", true})

	rows := [][]any{}
	for flight := range 1000 {
		rows = append(rows, []any{"TST", "GO", at, int32(flight)})
	}
	copied, err := pool.CopyFrom(ctx, pgx.Identifier{"flights"}, []string{"origin", "dest", "scheduled", "flight"}, pgx.CopyFromRows(rows))
	check(err)
	same("COPY, binary", copied, int64(1000))

	batch := &pgx.Batch{}
	for flight := range 10 {
		batch.Queue("SELECT flight FROM flights WHERE origin = $1 AND dest = $2 AND scheduled = $3 AND flight = $4", "TST", "GO", at, flight)
	}
	results := pool.SendBatch(ctx, batch)
	for flight := range 10 {
		check(results.QueryRow().Scan(&number))
		if number != int32(flight) {
			same("a batch", number, int32(flight))
		}
	}
	check(results.Close())
	same("a batch", number, int32(9))

	transaction, err := pool.Begin(ctx)
	check(err)
	_, err = transaction.Exec(ctx, "UPDATE flights SET dep_delay = 5 WHERE "+key)
	check(err)
	check(transaction.Rollback(ctx))
	check(pool.QueryRow(ctx, "SELECT count(dep_delay) FROM flights WHERE "+key).Scan(&big))
	same("ROLLBACK", big, int64(0))
	_, err = pool.Exec(ctx, "INSERT INTO flights (origin, dest, scheduled, flight) VALUES ('TST', 'GO', $1, 5)", at)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		check(fmt.Errorf("a key was written twice: %v", err))
	}
	same("SQLSTATE", refused.Code, "23505")

	standard, err := sql.Open("pgx", url)
	check(err)
	check(standard.QueryRow("SELECT count(*) FROM flights WHERE origin = $1 AND dest = $2", "TST", "GO").Scan(&big))
	same("database/sql", big, int64(1000))
	tag, err := pool.Exec(ctx, "DELETE FROM flights WHERE "+key)
	check(err)
	same("DELETE", tag.RowsAffected(), int64(1000))

	// A query that is given up is cancelled on the server.
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = pool.Exec(brief, "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 10000000) b")
	if err == nil {
		check(errors.New("a long query ended"))
	}
	check(pool.QueryRow(ctx, "SELECT 1").Scan(&number))
	same("cancelled", number, int32(1))
	pool.Close()
}
