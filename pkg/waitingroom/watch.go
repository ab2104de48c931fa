package waitingroom

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"hanjul/pkg/product"
	"hanjul/pkg/redisconn"
)

// WatchMax is the most changes, or places of a slice, that one look tells.
const WatchMax = 1000

// MoveKind is how a line changed.
type MoveKind byte

// The kinds. A reader that holds the places of a line and makes the moves in order, each of which may be made twice, holds the line.
const (
	MoveIn    MoveKind = '+' // the place waits
	MoveOut   MoveKind = '-' // the place waits no more
	MoveFront MoveKind = '<' // neither the place nor any below it waits
	MoveAnew  MoveKind = '*' // an incarnation began; what the reader holds may be of before a loss
)

// Move is one change of a line.
type Move struct {
	Kind  MoveKind
	Place product.Place // of MoveAnew: the incarnation
}

// Changed is a product's public state with what changed in its line.
type Changed struct {
	View ProductView
	// Known is false where the place in the stream is not known any more, because it was trimmed, lost or rolled back: the reader begins
	// again with WaitingSlice.
	Known bool
	Moves []Move
	Last  string // to follow from
	More  bool   // there are later changes than these: the state is of a later moment
}

// Slice is a part of a line, in order.
type Slice struct {
	View   ProductView
	Places []product.Place
	Last   string // the newest change of all; follow from the one of the first slice
	More   bool   // there may be others behind
}

// Watch tells what changed in the line after the change that a reader knows, at most WatchMax changes, with the product's state
// of the same instant. ErrNotReady without settings. It changes nothing.
func (r *Room) Watch(ctx context.Context, p product.ID, after string) (Changed, error) {
	answer, v, err := r.watch(ctx, p, after, WatchMax, 0)
	if err != nil {
		return Changed{}, fmt.Errorf("watch: %w", err)
	}
	moves, err := moves(answer.Text(5))
	if err != nil {
		return Changed{}, broken(p, fmt.Errorf("watch: %w", err))
	}
	c := Changed{View: v, Known: answer.Int(2) == 1, Moves: moves, Last: answer.Text(3), More: answer.Int(4) == 1}
	if err := answer.Err(); err != nil {
		return Changed{}, broken(p, fmt.Errorf("watch: %w", err))
	}
	return c, nil
}

// WaitingSlice tells at most WatchMax places behind one (0 at first), with the product's state of the same instant. A reader who
// reads slices to the end and then follows from the first slice's last change holds the line: whoever moved meanwhile is among the changes.
// ErrNotReady without settings. It changes nothing.
func (r *Room) WaitingSlice(ctx context.Context, p product.ID, behind product.Place) (Slice, error) {
	answer, v, err := r.watch(ctx, p, "", 0, behind)
	if err != nil {
		return Slice{}, fmt.Errorf("slice of the line: %w", err)
	}
	s := Slice{View: v, Last: answer.Text(3), More: answer.Int(4) == 1}
	for text := range parts(answer.Text(5)) {
		place, err := product.ParsePlace(text)
		if err != nil {
			return Slice{}, broken(p, fmt.Errorf("slice of the line: %w", err))
		}
		s.Places = append(s.Places, place)
	}
	if err := answer.Err(); err != nil {
		return Slice{}, broken(p, fmt.Errorf("slice of the line: %w", err))
	}
	return s, nil
}

func (r *Room) watch(ctx context.Context, p product.ID, after string, most int, from product.Place) (redisconn.Answer, ProductView, error) {
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.watch, p, []string{
		k.Settings, k.Clock, k.Waiting, k.Away, k.Active, k.Intents, k.Stock, k.Tally, k.Changes,
	}, after, strconv.Itoa(most), from.String(), strconv.Itoa(WatchMax))
	if err != nil {
		return answer, ProductView{}, err
	}
	if answer.Text(0) == "absent" {
		return answer, ProductView{}, fmt.Errorf("product %s: %w", p, ErrNotReady)
	}
	return answer, view(answer.List(1)), nil
}

// parts goes through a list with commas; an empty text is an empty list.
func parts(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for text != "" {
			part, rest, _ := strings.Cut(text, ",")
			if !yield(part) {
				return
			}
			text = rest
		}
	}
}

func moves(text string) ([]Move, error) {
	if text == "" {
		return nil, nil
	}
	moves := make([]Move, 0, strings.Count(text, ",")+1)
	for part := range parts(text) {
		if part == "" || !strings.Contains("+-<*", part[:1]) {
			return nil, fmt.Errorf("unknown change %q", part)
		}
		place, err := product.ParsePlace(part[1:])
		if err != nil {
			return nil, fmt.Errorf("change %q: %w", part, err)
		}
		moves = append(moves, Move{MoveKind(part[0]), place})
	}
	return moves, nil
}
