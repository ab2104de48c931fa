package waitingroom

import (
	"context"
	"fmt"
	"time"
)

// beatLife is how long a beat is remembered. How much of it is left tells the beat's age by Redis' own clock; an outage that lasts longer
// is taken for a deployment without queue-api.
const beatLife = 30 * 24 * time.Hour

// Beat says that a queue-api is there to hear people. Each process calls it once a second while it serves. Safe to repeat; a late one
// only says that the process was there when it arrived.
func (r *Room) Beat(ctx context.Context) error {
	if err := r.rdb.Set(ctx, r.keys.Alive(), "1", beatLife).Err(); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}
