package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// debianPackages names the distribution's package for each missing program.
const (
	redisPackage    = "redis-server"
	postgresPackage = "postgresql"
	poolerPackage   = "pgbouncer"
)

// ErrNotInstalled says that a server is missing and was not installed; the
// line to type has been printed.
var ErrNotInstalled = errors.New("missing and not installed")

// Ensure sees to it that every server this machine needs is here. What the
// environment gives by address is not looked for. As root on Debian missing
// packages are announced on out and installed, without starting a service of
// the distribution and without making a database cluster. With INSTALL=0 in the
// environment, as another user or elsewhere, the line to type is printed and
// ErrNotInstalled returned. A program that is here and too old is ErrTooOld.
//
// A Docker engine that answers comes before an install, since it changes nothing
// on this machine: what a missing program's image can be had for on the engine is
// not installed. With HANJUL_SERVERS=docker only images are looked for.
// Safe to repeat.
func Ensure(ctx context.Context, out io.Writer) error {
	if _, err := wished(); err != nil {
		return err
	}
	missing, err := lacking(ctx)
	if err != nil {
		return err
	}
	if missing, err = ensureImages(ctx, out, missing); err != nil || len(missing) == 0 {
		return err
	}
	line := "apt-get update && apt-get install -y --no-install-recommends " + strings.Join(missing, " ")
	refuse := func(why string) error {
		_, _ = fmt.Fprintf(out, "missing: %s (%s). As root on Debian type:\n  %s\n", strings.Join(missing, ", "), why, line)
		return fmt.Errorf("%s: %w", strings.Join(missing, ", "), ErrNotInstalled)
	}
	switch {
	case os.Getenv("INSTALL") == "0":
		return refuse("INSTALL=0")
	case !onDebian():
		return refuse("this is not Debian")
	case os.Geteuid() != 0:
		return refuse("not root")
	}
	_, _ = fmt.Fprintf(out, "missing: %s; installing Debian's packages (no service is started; INSTALL=0 refuses)\n", strings.Join(missing, ", "))
	if err := install(ctx, out, missing); err != nil {
		return err
	}
	if err := Check(ctx); err != nil {
		return fmt.Errorf("after the install: %w", err)
	}
	return nil
}

// EnsureForTests is Ensure, and sees to what only the suite needs: PgBouncer. Where
// that is missing and cannot be installed, out is told, and nothing fails: its
// tests say so themselves.
func EnsureForTests(ctx context.Context, out io.Writer) error {
	if err := Ensure(ctx, out); err != nil {
		return err
	}
	if _, err := findPgBouncer(); err == nil {
		return nil
	}
	why := ""
	switch {
	case os.Getenv("INSTALL") == "0":
		why = "INSTALL=0"
	case !onDebian():
		why = "this is not Debian"
	case os.Geteuid() != 0:
		why = "not root"
	default:
		_, _ = fmt.Fprintf(out, "missing: %s; installing Debian's package for its tests (no service is started; INSTALL=0 refuses)\n", poolerPackage)
		if err := install(ctx, out, []string{poolerPackage}); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		_, _ = fmt.Fprintf(out, "missing: %s, for its tests only (%s). As root on Debian type:\n  apt-get install -y --no-install-recommends %s\n", poolerPackage, why, poolerPackage)
	}
	return nil
}

// Check reports whether every server this machine needs is here, and changes
// nothing: ErrMissing or ErrTooOld, naming what.
func Check(ctx context.Context) error {
	missing, err := lacking(ctx)
	if err != nil {
		return err
	}
	missing, why, err := lackingImages(ctx, missing)
	if err == nil && len(missing) > 0 {
		err = errors.Join(fmt.Errorf("%s: %w", strings.Join(missing, ", "), ErrMissing), why)
	}
	return err
}

// lacking names the packages whose programs are needed and not here: with
// HANJUL_SERVERS=docker, all that no address is given for.
func lacking(ctx context.Context) (missing []string, err error) {
	asked, err := wished()
	if err != nil {
		return nil, err
	}
	given := GivenByEnvironment()
	if len(given.Redis) == 0 {
		var err error
		if asked.servers == serversDocker && given.RedisKind != kindCluster { // which no container is made for
			err = ErrMissing
		} else {
			_, err = findRedis(ctx)
		}
		if errors.Is(err, ErrMissing) {
			missing = append(missing, redisPackage)
		} else if err != nil {
			return nil, err
		}
	}
	if given.Postgres == "" {
		err := ErrMissing
		if asked.servers != serversDocker {
			_, _, err = findPostgres(ctx)
		}
		if errors.Is(err, ErrMissing) {
			missing = append(missing, postgresPackage)
		} else if err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// onDebian reports whether apt-get and Debian's package names are here.
func onDebian() bool {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return false
	}
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if name, value, _ := strings.Cut(line, "="); (name == "ID" || name == "ID_LIKE") && strings.Contains(value, "debian") {
			return true
		}
	}
	return false
}

// install runs apt-get with the distribution's services held back.
func install(ctx context.Context, out io.Writer, packages []string) (err error) {
	release, err := holdServices("/usr/sbin/policy-rc.d")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := apt(ctx, out, "update"); err != nil {
		return err
	}
	if slices.Contains(packages, postgresPackage) {
		// The package makes and starts a cluster unless it is told not to,
		// and it is told in a file that comes with postgresql-common.
		if err := apt(ctx, out, "install", "-y", "--no-install-recommends", "postgresql-common"); err != nil {
			return err
		}
		if err := refuseCluster("/etc/postgresql-common/createcluster.conf"); err != nil {
			return err
		}
	}
	return apt(ctx, out, append([]string{"install", "-y", "--no-install-recommends"}, packages...)...)
}

func apt(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300", "-o", "Dpkg::Options::=--force-confold"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "UCF_FORCE_CONFFOLD=1")
	kept := &output{log: io.Discard}
	cmd.Stdout, cmd.Stderr = kept, kept
	_, _ = fmt.Fprintf(out, "  apt-get %s\n", strings.Join(args, " "))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, kept.last())
	}
	return nil
}

// policyMark is how we know our own policy file again after a crash.
const policyMark = "# made by hanjul for the length of one install"

// holdServices keeps Debian's packages from starting their services until
// release is called: invoke-rc.d asks this program, and 101 means no. A policy
// of the machine's own is put aside and put back.
func holdServices(path string) (release func() error, err error) {
	aside := path + ".hanjul-aside"
	if text, err := os.ReadFile(path); err == nil && !strings.Contains(string(text), policyMark) {
		if err := os.Rename(path, aside); err != nil {
			return nil, fmt.Errorf("hold services back: %w", err)
		}
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+policyMark+"\nexit 101\n"), 0o755); err != nil {
		return nil, fmt.Errorf("hold services back: %w", err)
	}
	return func() error {
		if _, err := os.Stat(aside); err == nil {
			return os.Rename(aside, path)
		}
		return os.Remove(path)
	}, nil
}

// refuseCluster sets create_main_cluster to false in a createcluster.conf.
func refuseCluster(path string) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("refuse a database cluster: %w", err)
	}
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		if name, _, _ := strings.Cut(line, "="); strings.Trim(name, "# \t") != "create_main_cluster" {
			lines = append(lines, line)
		}
	}
	lines = append(lines, "create_main_cluster = false", "")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("refuse a database cluster: %w", err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		return fmt.Errorf("refuse a database cluster: %w", err)
	}
	return nil
}
