package lifecycle

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// OnSignals returns a context that the first signal ends; the second ends the process at once by calling exit
// with 128 plus its number, as a shell would report it. main.go makes the channel (buffered, at least 1) with signal.Notify
// and passes os.Exit. release frees the goroutine and ends the context; call it before the process ends, once or more.
func OnSignals(parent context.Context, signals <-chan os.Signal, exit func(code int)) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(parent)
	over, done := context.WithCancel(context.Background())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		select {
		case signal := <-signals:
			cancel(fmt.Errorf("signal: %s", signal))
		case <-over.Done():
			return
		}
		select {
		case signal := <-signals:
			exit(exitCode(signal))
		case <-over.Done():
		}
	}()
	return ctx, func() {
		done()
		<-finished
		cancel(context.Canceled)
	}
}

func exitCode(signal os.Signal) int {
	if number, ok := signal.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return 1
}
