package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"hanjul/deploy/local"
)

// ours are the variables that steer this program and are no settings of the binaries.
func ours(name string) bool {
	switch name {
	case "HANJUL_REDIS_ADDRS", "HANJUL_REDIS", "HANJUL_REDIS_SERVER", "HANJUL_POSTGRES_URL", "HANJUL_KAFKA_BROKERS", "HANJUL_KAFKA",
		"HANJUL_SERVERS", "HANJUL_REDIS_IMAGE", "HANJUL_POSTGRES_IMAGE", "HANJUL_KAFKA_IMAGE",
		"HANJUL_SKIP_LOG", "HANJUL_REQUIRE_SERVICES", "HANJUL_CI_RUN", "HANJUL_BUILT":
		return true
	default:
		return false
	}
}

// settings are the binaries' settings in our environment, such as HANJUL_LOG_LEVEL.
func settings() map[string]string {
	chosen := make(map[string]string)
	for _, pair := range os.Environ() {
		if name, value, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "HANJUL_") && !ours(name) {
			chosen[name] = value
		}
	}
	return chosen
}

// run keeps the persistent stack running until a signal or until one of its
// binaries ends by itself.
func run(ctx context.Context) (err error) {
	if err := local.Ensure(ctx, os.Stdout); err != nil {
		return err
	}
	data, err := local.DataHome()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the binaries: %w", err)
	}
	stack, err := local.StartStack(ctx, local.StackOptions{
		DataDir: filepath.Join(data, "run"+local.StateSuffix(os.Getenv)), Persist: true, FixedPorts: true, BinDir: filepath.Dir(self),
		Env: settings(), Log: os.Stdout,
	})
	if err != nil {
		return err
	}
	defer func() {
		fmt.Println("stopping")
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		err = errors.Join(err, stack.Stop(limit))
	}()
	token, err := stack.OperatorToken()
	if err != nil {
		return err
	}
	shop := shop{api: stack.APIs()[0], desk: stack.OperatorURLs()[0], token: token}
	if err := shop.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	fmt.Printf("storefront  %s\n", strings.Join(stack.APIs(), "  "))
	fmt.Printf("operators   %s  (token in %s)\n", strings.Join(stack.OperatorURLs(), "  "), stack.Keys().OperatorTokens)
	fmt.Printf("logs        %s\n", filepath.Join(stack.Dir(), "logs"))
	fmt.Printf("\nthe product %q is open; buy one:\n\n%s\nCtrl-C ends everything; the state stays in %s\n", demoProduct, shop.curls(), stack.Dir())
	select {
	case <-ctx.Done():
		return nil
	case err := <-stack.Unexpected():
		return err
	}
}
