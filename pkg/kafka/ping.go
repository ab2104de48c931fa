package kafka

import (
	"context"
	"fmt"
)

// Ping returns nil when one of the configured brokers answers, over a connection of its own. Unlike metadata, which the library
// remembers, the answer is asked for each time.
func (c *Client) Ping(ctx context.Context) error {
	var err error
	for _, broker := range c.cfg.Brokers {
		if _, err = c.offers(ctx, broker); err == nil {
			return nil
		}
	}
	return fmt.Errorf("ask a broker for a sign of life: %w", err)
}
