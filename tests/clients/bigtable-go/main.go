// Rows that Google's client for Go writes are found and joined by SQL, and rows that SQL writes are read by it.
//
//	BIGTABLE_EMULATOR_HOST=127.0.0.1:8086 go run . HOST PORT PASSWORD
//
// The server at HOST:PORT, whose operator has the password, asks the same emulator; the instance is one that nobody has.
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math"
	"os"
	"reflect"

	"cloud.google.com/go/bigtable"
	"github.com/jackc/pgx/v5"
)

const project = "clients"

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func check(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		log.Fatalf("found    %v\nexpected %v", found, expected)
	}
}

func number(value uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, value)
}

// The readings that another program has: of each sensor one row a minute, its key by hand.
func write(ctx context.Context, table *bigtable.Table) {
	var keys []string
	var rows []*bigtable.Mutation
	for n := range 120 {
		row := bigtable.NewMutation()
		at := bigtable.Timestamp(1_767_225_600_000_000 + int64(n)*1_000_000)
		row.Set("m", "celsius", at, number(math.Float64bits(float64(n)/4)))
		row.Set("m", "count", at, number(uint64(n)))
		row.Set("meta", "unit", at, []byte("C"))
		keys = append(keys, fmt.Sprintf("alto#s%d#%03d", n%3, n))
		rows = append(rows, row)
	}
	failed, err := table.ApplyBulk(ctx, keys, rows)
	must(err)
	check(len(failed), 0)
}

func cell(row bigtable.Row, family, column string) []byte {
	for _, item := range row[family] {
		if item.Column == family+":"+column {
			return item.Value
		}
	}
	return nil
}

func main() {
	ctx := context.Background()
	host, port, password := os.Args[1], os.Args[2], os.Args[3]
	instance := fmt.Sprintf("go-%d", os.Getpid())
	admin, err := bigtable.NewAdminClient(ctx, project, instance)
	must(err)
	must(admin.CreateTable(ctx, "readings"))
	for _, family := range []string{"m", "meta"} {
		must(admin.CreateColumnFamily(ctx, "readings", family))
	}
	client, err := bigtable.NewClient(ctx, project, instance)
	must(err)
	table := client.Open("readings")
	write(ctx, table)

	connect := func(database string) *pgx.Conn {
		connection, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%s user=keyspan password=%s dbname=%s", host, port, password, database))
		must(err)
		return connection
	}
	run := func(connection *pgx.Conn, sql string, arguments ...any) {
		_, err := connection.Exec(ctx, sql, arguments...)
		must(err)
	}
	operator := connect("keyspan")
	run(operator, fmt.Sprintf("CREATE SERVER of_go FOREIGN DATA WRAPPER bigtable OPTIONS (project '%s', instance '%s')", project, instance))
	run(operator, "IMPORT FOREIGN SCHEMA bigtable FROM SERVER of_go INTO public OPTIONS (writable 'true')")
	run(operator, "CREATE DATABASE alto")
	alto := connect("alto")
	run(alto, "CREATE TABLE places (sensor text PRIMARY KEY, place text)")
	run(alto, "INSERT INTO places VALUES ('s1', 'roof'), ('s2', 'cellar')")
	rows, err := alto.Query(ctx, `SELECT place, count(*), sum(count)::bigint, max(celsius), min(unit)
		FROM readings JOIN places ON sensor = key_1 GROUP BY place ORDER BY place`)
	must(err)
	type joined struct {
		Place   string
		Rows    int64
		Sum     int64
		Celsius float64
		Unit    string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[joined])
	must(err)
	check(found, []joined{{"cellar", 40, 2420, 29.75, "C"}, {"roof", 40, 2380, 29.5, "C"}})

	run(alto, "INSERT INTO readings (key_1, key_2, celsius, count, unit) VALUES ('sql', $1, $2, $3, $4)", "000", 2.5, int64(7), "K")
	run(alto, "UPDATE readings SET count = count + 1000 WHERE key_1 = 's2' AND key_2 = '002'")
	run(alto, "DELETE FROM readings WHERE key_1 = 's0'")
	written, err := table.ReadRow(ctx, "alto#sql#000")
	must(err)
	check(cell(written, "m", "celsius"), number(math.Float64bits(2.5)))
	check(cell(written, "m", "count"), number(7))
	check(cell(written, "meta", "unit"), []byte("K"))
	updated, err := table.ReadRow(ctx, "alto#s2#002", bigtable.RowFilter(bigtable.LatestNFilter(1)))
	must(err)
	check(cell(updated, "m", "count"), number(1002))
	check(cell(updated, "meta", "unit"), []byte("C"))
	left := 0
	must(table.ReadRows(ctx, bigtable.PrefixRange("alto#s0#"), func(bigtable.Row) bool { left++; return true }))
	check(left, 0)

	must(alto.Close(ctx))
	run(operator, "DROP DATABASE alto WITH (FORCE)")
	run(operator, "DROP TABLE readings")
	run(operator, "DROP SERVER of_go")
	must(operator.Close(ctx))
	fmt.Println("Google's client for Go: found, joined, written and read")
}
