package local

import (
	"fmt"
	"net"
	"strconv"
)

// portTries bounds how often a server is started again because somebody else
// took its port between our look and its bind.
const portTries = 5

// loopback is the only address servers listen on.
const loopback = "127.0.0.1"

// freePort gives a port that was free a moment ago. Nothing reserves it: a
// caller starts its server and tries again with another when the bind fails.
func freePort() (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
