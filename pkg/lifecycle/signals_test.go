package lifecycle_test

import (
	"context"
	"os"
	"syscall"
	"testing"

	"hanjul/pkg/lifecycle"
)

func TestOnSignals(t *testing.T) {
	t.Parallel()

	t.Run("TheFirstStopsTheSecondEnds", func(t *testing.T) {
		t.Parallel()
		signals := make(chan os.Signal, 1)
		code := make(chan int, 1)
		ctx, release := lifecycle.OnSignals(t.Context(), signals, func(c int) { code <- c })
		defer release()
		signals <- syscall.SIGTERM
		<-ctx.Done()
		if got := context.Cause(ctx).Error(); got != "signal: terminated" {
			t.Fatal(got)
		}
		signals <- syscall.SIGINT
		if got := <-code; got != 130 {
			t.Fatal(got)
		}
	})

	t.Run("ReleaseFreesIt", func(t *testing.T) {
		t.Parallel()
		ctx, release := lifecycle.OnSignals(t.Context(), make(chan os.Signal), func(int) { t.Error("exit") })
		release()
		release()
		if ctx.Err() == nil {
			t.Fatal("still running")
		}
	})
}
