package buyers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/product"
)

// retryPause is how long a buyer waits before it repeats a call that had no answer.
const retryPause = 500 * time.Millisecond

// lookupPause is how often a buyer asks for its verdict.
const lookupPause = 100 * time.Millisecond

// buyer is one person's visit; one goroutine owns it.
type buyer struct {
	n       int
	id      product.UserID
	product product.ID
	client  *client
	journal *journal.Writer
	tally   *tally
	cast    *cast
	role    Role // in the line
	played  bool // that role was played
	rng     *rand.Rand

	api      int // which API answered last; another one is tried after a failure
	ticket   string
	joinedAt bool
	admitted bool
	held     Role   // with a pass in hand
	acted    bool   // the role of the pass was played
	pass     string // the last one handed out; a client keeps it, and shows it when it asks for its order
	unsure   bool   // an order was sent with it, and no answer came
	last     string // the last call and its answer, told when the visit could not be ended
}

func (b *buyer) queue() string { return "/v1/products/" + string(b.product) + "/queue" }

// write puts one answer into the journal and counts refusals and errors apart.
func (b *buyer) write(call journal.Call, pass string, quantity int, a answer) {
	state := a.body.Status
	if a.status >= 400 {
		state = ""
	}
	shown := pass
	if call == journal.CallStatus {
		shown = a.body.Pass
	}
	b.journal.Write(journal.Entry{
		Sent: a.sent, Time: a.read, Product: b.product, Buyer: b.id, Call: call, Status: a.status, State: state,
		Reason: a.body.Reason, Problem: a.problem(), Place: a.body.Place, Pass: shown, OrderID: a.body.OrderID, Quantity: quantity,
	})
	b.last = fmt.Sprintf("%s of %s answered %d %s %s %s", call, b.id, a.status, state, a.problem(), a.body.OrderID)
	b.tally.with(func(r *Result) {
		switch {
		case a.status == 0 && a.err != nil:
			r.Errors["no answer: "+string(call)]++
		case isRefusal(a):
			r.Refusals[a.problem()]++
		case a.status >= 400:
			r.Errors[fmt.Sprintf("%s answered %d %s", call, a.status, a.problem())]++
		}
	})
}

// isRefusal says that the service said no in one of the ways that its contract has for people who do nothing wrong. Anything else
// from 400 up is an error: a fault of the buyer's program or of the service. Who is told to come back is told when.
func isRefusal(a answer) bool {
	switch a.status {
	case http.StatusForbidden, http.StatusConflict:
		return a.problem() != ""
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return a.problem() != "" && a.retryAfter > 0
	}
	return false
}

func (b *buyer) call(ctx context.Context, call journal.Call, r request, quantity int) answer {
	r.user = b.id
	a := b.client.send(ctx, r, b.n, b.n+b.api)
	if ctx.Err() == nil {
		b.write(call, r.pass, quantity, a)
	}
	if a.status == 0 {
		b.api++
	}
	return a
}

// pause waits as the answer asks, with jitter so that refused buyers do not come back together.
func (b *buyer) pause(ctx context.Context, a answer) bool {
	d := max(a.retryAfter, retryPause)
	return wait(ctx, d+time.Duration(b.rng.Int64N(int64(retryPause))))
}

