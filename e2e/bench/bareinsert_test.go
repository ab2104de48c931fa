package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// bareInsert is the ceiling: the rows alone, without judging, events or Kafka.
func bareInsert(b *testing.B, url string, rows int) float64 {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	if _, err := conn.Exec(b.Context(), `CREATE TABLE IF NOT EXISTS bare (LIKE orders INCLUDING ALL); TRUNCATE bare`); err != nil {
		b.Fatal(err)
	}
	const batch = 500
	begun := time.Now()
	for from := 0; from < rows; from += batch {
		ids, users, places := make([]string, batch), make([]string, batch), make([]int64, batch)
		for i := range batch {
			n := from + i
			ids[i] = fmt.Sprintf("0189%04x-0000-7000-8000-%012x", n%0xffff, n)
			users[i], places[i] = fmt.Sprintf("user-%d", n), int64(n+1)
		}
		_, err := conn.Exec(b.Context(), `
			INSERT INTO bare (order_id, product_id, user_id, user_hash, place, quantity, status, version, seq)
			SELECT id::uuid, 'bare', u, md5(u), p, 1, 'confirmed', 1, p FROM unnest($1::text[], $2::text[], $3::bigint[]) AS t (id, u, p)`,
			ids, users, places)
		if err != nil {
			b.Fatal(err)
		}
	}
	return float64(rows) / time.Since(begun).Seconds()
}
