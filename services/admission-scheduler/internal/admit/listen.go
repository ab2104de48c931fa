package admit

import (
	"context"
	"time"
)

// listen looks each second whether people can be heard at all, beside everything else: neither a slow ledger nor a slow line may make
// it late. A failed look changes nothing and is done again; one that comes late tells the truth of when it comes.
func (l *Loop) listen(ctx context.Context) {
	const failed = "not known whether queue-api is there"
	ticker := time.NewTicker(l.Upkeep)
	defer ticker.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, l.Deadline)
		err := l.Admitter.Listen(look)
		cancel()
		if err == nil {
			l.repeats.Over(ctx, failed)
		} else {
			l.complain(ctx, failed, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
