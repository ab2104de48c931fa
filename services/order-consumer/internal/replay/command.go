package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"hanjul/pkg/outbox"
	"hanjul/services/order-consumer/internal/relay"
)

// ErrUsage says that nothing was sent because of what was asked for, or answered.
var ErrUsage = errors.New("nothing was sent")

// Command is one call of the subcommand. Connect makes the producer when it is known that something will be sent, after it checked the
// topic; it is closed by the returned function.
type Command struct {
	Options Options
	Live    string // the topic that the relay publishes to
	Box     *outbox.Outbox
	Connect func(ctx context.Context, topic string) (relay.Producer, func(), error)
	In      io.Reader // where a question is answered; nil: nobody is there
	Out     io.Writer
	Ask     io.Writer
}

// Run counts, asks, sends and tells. ErrStopped when ctx ended first; ErrUsage when nothing matched what can be done.
func (c Command) Run(ctx context.Context) error {
	plan, err := c.plan(ctx)
	if err != nil {
		return err
	}
	c.announce(plan)
	if c.Options.DryRun {
		return nil
	}
	if err := c.confirm(plan); err != nil {
		return err
	}
	producer, end, err := c.Connect(ctx, plan.Topic)
	if err != nil {
		return err
	}
	defer end()
	var replayer *outbox.Replayer
	if c.Options.Resume != "" {
		replayer, err = c.Box.ResumeReplay(ctx, c.Options.Resume, c.Options.Operator, c.Options.Rate)
	} else {
		replayer, err = c.Box.StartReplay(ctx, plan)
	}
	if err != nil {
		return err
	}
	defer replayer.Close(context.WithoutCancel(ctx))
	c.say(replayer.Replay, "replay    %s (attempt %d)\n", replayer.ID, replayer.Attempt)
	err = Runner{Box: c.Box, Producer: producer, Progress: c.progress, Hand: true}.Run(ctx, replayer)
	switch {
	case err == nil:
		c.say(replayer.Replay, "done: %d events\n", replayer.Sent)
	case errors.Is(err, outbox.ErrCancelled):
		fmt.Fprintf(c.Ask, "cancelled by an operator before seq %d\n", replayer.NextSeq)
	case replayer.State == outbox.StateStopped:
		fmt.Fprintf(c.Ask, "stopped before seq %d; to go on, add: --resume %s\n", replayer.NextSeq, replayer.ID)
	}
	return err
}

// plan counts what is asked for; of one to resume, what is left.
func (c Command) plan(ctx context.Context) (outbox.Replay, error) {
	o := c.Options
	if o.Resume == "" {
		plan, err := c.Box.PlanReplay(ctx, o.Wanted)
		if errors.Is(err, outbox.ErrNothing) {
			err = fmt.Errorf("%w: %w", ErrUsage, err)
		}
		plan.Topic, plan.Rate, plan.Operator = o.Topic, o.Rate, o.Operator
		return plan, err
	}
	plan, err := c.Box.Replay(ctx, o.Resume)
	switch {
	case errors.Is(err, outbox.ErrNoReplay):
		return plan, fmt.Errorf("%w: %w", ErrUsage, err)
	case err != nil:
		return plan, err
	case plan.Product != o.Product:
		return plan, fmt.Errorf("%w: replay %s is of product %s, not %s", ErrUsage, plan.ID, plan.Product, o.Product)
	case plan.Topic != o.Topic:
		return plan, fmt.Errorf("%w: replay %s goes to %s, not %s: say --to-topic %s", ErrUsage, plan.ID, plan.Topic, o.Topic, plan.Topic)
	case len(o.Types) > 0 && !slices.Equal(o.Types, plan.Types):
		return plan, fmt.Errorf("%w: replay %s is of other types", ErrUsage, plan.ID)
	case plan.State == outbox.StateDone:
		return plan, fmt.Errorf("%w: %w: %s", ErrUsage, outbox.ErrDone, plan.ID)
	case plan.State == outbox.StateCancelled:
		return plan, fmt.Errorf("%w: %w: %s", ErrUsage, outbox.ErrCancelled, plan.ID)
	}
	plan.Rate = o.Rate
	return plan, nil
}

func (c Command) announce(plan outbox.Replay) {
	left := plan.Matched - plan.Sent
	c.say(plan, "product   %s\nevents    %d of seq %d to %d\ntopic     %s%s\nrate      %d per second, about %s\n", plan.Product, left, plan.NextSeq, plan.ToSeq,
		plan.Topic, c.live(plan), plan.Rate, (time.Duration(left) * time.Second / time.Duration(plan.Rate)).Round(time.Second))
	if plan.Missing > 0 {
		fmt.Fprintf(c.Ask, "warning: %d events of that range are no longer kept\n", plan.Missing)
	}
}

func (c Command) live(plan outbox.Replay) string {
	if plan.Topic == c.Live {
		return " (live: every reader sees them)"
	}
	return ""
}

// confirm asks for the product's name before the live topic is written to.
func (c Command) confirm(plan outbox.Replay) error {
	if c.Options.Yes || plan.Topic != c.Live {
		return nil
	}
	if !isTerminal(c.In) {
		return fmt.Errorf("%w: a replay to the live topic needs --yes, or somebody to ask", ErrUsage)
	}
	fmt.Fprintf(c.Ask, "Type the product's name to publish them again on the live topic: ")
	answer, _ := bufio.NewReader(c.In).ReadString('\n') // What ended early is no name.
	if strings.TrimSpace(answer) != string(plan.Product) {
		return fmt.Errorf("%w: that is not the product's name", ErrUsage)
	}
	return nil
}

func (c Command) progress(r outbox.Replay) {
	percent := int64(100)
	if r.Matched > 0 {
		percent = 100 * r.Sent / r.Matched
	}
	c.say(r, "%d of %d (%d %%), next seq %d\n", r.Sent, r.Matched, percent, r.NextSeq)
}

// say prints the line, or the replay as one JSON line.
func (c Command) say(r outbox.Replay, format string, args ...any) {
	if c.Options.JSON {
		_ = json.NewEncoder(c.Out).Encode(r) // For a person or a pipe that may be gone.
		return
	}
	fmt.Fprintf(c.Out, format, args...)
}
