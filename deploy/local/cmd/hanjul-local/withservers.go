package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hanjul/deploy/local"
)

// stopLimit bounds the end of everything; what is left then is killed.
const stopLimit = 60 * time.Second

// suiteNodeTimeout is Redis's own default: a suite keeps the machine busy, which must not look like a dead node.
const suiteNodeTimeout = 15 * time.Second

// withServers runs a command with the three servers' addresses in its
// environment and says afterwards which tests were skipped. Its code is the
// command's.
func withServers(ctx context.Context, name string, args []string) (code int, err error) {
	if err := local.EnsureForTests(ctx, os.Stdout); err != nil {
		return 0, err
	}
	scratch, remove, err := local.TempDir("skips")
	if err != nil {
		return 0, err
	}
	defer remove()
	skips := filepath.Join(scratch, "skips")
	// A suite kills no node of a cluster that it shares.
	servers, err := local.StartServers(ctx, local.ServersOptions{RedisNodeTimeout: suiteNodeTimeout})
	if err != nil {
		return 0, err
	}
	defer func() {
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, servers.Stop(limit))
	}()
	fmt.Println("servers used:")
	for _, line := range servers.Describe() {
		fmt.Println("  " + line)
	}
	env := append(os.Environ(), servers.Env()...)
	env = append(env, "HANJUL_SKIP_LOG="+skips)
	code, err = local.RunCommand(ctx, os.Stdout, os.Stderr, env, name, args...)
	if err != nil {
		return code, err
	}
	return code, reportSkips(skips)
}

// reportSkips prints each skipped test once with its reason.
func reportSkips(path string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list the skipped tests: %w", err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
	slices.Sort(lines)
	lines = slices.Compact(lines)
	if len(lines) == 0 {
		fmt.Println("skipped: none")
		return nil
	}
	fmt.Printf("skipped: %d\n", len(lines))
	for _, line := range lines {
		fmt.Println("  " + line)
	}
	return nil
}
