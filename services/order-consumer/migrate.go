package main

import (
	"context"
	"flag"
	"fmt"

	"hanjul/pkg/ledger"
	"hanjul/pkg/postgres"
)

const migrateHelp = `Brings the ledger's schema to this build's version. Any number of processes may do so at once; nothing is done twice. Run it
before the new build starts: a service refuses an older schema, a newer one it bears.
Needs the settings POSTGRES_* only, of a role that owns the schema; it goes to POSTGRES_DIRECT_URL where that is set, and makes POSTGRES_SCHEMA where it
is not there and the role may.

Example:
  HANJUL_POSTGRES_URL_FILE=/run/secrets/postgres order-consumer migrate

`

func migrate(ctx context.Context, e environment, args []string) int {
	if code, done := parse(e, flag.NewFlagSet("migrate", flag.ContinueOnError), migrateHelp, args); done {
		return code
	}
	address, ok := settings(e, postgres.Read)
	if !ok {
		return exitUsage
	}
	version, err := ledger.Migrate(ctx, address)
	if err != nil {
		_, _ = fmt.Fprintln(e.stderr, err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(e.stdout, "ledger: version %d\n", version)
	return 0
}
