package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempMark begins the name of every temporary folder of ours.
const tempMark = "hanjul-"

// tempDir is a folder that is removed when it is not needed any more, at the
// latest when the next one is made after its owner was killed: a locked file
// beside it says that the owner lives.
type tempDir struct {
	path  string
	owner *os.File
}

// newTempDir makes a folder in parent ("" means the system's) and clears away
// those whose owners are gone.
func newTempDir(parent, kind string) (*tempDir, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	sweep(parent)
	for {
		path := filepath.Join(parent, fmt.Sprintf("%s%s-%x", tempMark, kind, randomBytes(6)))
		owner, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("make a temporary folder for %s: %w", kind, err)
		}
		if !holds(owner) {
			_ = owner.Close() // a sweeper was faster; it removes the file
			continue
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			_ = owner.Close() // the next sweep removes the file
			return nil, fmt.Errorf("make a temporary folder for %s: %w", kind, err)
		}
		return &tempDir{path: path, owner: owner}, nil
	}
}

// TempDir gives a folder for the life of this process and the function that
// removes it: where the process is killed, the next one clears it away.
func TempDir(kind string) (path string, remove func(), err error) {
	dir, err := newTempDir("", kind)
	if err != nil {
		return "", nil, err
	}
	return dir.path, dir.remove, nil
}

// holds takes the lock of an open file and reports whether the file is still
// the one under its name.
func holds(file *os.File) bool {
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return false
	}
	ours, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(file.Name())
	return err == nil && os.SameFile(ours, named)
}

// remove is safe to repeat and on a nil receiver, which stands for a folder
// that its user named.
func (t *tempDir) remove() {
	if t == nil {
		return
	}
	// A leftover is swept by the next one.
	_ = os.RemoveAll(t.path)
	_ = os.Remove(t.owner.Name())
	_ = t.owner.Close()
}

// sweep removes the temporary folders in parent whose owners are gone. What
// cannot be removed is left: another user's, or one in use.
func sweep(parent string) {
	locks, err := filepath.Glob(filepath.Join(parent, tempMark+"*.lock"))
	if err != nil {
		return // the pattern is a constant
	}
	for _, path := range locks {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if holds(file) {
			_ = os.RemoveAll(strings.TrimSuffix(path, ".lock"))
			_ = os.Remove(path)
		}
		_ = file.Close()
	}
}

// workDir gives the absolute folder of a server: dir when it is named, else a
// new temporary one, which the server removes when it stops.
func workDir(dir, kind string) (path string, temporary *tempDir, err error) {
	if dir == "" {
		temporary, err = newTempDir("", kind)
		if err != nil {
			return "", nil, err
		}
		return temporary.path, temporary, nil
	}
	path, err = filepath.Abs(dir)
	if err != nil {
		return "", nil, fmt.Errorf("folder of %s: %w", kind, err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", nil, fmt.Errorf("make the folder of %s: %w", kind, err)
	}
	return path, nil, nil
}

// gone says that a server's temporary folder was removed: it cannot come back.
func (t *tempDir) gone() error {
	if t == nil {
		return nil
	}
	if _, err := os.Stat(t.path); err != nil {
		return errors.Join(ErrStopped, err)
	}
	return nil
}
