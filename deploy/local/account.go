package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user a server runs as; nil means ourselves.
type account struct {
	name     string
	uid, gid int
}

// accountMade is the user we make where the distribution has none for Postgres.
const accountMade = "hanjul-postgres"

// postgresAccount finds or makes the user for Postgres when we are root, and
// is nil when we are not.
func postgresAccount(ctx context.Context) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", accountMade} {
		found, err := lookUp(name)
		if err != nil || found != nil {
			return found, err
		}
	}
	made := exec.CommandContext(ctx, "useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", accountMade)
	if said, err := made.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the user %s for postgres: %w: %s", accountMade, err, said)
	}
	return lookUp(accountMade)
}

func lookUp(name string) (*account, error) {
	found, err := user.Lookup(name)
	if unknown := user.UnknownUserError(""); errors.As(err, &unknown) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up the user %s: %w", name, err)
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return nil, fmt.Errorf("look up the user %s: %w", name, err)
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return nil, fmt.Errorf("look up the user %s: %w", name, err)
	}
	return &account{name: name, uid: uid, gid: gid}, nil
}

// apply makes cmd run as this user.
func (a *account) apply(cmd *exec.Cmd) {
	if a == nil {
		return
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)},
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "HOME=/nonexistent"}
}

// reaches reports whether this user can enter the folder.
func (a *account) reaches(ctx context.Context, dir string) bool {
	cmd := exec.CommandContext(ctx, "true")
	cmd.Dir = dir
	a.apply(cmd)
	return cmd.Run() == nil
}

// settle gives the cluster's folder to the server's user, and moves it where
// that user can go when the way to it is closed: a project under a private home.
func (p *Postgres) settle(ctx context.Context) error {
	if p.account == nil {
		return nil
	}
	if p.own() == nil && p.account.reaches(ctx, p.dir) {
		return nil
	}
	blocked := p.dir
	if p.temporary != nil {
		p.temporary.remove()
		var err error
		if p.temporary, err = newTempDir("/var/tmp", "postgres"); err != nil {
			return err
		}
		p.dir = p.temporary.path
	} else {
		// The name is the same for the same folder, so that the next start finds it.
		sum := sha256.Sum256([]byte(blocked))
		p.dir = filepath.Join("/var/lib/hanjul", "postgres-"+hex.EncodeToString(sum[:6]))
		if err := os.MkdirAll(p.dir, 0o755); err != nil {
			return fmt.Errorf("find a folder for postgres: %w", err)
		}
	}
	_, _ = fmt.Fprintf(logTo(p.options.Log), "postgres: the user %s cannot enter %s; the data is in %s\n", p.account.name, blocked, p.dir)
	if err := p.own(); err != nil {
		return err
	}
	if !p.account.reaches(ctx, p.dir) {
		return fmt.Errorf("the user %s can enter neither %s nor %s", p.account.name, blocked, p.dir)
	}
	return nil
}

func (p *Postgres) own() error {
	if err := os.Chown(p.dir, p.account.uid, p.account.gid); err != nil {
		return fmt.Errorf("give %s to %s: %w", p.dir, p.account.name, err)
	}
	if err := os.Chmod(p.dir, 0o700); err != nil {
		return fmt.Errorf("give %s to %s: %w", p.dir, p.account.name, err)
	}
	return nil
}