// visit is the whole of it: join, poll as told, act on what the line says.
func (b *buyer) visit(ctx context.Context) Outcome {
	if end := b.join(ctx); end != "" {
		return end
	}
	for ctx.Err() == nil {
		a := b.call(ctx, journal.CallStatus, request{method: http.MethodGet, path: b.queue(), ticket: b.ticket}, 0)
		if a.status != http.StatusOK {
			if !b.pause(ctx, a) {
				break
			}
			continue
		}
		b.tally.took(HopPoll, a.read.Sub(a.sent))
		if a.body.Ticket != "" {
			b.ticket = a.body.Ticket
		}
		switch a.body.Status {
		case "admitted":
			if end := b.act(ctx, a.body.Pass); end != "" {
				return end
			}
			continue
		case "ordered":
			if end := b.verdict(ctx, a.body.OrderID, b.pass, time.Time{}); end != "" {
				return end
			}
			continue
		case "lapsed":
			return b.leaving(ctx, Lapsed)
		case "left", "evicted":
			if b.role == Leaver {
				b.play() // the answer to its leave was lost
			}
			return b.leaving(ctx, Left)
		case "sold_out":
			return b.leaving(ctx, SoldOut)
		case "not_in_line":
			if end := b.join(ctx); end != "" {
				return end
			}
		}
		if end := b.misbehave(ctx); end != "" {
			return end
		}
		if !wait(ctx, time.Duration(max(a.body.NextPollMS, 50))*time.Millisecond) {
			break
		}
	}
	return Lost
}

// join asks for a place until there is one.
func (b *buyer) join(ctx context.Context) Outcome {
	for ctx.Err() == nil {
		r := request{method: http.MethodPost, path: b.queue(), ticket: b.ticket}
		a := b.joinOnce(ctx, r)
		switch a.status {
		case http.StatusOK, http.StatusCreated:
			b.ticket = a.body.Ticket
			if !b.joinedAt {
				b.joinedAt = true
				b.tally.joined(a.sent, a.read)
			}
			b.tally.took(HopJoin, a.read.Sub(a.sent))
			return ""
		case http.StatusConflict, http.StatusNotFound:
			if !b.joinedAt {
				return NoJoin
			}
			return SoldOut
		}
		if !b.pause(ctx, a) {
			break
		}
	}
	return Lost
}

func (b *buyer) joinOnce(ctx context.Context, r request) answer {
	if b.role != DoubleJoin || b.joinedAt {
		return b.call(ctx, journal.CallJoin, r, 0)
	}
	return b.joinTwice(ctx, r)
}

// joinTwice joins from two tabs at once: both must be told the same place.
func (b *buyer) joinTwice(ctx context.Context, r request) answer {
	r.user = b.id
	var answers [2]answer
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() { answers[i] = b.client.send(ctx, r, b.n, b.n+i) })
	}
	both.Wait()
	joined := 0
	for _, a := range answers {
		b.write(journal.CallJoin, "", 0, a)
		if a.status == http.StatusOK || a.status == http.StatusCreated {
			joined++
		}
	}
	if joined == len(answers) {
		b.play()
		if answers[0].body.Place != answers[1].body.Place {
			b.tally.with(func(res *Result) { res.Errors["two joins at once got two places"]++ })
		}
	}
	if answers[0].status == http.StatusOK || answers[0].status == http.StatusCreated {
		return answers[0]
	}
	return answers[1]
}

// play counts the role in the line as played, once.
func (b *buyer) play() {
	if !b.played {
		b.played = true
		b.tally.with(func(r *Result) { r.Roles[b.role]++ })
	}
}

// misbehave plays the role of the line, once. What had no answer is tried again at the next occasion, be that after the next poll or
// with a pass in hand: how often a role is played must not hang on when a process is killed.
func (b *buyer) misbehave(ctx context.Context) Outcome {
	if b.played {
		return ""
	}
	switch b.role {
	case DoubleJoin: // one tab had no answer at the join
		b.joinTwice(ctx, request{method: http.MethodPost, path: b.queue(), ticket: b.ticket})
	case Refresh:
		a := b.call(ctx, journal.CallStatus, request{method: http.MethodGet, path: b.queue(), ticket: b.ticket}, 0)
		again := b.call(ctx, journal.CallJoin, request{method: http.MethodPost, path: b.queue()}, 0)
		if a.status == http.StatusOK && again.status == http.StatusOK {
			b.play()
		}
	case Leaver:
		// Both ways of leaving are used.
		r := request{method: http.MethodPost, path: b.queue() + "/leave", ticket: b.ticket}
		if b.n%2 == 0 {
			r = request{method: http.MethodDelete, path: b.queue(), ticket: b.ticket}
		}
		if a := b.call(ctx, journal.CallLeave, r, 0); a.status == http.StatusOK {
			b.play()
			return Left
		}
	}
	return ""
}

