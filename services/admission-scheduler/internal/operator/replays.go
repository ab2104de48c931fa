package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/outbox"
	"hanjul/pkg/product"
)

// Replays is what the desk asks of the outbox; outbox.Outbox is it. The desk only writes down what is wanted: an order-consumer runs it.
type Replays interface {
	PlanReplay(ctx context.Context, w outbox.Wanted) (outbox.Replay, error)
	AskReplay(ctx context.Context, a outbox.Action, w outbox.Wanted, topic string, rate int) (outbox.Asked, error)
	CancelReplay(ctx context.Context, a outbox.Action, id string) (outbox.Asked, error)
	ContinueReplay(ctx context.Context, a outbox.Action, id string) (outbox.Asked, error)
	Replay(ctx context.Context, id string) (outbox.Replay, error)
	Replays(ctx context.Context, p product.ID) ([]outbox.Replay, error)
}

// The forms of what calls name.
const (
	uuidForm   = `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	replayForm = `^[a-z0-9]{1,64}$`
)

// counted is the answer to a dry run.
type counted struct {
	Product product.ID `json:"product"`
	FromSeq int64      `json:"from_seq"`
	ToSeq   int64      `json:"to_seq"`
	Types   []string   `json:"types"`
	Topic   string     `json:"topic"`
	Rate    int        `json:"rate"`
	Matched int64      `json:"matched"`
	Missing int64      `json:"missing"`
	DryRun  bool       `json:"dry_run"`
}

// replayView is a replay as operators see it.
type replayView struct {
	counted
	ID         string    `json:"id"`
	State      string    `json:"state"`
	Problem    *string   `json:"problem"`
	Progress   float64   `json:"progress"` // the part of matched that was sent, 0 to 1
	Sent       int64     `json:"sent"`
	NextSeq    int64     `json:"next_seq"`
	Attempt    int       `json:"attempt"`
	Background bool      `json:"background"`
	Operator   string    `json:"operator"`
	StartedAt  time.Time `json:"started_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

func newCounted(r outbox.Replay) counted {
	return counted{r.Product, r.FromSeq, r.ToSeq, append([]string{}, r.Types...), r.Topic, r.Rate, r.Matched, r.Missing, false}
}

func newReplayView(r outbox.Replay) replayView {
	v := replayView{
		counted: newCounted(r), ID: r.ID, State: r.State, Progress: 1, Sent: r.Sent, NextSeq: r.NextSeq, Attempt: r.Attempt,
		Background: r.Background, Operator: r.Operator, StartedAt: r.StartedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	if r.Problem != "" {
		v.Problem = &r.Problem
	}
	if r.Matched > 0 {
		v.Progress = float64(r.Sent) / float64(r.Matched)
	}
	return v
}

// wish is what the body of a call for a replay says.
type wish struct {
	outbox.Wanted
	topic  string
	rate   int
	dryRun bool
}

// askReplay writes down a replay, or counts what one would send. Counts come first either way: nothing is written down where nothing matches.
func (d *Desk) askReplay(w http.ResponseWriter, r *http.Request) {
	d.replayAction(w, r, func(a outbox.Action) (int, any, bool, error) {
		wanted, err := d.readWish(r, a.Product)
		if err != nil {
			return 0, nil, false, err
		}
		if _, err := d.Ledger.Product(r.Context(), a.Product); err != nil {
			return 0, nil, false, err
		}
		if wanted.dryRun {
			plan, err := d.Replays.PlanReplay(r.Context(), wanted.Wanted)
			plan.Topic, plan.Rate = wanted.topic, wanted.rate
			answer := newCounted(plan)
			answer.DryRun = true
			return http.StatusOK, answer, false, err
		}
		asked, err := d.Replays.AskReplay(r.Context(), a, wanted.Wanted, wanted.topic, wanted.rate)
		if err == nil {
			w.Header().Set("Location", "/v1/products/"+string(a.Product)+"/replays/"+asked.ID)
		}
		return http.StatusAccepted, newReplayView(asked.Replay), asked.Repeat, err
	})
}

// readWish reads the body; every fault names its field.
func (d *Desk) readWish(r *http.Request, p product.ID) (wish, error) {
	members, err := readBody(r, false)
	if err != nil {
		return wish{}, err
	}
	var f faults
	wanted := wish{Wanted: outbox.Wanted{Product: p}, topic: d.ReplayTopics[0], rate: outbox.RateDefault}
	seqs := 0
	for _, seq := range []struct {
		name string
		into *int64
	}{{"from_seq", &wanted.FromSeq}, {"to_seq", &wanted.ToSeq}} {
		if !take(members, &f, seq.name, seq.into) {
			continue
		}
		if seqs++; *seq.into < 1 {
			f.add(seq.name, "expected a whole number above 0")
		}
	}
	if seqs == 2 && wanted.ToSeq < wanted.FromSeq {
		f.add("to_seq", "expected from_seq or above")
	}
	times := 0
	for _, at := range []struct {
		name string
		into *time.Time
	}{{"since", &wanted.Since}, {"until", &wanted.Until}} {
		var text string
		if !take(members, &f, at.name, &text) {
			continue
		}
		times++
		if *at.into, err = time.Parse(time.RFC3339, text); err != nil {
			f.add(at.name, "expected a time such as 2027-01-15T08:00:00Z")
		}
	}
	if times == 2 && !wanted.Since.IsZero() && !wanted.Until.IsZero() && !wanted.Until.After(wanted.Since) {
		f.add("until", "expected a time after since")
	}
	known := order.EventTypes()
	if take(members, &f, "types", &wanted.Types) && slices.ContainsFunc(wanted.Types, func(t string) bool { return !slices.Contains(known, order.EventType(t)) }) {
		f.add("types", "expected some of %v", known)
	}
	if take(members, &f, "event_id", &wanted.EventID) && !regexp.MustCompile(uuidForm).MatchString(wanted.EventID) {
		f.add("event_id", "expected a UUID in lower case")
	}
	if take(members, &f, "topic", &wanted.topic) && !slices.Contains(d.ReplayTopics, wanted.topic) {
		f.add("topic", "expected one of %s", strings.Join(d.ReplayTopics, ", "))
	}
	if take(members, &f, "rate", &wanted.rate) && (wanted.rate < 1 || wanted.rate > outbox.RateMax) {
		f.add("rate", "expected a whole number from 1 to %d", outbox.RateMax)
	}
	take(members, &f, "dry_run", &wanted.dryRun)
	d.readConfirm(members, &f, wanted)
	refuseUnknown(members, &f)
	return wanted, f.err()
}

// readConfirm wants the product's name before the live topic is written to, and the right one wherever one is given.
func (d *Desk) readConfirm(members map[string]json.RawMessage, f *faults, wanted wish) {
	var confirm string
	_, given := members["confirm"]
	switch needed := wanted.topic == d.ReplayTopics[0] && !wanted.dryRun; {
	case take(members, f, "confirm", &confirm) && confirm != string(wanted.Product):
		f.add("confirm", "expected the product's name, %s", wanted.Product)
	case needed && !given:
		f.add("confirm", "expected the product's name, %s: every reader of %s sees these events", wanted.Product, wanted.topic)
	}
}

// cancelReplay ends a replay for good, also one that somebody runs by hand.
func (d *Desk) cancelReplay(w http.ResponseWriter, r *http.Request) {
	d.moveReplay(w, r, d.Replays.CancelReplay)
}

// resumeReplay lets a stopped replay go on.
func (d *Desk) resumeReplay(w http.ResponseWriter, r *http.Request) {
	d.moveReplay(w, r, d.Replays.ContinueReplay)
}

func (d *Desk) moveReplay(w http.ResponseWriter, r *http.Request, move func(context.Context, outbox.Action, string) (outbox.Asked, error)) {
	d.replayAction(w, r, func(a outbox.Action) (int, any, bool, error) {
		id, err := replayOf(r)
		if err != nil {
			return 0, nil, false, err
		}
		if err := noMembers(r); err != nil {
			return 0, nil, false, err
		}
		if _, err := d.Ledger.Product(r.Context(), a.Product); err != nil {
			return 0, nil, false, err
		}
		asked, err := move(r.Context(), a, id)
		return http.StatusOK, newReplayView(asked.Replay), asked.Repeat, err
	})
}

// replayAction wraps what all changes of replays have in common, as change does for the product's own.
func (d *Desk) replayAction(w http.ResponseWriter, r *http.Request, do func(a outbox.Action) (status int, answer any, repeat bool, err error)) {
	a := outbox.Action{RequestID: r.Header.Get("Idempotency-Key"), Operator: operatorOf(r)}
	if !isKey(a.RequestID) {
		d.write(w, r, errNoKey)
		return
	}
	var err error
	if a.Product, err = productOf(r); err != nil {
		d.write(w, r, err)
		return
	}
	status, answer, repeat, err := do(a)
	if err != nil {
		d.write(w, r, err)
		return
	}
	attrs := []slog.Attr{
		slog.String("operator", a.Operator), slog.String("call", r.Pattern), slog.String("product_id", string(a.Product)),
		slog.String("request_id", a.RequestID), slog.Bool("repeat", repeat),
	}
	view, ok := answer.(replayView)
	if !ok { // A dry run has changed nothing.
		writeJSON(w, status, answer)
		return
	}
	d.logger.LogAttrs(r.Context(), slog.LevelInfo, "operator action", append(attrs, slog.String("replay", view.ID))...)
	writeJSON(w, status, struct {
		replayView
		Repeat bool `json:"repeat"`
	}{view, repeat})
}

// listReplays shows a product's replays, the newest first.
func (d *Desk) listReplays(w http.ResponseWriter, r *http.Request) {
	p, err := productOf(r)
	if err == nil {
		_, err = d.Ledger.Product(r.Context(), p)
	}
	var found []outbox.Replay
	if err == nil {
		found, err = d.Replays.Replays(r.Context(), p)
	}
	if err != nil {
		d.write(w, r, err)
		return
	}
	views := make([]replayView, len(found))
	for i, each := range found {
		views[i] = newReplayView(each)
	}
	writeJSON(w, http.StatusOK, map[string]any{"product": p, "replays": views})
}

// readReplay shows one replay.
func (d *Desk) readReplay(w http.ResponseWriter, r *http.Request) {
	p, err := productOf(r)
	var id string
	if err == nil {
		id, err = replayOf(r)
	}
	if err == nil {
		_, err = d.Ledger.Product(r.Context(), p)
	}
	var found outbox.Replay
	if err == nil {
		found, err = d.Replays.Replay(r.Context(), id)
	}
	if err == nil && found.Product != p {
		err = fmt.Errorf("replay %s of %s: %w", id, p, outbox.ErrNoReplay)
	}
	if err != nil {
		d.write(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, newReplayView(found))
}

func replayOf(r *http.Request) (string, error) {
	id := r.PathValue("replay")
	if !regexp.MustCompile(replayForm).MatchString(id) {
		return "", faults{{Name: "replay", Detail: "expected a replay's id: 1-64 of a-z and 0-9"}}
	}
	return id, nil
}
