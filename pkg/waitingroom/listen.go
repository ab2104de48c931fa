package waitingroom

import (
	"context"
	"fmt"
)

// Listen looks whether any queue-api said within Allowance that it is there. From then on Admit tells it to every line: while none did,
// passes keep their time, because nobody could be heard. Where none ever did (an older queue-api, or a Redis that lost the key until the
// next beat) time goes on. Call it once a second. After an error the last finding stands: the same Redis, or the same part of a cluster,
// that does not answer here does not answer those who beat. Safe to repeat.
func (a *Admitter) Listen(ctx context.Context) error {
	left, err := a.rdb.PTTL(ctx, a.keys.Alive()).Result()
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.deaf.Store(left >= 0 && beatLife-left > Allowance)
	return nil
}

// Deaf is what the last Listen found.
func (a *Admitter) Deaf() bool { return a.deaf.Load() }