// act is what a buyer does with a pass. An empty outcome sends it back to the line's status.
func (b *buyer) act(ctx context.Context, pass string) Outcome {
	if b.unsure && idOf(pass) != idOf(b.pass) { // of another place
		return b.leaving(ctx, "")
	}
	b.pass = pass
	if !b.admitted {
		b.admitted = true
		b.tally.with(func(r *Result) { r.Admitted++ })
		if b.held = Ordinary; b.role != Leaver {
			b.held = b.cast.admit()
		}
	}
	if end := b.misbehave(ctx); end != "" || b.role == Leaver {
		return end
	}
	r := request{
		method: http.MethodPost, path: "/v1/products/" + string(b.product) + "/orders", user: b.id,
		pass: pass, ticket: b.ticket, key: fmt.Sprintf("key-%d", b.n), body: `{"quantity":1}`,
	}
	switch b.held {
	case Unused:
		// Nothing is sent; the lease lapses and the next poll says so.
		if !b.acted {
			b.acted = true
			b.tally.with(func(res *Result) { res.Roles[Unused]++ })
		}
		wait(ctx, retryPause)
		return ""
	case Cut:
		if !b.acted {
			b.unsure = true
			a := b.client.cut(ctx, r, b.n+b.api)
			b.write(journal.CallOrder, pass, 1, a)
			if a.err != nil { // nobody was there to hang up on: the line says whether the pass still holds
				b.api++
				b.pause(ctx, answer{})
				return ""
			}
			b.acted = true
			b.tally.with(func(res *Result) { res.Roles[Cut]++ })
		}
	case TwoOrders:
		if !b.acted {
			b.acted = true
			return b.orderTwice(ctx, r)
		}
	}
	a := b.call(ctx, journal.CallOrder, r, 1)
	return b.ordered(ctx, a, pass)
}

// orderTwice submits twice in parallel; both must lead to one order.
func (b *buyer) orderTwice(ctx context.Context, r request) Outcome {
	var answers [2]answer
	var both sync.WaitGroup
	for i := range answers {
		both.Go(func() { answers[i] = b.client.send(ctx, r, b.n, b.n+i) })
	}
	both.Wait()
	for _, a := range answers {
		b.write(journal.CallOrder, r.pass, 1, a)
	}
	b.tally.with(func(res *Result) {
		res.Roles[TwoOrders]++
		one, two := answers[0].body.OrderID, answers[1].body.OrderID
		if one != "" && two != "" && one != two {
			res.Errors["two orders at once got two ids"]++
		}
	})
	if answers[0].body.OrderID == "" {
		return b.ordered(ctx, answers[1], r.pass)
	}
	return b.ordered(ctx, answers[0], r.pass)
}

// ordered reads the answer of a submit.
func (b *buyer) ordered(ctx context.Context, a answer, pass string) Outcome {
	if a.status == http.StatusAccepted {
		b.tally.took(HopOrder, a.read.Sub(a.sent))
	}
	if a.body.OrderID != "" && (a.status < 300 || a.status == http.StatusConflict || a.status == http.StatusServiceUnavailable) && a.status != 0 {
		accepted := time.Time{}
		if a.status == http.StatusAccepted {
			accepted = a.read
		}
		return b.verdict(ctx, a.body.OrderID, pass, accepted)
	}
	b.unsure = b.unsure || a.status == 0
	// Refused (sold out, lapsed, left) or no answer: the line says what is true now.
	b.pause(ctx, answer{retryAfter: a.retryAfter})
	return ""
}
