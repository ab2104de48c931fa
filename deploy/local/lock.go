package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lock keeps two launchers off one data folder. The kernel drops it with the
// process that holds it, so a crash leaves nothing that must be cleared away.
type lock struct{ file *os.File }

func takeLock(dir string) (*lock, error) {
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close() // we hold nothing
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		holder, _ := os.ReadFile(path) // only for the message
		return nil, fmt.Errorf("%s is held by process %s: %w", dir, strings.TrimSpace(string(holder)), ErrInUse)
	}
	if err := errors.Join(file.Truncate(0), writeAt(file, fmt.Sprintf("%d\n", os.Getpid()))); err != nil {
		_ = file.Close() // gives the lock back
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return &lock{file: file}, nil
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func (l *lock) release() {
	_ = l.file.Close() // closing is all it takes, and nothing was buffered
}
