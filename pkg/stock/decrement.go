package stock

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

// chunk is the most orders of one script call: three arguments each stay far below what a script can unpack.
const chunk = 500

// Settle tells a product's slot what the ledger decided (U8): its base (total − sold) at event seq is taken over if seq is
// greater than the slot's, the judged orders' intents are deleted and their units no longer held, and their users have ordered.
// Orders may have been settled before or be unknown to the slot.
//
// A slot that does not know its stock learns base and seq only with create: set it for the settle of a load_stock command, and
// for reconcile once everything accepted before the loss has been read, never otherwise (F11). Orders are settled either way,
// also in a slot without settings. An empty judged only carries base and seq. Safe to repeat, and late: an older seq never
// overwrites. Large inputs are sent in chunks; after an error some may have been applied.
func (c *Counter) Settle(ctx context.Context, p product.ID, base, seq int64, create bool, judged []Judged) error {
	k := c.keys.Product(p)
	keys := []string{k.Stock, k.Intents, k.Ordering, k.Judged, k.Waiting, k.Away, k.AwayTill, k.Active, k.Who, k.WhoT, k.Tally, k.Clock, k.Slots, k.Changes}
	mayCreate := "0"
	if create {
		mayCreate = "1"
	}
	for first := true; first || len(judged) > 0; first = false {
		n := min(chunk, len(judged))
		args := make([]any, 0, 6+3*n)
		args = append(args, strconv.FormatInt(base, 10), strconv.FormatInt(seq, 10), mayCreate, strconv.FormatInt(ticket.Remembered.Milliseconds(), 10),
			c.keys.GateHints(), string(p))
		for _, j := range judged[:n] {
			args = append(args, string(j.OrderID), string(j.User), strconv.FormatInt(int64(j.Place), 10))
		}
		if _, err := c.decrement.Run(ctx, c.rdb, keys, args...); err != nil {
			return fmt.Errorf("settle %d orders of product %s: %w", len(judged), p, err)
		}
		judged = judged[n:]
	}
	return nil
}
