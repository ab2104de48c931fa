// Command hanjul-local sets this machine up, lends its servers to a command,
// and keeps a whole hanjul running on it. It owns no logic: package local does
// the work; here are the subcommands, the signals and the exit codes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"hanjul/deploy/local"
)

const usage = `usage: hanjul-local COMMAND

  setup                 find, fetch as images or install what is missing (INSTALL=0 installs nothing, and says what)
  setup --for-tests     the same, and PgBouncer, which only the suite needs
  with-servers -- CMD   start Redis, Postgres and Kafka, run CMD with their addresses, stop them
  run                   keep the whole stack running with a product open; state survives a restart
  kafka                 fetch Apache Kafka's jars and run one node (Java 17 and Maven needed)
  kafka jars            only fetch them, and print their folder
  keys DIR              make the keys that a folder lacks; one that is there never changes
  shop --api URL ...    open the demo product of a hanjul that runs, and print the lines that buy one

Each server is the one named by HANJUL_REDIS_ADDRS, HANJUL_POSTGRES_URL or HANJUL_KAFKA_BROKERS,
else one started here: Redis and Postgres from this machine's programs, else as containers on the
Docker engine that answers. HANJUL_SERVERS=docker passes the programs over, HANJUL_SERVERS=programs
the engine. HANJUL_KAFKA=jars or docker takes Apache Kafka instead of the embedded broker.
HANJUL_REDIS_IMAGE, HANJUL_POSTGRES_IMAGE and HANJUL_KAFKA_IMAGE name other images.
Redis is one node in cluster mode; HANJUL_REDIS=cluster takes three primaries with a replica each,
HANJUL_REDIS=standalone one without cluster mode, and HANJUL_REDIS_SERVER=PATH another
redis-server or valkey-server than the first one found.
`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		// A second signal finds the default behaviour again and ends us at
		// once; the children follow by themselves.
		<-ctx.Done()
		cancel()
	}()
	code, err := dispatch(ctx, os.Stderr, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "hanjul-local:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func dispatch(ctx context.Context, complaints io.Writer, args []string) (code int, err error) {
	if len(args) == 0 {
		_, _ = fmt.Fprint(complaints, usage)
		return 2, nil
	}
	switch args[0] {
	case "setup":
		if len(args) == 2 && args[1] == "--for-tests" {
			return 0, local.EnsureForTests(ctx, os.Stdout)
		}
		return 0, local.Ensure(ctx, os.Stdout)
	case "with-servers":
		if len(args) < 3 || args[1] != "--" {
			return 2, errors.New("with-servers: expected -- and a command")
		}
		return withServers(ctx, args[2], args[3:])
	case "run":
		return 0, run(ctx)
	case "kafka":
		switch {
		case len(args) == 1:
			return 0, kafka(ctx)
		case len(args) == 2 && args[1] == "jars":
			return 0, fetchKafka(ctx)
		default:
			return 2, fmt.Errorf("kafka: unexpected argument %q; there is only jars", args[len(args)-1])
		}
	case "keys":
		return makeKeys(args[1:], os.Stdout)
	case "shop":
		return openShop(ctx, args[1:], os.Stdout, complaints)
	case "help", "-h", "-help", "--help":
		fmt.Print(usage)
		return 0, nil
	default:
		_, _ = fmt.Fprint(complaints, usage)
		return 2, fmt.Errorf("%s: no such command", args[0])
	}
}
