package local

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// portTries bounds how often a server is started again because somebody else
// took its port between our look and its bind.
const portTries = 5

// loopback is the only address servers listen on.
const loopback = "127.0.0.1"

// Ports we choose lie below the range from which the kernel takes the local
// ports of outgoing connections (32768 and up): else a connection of a busy
// client may sit on a server's port while the server is being restarted.
const lowestPort, highestPort = 15000, 32000

// freePort gives a port that was free a moment ago. Nothing reserves it: a
// caller starts its server and tries again with another when the bind fails.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := net.Listen("tcp", hostPort(port))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
