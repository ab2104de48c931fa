package sale

import (
	"context"
	"fmt"
	"time"

	"hanjul/deploy/local"
	"hanjul/pkg/product"
)

// Round is one sale of a chaos run.
type Round struct {
	Product  product.ID
	Buyers   int
	Stock    int
	Seed     uint64 // equal seeds deal equal roles, kinds and moments
	Kinds    []string
	Settings Settings
	Dir      string // for the journal
}

// Hold holds the sale of a round on a stack that the faults may strike. The product id must be new.
func (r Round) Hold(ctx context.Context, stack *local.Stack) (*Report, error) {
	target, err := Of(stack, false)
	if err != nil {
		return nil, err
	}
	if target.Faults, err = Faults(stack, r.Product, r.Seed, r.Kinds...); err != nil {
		return nil, err
	}
	selling := time.Duration((float64(r.Buyers)/500 + float64(r.Stock)/r.Settings.Rate) * float64(time.Second))
	report, err := Run(ctx, target, Config{
		Product: r.Product, Buyers: r.Buyers, Stock: r.Stock, Seed: r.Seed, Settings: r.Settings, Dir: r.Dir,
		Limit: 2*time.Minute + 2*selling,
	})
	if err != nil {
		return nil, fmt.Errorf("round with seed %d: %w", r.Seed, err)
	}
	select {
	case err := <-stack.Unexpected():
		report.Faults = append(report.Faults, fmt.Sprintf("a process ended that nobody struck: %v", err))
	default:
	}
	return report, nil
}
