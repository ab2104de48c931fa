package httpapi

import (
	"context"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// remember keeps the product's state fresh, by which people are let in once Redis is away: one call of Redis a second and product.
func (a *API) remember(ctx context.Context, p product.ID) {
	if a.door != nil {
		_, _ = a.views.get(ctx, p) // whatever is wrong the call itself meets, too
	}
}

// letIn gives a person a pass of no place, where the operators chose that, while Redis is away (F39). It asks nobody: the product must have
// been open when it was last looked at, and the door has room. The place of who waits is kept, by their ticket.
// Crash: the pass is its holder's, this process forgets it, and the person gets another. Twice: the same pass until its end. Late: an
// answer that meets a Redis that is back again is one pass more, within the ceiling.
func (a *API) letIn(c *call, away bool) (standing, bool) {
	if a.door == nil || !away {
		return standing{}, false
	}
	v, at, known := a.views.last(c.product)
	if !known || v.State != product.Open || !v.QueueOn || v.OrdersHalted || v.StockKnown && v.Base == 0 {
		return standing{}, false
	}
	grant, let := a.door.Let(c.product, c.who.hash, time.Duration(v.PassMS)*time.Millisecond)
	if !let {
		return standing{}, false
	}
	text, err := a.keys.Passes.Sign(pass.Pass{
		User: c.who.id, Product: c.product, Nonce: grant.Nonce, OrderID: order.DeriveNonceID(a.keys.Orders, c.product, c.who.hash, grant.Nonce, grant.At),
		Epoch: v.PassEpoch, Admitted: grant.At, IssuedAt: grant.At, ExpiresAt: grant.Ends,
	})
	if err != nil {
		a.logger.Error("pass of no place not signed", "product", c.product, "err", err)
		return standing{}, false
	}
	a.metrics.letIn()
	notWaiting, ends := reasonNotWaiting, grant.Ends.UTC()
	d := standing{
		Product: c.product, Status: statusAdmitted, Total: v.Waiting, NextPollMS: a.cfg.Cadence.far(),
		EstimatedWaitReason: &notWaiting, ProgressReason: &notWaiting, StreamURLReason: &notWaiting, Pass: &text, PassExpiresAt: &ends,
		SnapshotAt: at.UTC(), AgeMS: a.now().Sub(at).Milliseconds(), Stale: true,
	}
	if c.ticket != nil {
		d.Ticket = &c.text
	}
	return d, true
}
