package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// bareInsert is the ceiling: the rows alone, without judging, events or Kafka.
func bareInsert(b *testing.B, url string, rows int) float64 {
	b.Helper()
	return bareInserts(b, url, rows, 1)
}

// bareInserts is the ceiling of several writers, each with its part of the rows and a connection of its own.
func bareInserts(b *testing.B, url string, rows, writers int) float64 {
	b.Helper()
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(b.Context(), url)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	conns := make([]*pgx.Conn, writers)
	for w := range conns {
		conns[w] = connect()
	}
	if _, err := conns[0].Exec(b.Context(), `CREATE TABLE IF NOT EXISTS bare (LIKE orders INCLUDING ALL); TRUNCATE bare`); err != nil {
		b.Fatal(err)
	}
	faults := make([]error, writers)
	begun := time.Now()
	var group sync.WaitGroup
	for w, conn := range conns {
		group.Go(func() { faults[w] = insertRows(b.Context(), conn, w, rows/writers) })
	}
	group.Wait()
	took := time.Since(begun)
	if err := errors.Join(faults...); err != nil {
		b.Fatal(err)
	}
	return float64(rows) / took.Seconds()
}

// insertRows puts a writer's rows into the table, 500 in a transaction; each writer has a product of its own.
func insertRows(ctx context.Context, conn *pgx.Conn, writer, rows int) error {
	const batch = 500
	for from := 0; from < rows; from += batch {
		size := min(batch, rows-from)
		ids, users, places := make([]string, size), make([]string, size), make([]int64, size)
		for i := range size {
			n := from + i
			ids[i] = fmt.Sprintf("0189%04x-%04x-7000-8000-%012x", n%0xffff, writer, n)
			users[i], places[i] = fmt.Sprintf("user-%d", n), int64(n+1)
		}
		_, err := conn.Exec(ctx, `
			INSERT INTO bare (order_id, product_id, user_id, user_hash, place, quantity, status, version, seq)
			SELECT id::uuid, $4, u, md5(u), p, 1, 'confirmed', 1, p FROM unnest($1::text[], $2::text[], $3::bigint[]) AS t (id, u, p)`,
			ids, users, places, fmt.Sprintf("bare-%d", writer))
		if err != nil {
			return err
		}
	}
	return nil
}
