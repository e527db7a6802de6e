// pgx against a server: types, batches, transactions, errors, COPY, LISTEN, cancellation, a pool.
//
// Usage: go run . CONNECTION_URL
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

var ctx = context.Background()

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func assert(holds bool, message ...any) {
	if !holds {
		panic(fmt.Sprint(message...))
	}
}

func connect() *pgx.Conn {
	conn, err := pgx.Connect(ctx, os.Args[1])
	must(err)
	return conn
}

func exec(conn *pgx.Conn, sql string, arguments ...any) {
	_, err := conn.Exec(ctx, sql, arguments...)
	must(err)
}

func code(err error) string {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		return failure.Code
	}
	return fmt.Sprint(err)
}

func types() {
	conn := connect()
	defer conn.Close(ctx)
	var number int64
	var text string
	var list []int32
	var when time.Time
	var bytes []byte
	var object map[string]any
	moment := time.Date(2024, 2, 29, 1, 2, 3, 456000, time.UTC)
	row := conn.QueryRow(ctx, "SELECT $1::int8, $2::text, $3::int4[], $4::timestamptz, $5::bytea, $6::jsonb",
		int64(1)<<40, "naïve ☃", []int32{1, 2}, moment, []byte{0, 255}, map[string]any{"a": 1.0})
	must(row.Scan(&number, &text, &list, &when, &bytes, &object))
	assert(number == 1<<40 && text == "naïve ☃" && len(list) == 2 && when.Equal(moment) && bytes[1] == 255 && object["a"] == 1.0)
	var numeric string
	must(conn.QueryRow(ctx, "SELECT ($1::numeric * 2)::text", "1.25").Scan(&numeric))
	assert(numeric == "2.50", numeric)
}

func batches() {
	conn := connect()
	defer conn.Close(ctx)
	exec(conn, "DROP TABLE IF EXISTS g_item")
	exec(conn, "CREATE TABLE g_item (id int PRIMARY KEY, v int)")
	batch := &pgx.Batch{}
	for i := 0; i < 100; i++ {
		batch.Queue("INSERT INTO g_item VALUES ($1, $2)", i, i)
	}
	must(conn.SendBatch(ctx, batch).Close())
	failing := &pgx.Batch{}
	failing.Queue("INSERT INTO g_item VALUES (200, 0)")
	failing.Queue("INSERT INTO g_item VALUES (1, 0)")
	failing.Queue("INSERT INTO g_item VALUES (201, 0)")
	assert(code(conn.SendBatch(ctx, failing).Close()) == "23505")
	var count int
	must(conn.QueryRow(ctx, "SELECT count(*) FROM g_item").Scan(&count))
	assert(count == 100, "a batch is one transaction: ", count)
	rows := [][]any{{300, 1}, {301, nil}}
	copied, err := conn.CopyFrom(ctx, pgx.Identifier{"g_item"}, []string{"id", "v"}, pgx.CopyFromRows(rows))
	must(err)
	assert(copied == 2)
}

func transactions() {
	conn := connect()
	defer conn.Close(ctx)
	rival := connect()
	defer rival.Close(ctx)
	exec(conn, "DROP TABLE IF EXISTS g_hot")
	exec(conn, "CREATE TABLE g_hot (id int PRIMARY KEY, v int)")
	exec(conn, "INSERT INTO g_hot VALUES (1, 0)")
	attempts := 0
	for {
		attempts++
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
			var value int
			if err := tx.QueryRow(ctx, "SELECT v FROM g_hot WHERE id = 1").Scan(&value); err != nil {
				return err
			}
			if attempts == 1 {
				exec(rival, "UPDATE g_hot SET v = 10 WHERE id = 1")
			}
			_, err := tx.Exec(ctx, "UPDATE g_hot SET v = $1 WHERE id = 1", value+1)
			return err
		})
		if err == nil {
			break
		}
		assert(code(err) == "40001", err)
	}
	var value int
	must(conn.QueryRow(ctx, "SELECT v FROM g_hot").Scan(&value))
	assert(value == 11 && attempts == 2, value, " after ", attempts)
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		return pgx.BeginFunc(ctx, tx, func(nested pgx.Tx) error {
			_, err := nested.Exec(ctx, "INSERT INTO g_hot VALUES (1, 1)")
			assert(code(err) == "23505")
			return nil
		})
	})
	assert(err != nil, "a failed savepoint was released")
}

func cancel() {
	conn := connect()
	defer conn.Close(ctx)
	short, stop := context.WithTimeout(ctx, 200*time.Millisecond)
	defer stop()
	_, err := conn.Exec(short, "SELECT pg_sleep(60)")
	assert(err != nil, "it was not canceled")
}

func listen() {
	listener, sender := connect(), connect()
	defer listener.Close(ctx)
	defer sender.Close(ctx)
	exec(listener, "LISTEN news")
	exec(sender, "SELECT pg_notify('news', $1)", "hello")
	limited, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	notification, err := listener.WaitForNotification(limited)
	must(err)
	assert(notification.Payload == "hello")
}

func pool() {
	connections, err := pgxpool.New(ctx, os.Args[1])
	must(err)
	defer connections.Close()
	done := make(chan error)
	for i := 0; i < 50; i++ {
		go func() {
			_, err := connections.Exec(ctx, "UPDATE g_hot SET v = v + 1 WHERE id = 1")
			done <- err
		}()
	}
	for i := 0; i < 50; i++ {
		must(<-done)
	}
	var value int
	must(connections.QueryRow(ctx, "SELECT v FROM g_hot").Scan(&value))
	assert(value == 61, value)
}

func main() {
	failed := false
	for _, check := range []struct {
		name string
		run  func()
	}{{"types", types}, {"batches", batches}, {"transactions", transactions}, {"cancel", cancel}, {"listen", listen}, {"pool", pool}} {
		func() {
			defer func() {
				if reason := recover(); reason != nil {
					failed = true
					fmt.Println("pgx:", check.name, "FAILED:", reason)
				}
			}()
			check.run()
			fmt.Println("pgx:", check.name, "ok")
		}()
	}
	if failed {
		os.Exit(1)
	}
}
