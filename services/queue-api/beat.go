package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"hanjul/pkg/lifecycle"
	"hanjul/pkg/telemetry"
)

// beatEvery is the time between two beats; a scheduler lets pass time stand still once none came for waitingroom.Allowance.
const beatEvery = time.Second

// beating tells Redis each second that this process is there to hear people. It ends first of all: who turns callers away hears nobody.
// Crash: the beats end with the process. Redis away: no beat arrives, and none is made up for; it could not hear anybody either.
func beating(logger *slog.Logger, every, within time.Duration, beat func(context.Context) error) lifecycle.Component {
	const failed = "beat not sent"
	repeats := telemetry.NewRepeats(logger, 30*time.Second)
	once := func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		if err := beat(ctx); err == nil {
			repeats.Over(ctx, failed)
		} else if !errors.Is(ctx.Err(), context.Canceled) {
			repeats.Warn(ctx, failed, slog.Any("err", err))
		}
	}
	return lifecycle.Component{
		Name: "beat", StopWithin: time.Second,
		Run: func(ctx context.Context) error {
			ticker := time.NewTicker(every)
			defer ticker.Stop()
			for {
				once(ctx)
				select {
				case <-ctx.Done():
					return nil
				case <-ticker.C:
				}
			}
		},
	}
}
