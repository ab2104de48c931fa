package local

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// startPostgresContainer starts a Postgres on an engine, with the settings of
// the program, its role and its trust in whoever reaches the port.
func startPostgresContainer(ctx context.Context, e *engine, image string, options PostgresOptions) (*Postgres, error) {
	ctx, cancel := context.WithTimeout(ctx, postgresStart)
	defer cancel()
	p := &Postgres{options: options}
	initdb, folder := "--encoding=UTF8 --locale=C", ""
	if options.Persist {
		folder = options.Dir
	} else {
		initdb += " --no-sync"
	}
	// A folder of the image's own user, in a place that is a volume in no version of it.
	const state = "/var/lib/postgresql"
	c, err := startContainer(ctx, e, containerOptions{
		name: "postgres", image: image, port: 5432, fixed: options.Port, folder: folder, state: state, log: options.Log,
		compose: func(string, int) ([]string, map[string]string) {
			cmd := []string{"postgres", "-c", "listen_addresses=*"}
			for _, s := range options.settings() {
				cmd = append(cmd, "-c", s)
			}
			return cmd, map[string]string{
				"POSTGRES_USER": PostgresUser, "POSTGRES_DB": "postgres", "POSTGRES_HOST_AUTH_METHOD": "trust",
				"POSTGRES_INITDB_ARGS": initdb, "PGDATA": state + "/hanjul",
			}
		},
		ready: func(ctx context.Context, ip string, port int) (bool, error) {
			conn, err := pgx.Connect(ctx, postgresURL(net.JoinHostPort(ip, strconv.Itoa(port)), "postgres"))
			if err != nil {
				return false, err
			}
			defer func() { _ = conn.Close(ctx) }()
			p.version = conn.PgConn().ParameterStatus("server_version")
			if !atLeast(p.version, 15, 0) {
				return true, fmt.Errorf("the image's postgres is %s, 15 or newer is needed: %w", p.version, ErrTooOld)
			}
			return true, nil
		},
	})
	if err != nil {
		return nil, err
	}
	p.container = c
	return p, nil
}

func postgresURL(addr, db string) string {
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", PostgresUser, addr, db)
}
