// Package local runs hanjul on one machine: it starts Redis, Postgres and
// Kafka, makes the keys, and runs our binaries as processes.
//
// It owns every child process it starts and the folders they write to. Nothing
// it starts outlives it: children die with their parent (the kernel's parent
// death signal), live in process groups of their own, and are stopped in the
// reverse order of the flow; a container that its owner was killed over goes when
// the next is started. It never starts a service of the distribution, never listens
// beyond this machine (but for containers on an engine that is elsewhere), and imports no other
// module of ours: the binaries are known by path and the contracts by HTTP.
//
// Each server comes from the first of: an address in the environment
// (HANJUL_REDIS_ADDRS, HANJUL_POSTGRES_URL, HANJUL_KAFKA_BROKERS); a program on
// this machine (redis-server 7.0 or valkey-server 7.2 or newer, or what
// HANJUL_REDIS_SERVER names; postgres 15 or newer); a container on a Docker
// engine that answers (testcontainers-go). HANJUL_SERVERS=docker passes the
// programs over, HANJUL_SERVERS=programs the engine; what no container is made
// for (six processes of Redis, a replica, TLS) stays a program. For Kafka it is a
// broker inside this process, or Apache Kafka from its jars or as a container
// where HANJUL_KAFKA=jars or docker asks for it. HANJUL_REDIS=cluster asks for six
// processes of redis-server, three primaries and their replicas, instead of one.
package local

import (
	"errors"
	"io"
	"strconv"
	"strings"
)

// Outcomes a caller branches on.
var (
	// ErrMissing says that a program which a server needs is not on this machine.
	ErrMissing = errors.New("not on this machine")
	// ErrTooOld says that a program is here and older than we can work with.
	ErrTooOld = errors.New("too old")
	// ErrStopped says that a server or process was used after it ended.
	ErrStopped = errors.New("not running")
	// ErrInUse says that another launcher holds the same data folder.
	ErrInUse = errors.New("already in use")
)

// atLeast reports whether a dotted version is not older than major.minor.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	number := func(i int) int {
		if i >= len(parts) {
			return 0
		}
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = digits[:end]
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0
		}
		return n
	}
	if number(0) != major {
		return number(0) > major
	}
	return number(1) >= minor
}

// logTo gives a writer that is never nil.
func logTo(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}
