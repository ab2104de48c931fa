package sale

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Given is a hanjul that was started elsewhere, such as by docker-compose.
type Given struct {
	APIs, Desks []string // base URLs of the storefront and of the operators' desk
	Token       string   // an operator's
	AdminAddrs  []string // host:port; none: the table has no hops that only the processes see
	Consumer    string   // the path of the order-consumer that audits
	Environ     []string // its settings, which reach the stores of that hanjul from here
	Postgres    string   // the ledger's address, one of those settings
}

// OfGiven is what a sale needs of a hanjul that was started elsewhere. There is no chaos in it: nobody here may kill its processes.
func OfGiven(g Given) Stack {
	return Stack{
		APIs: g.APIs, OperatorURLs: g.Desks, OperatorToken: g.Token, AdminAddrs: g.AdminAddrs,
		Audit: func(ctx context.Context, args []string, out io.Writer) error {
			cmd := exec.CommandContext(ctx, g.Consumer, append([]string{"audit"}, args...)...)
			cmd.Env, cmd.Stdout = g.Environ, out
			var said bytes.Buffer
			cmd.Stderr = &said
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("order-consumer audit: %w: %s", err, said.String())
			}
			return nil
		},
		Judged: func(ctx context.Context, p product.ID) ([]order.ID, error) { return judged(ctx, g.Postgres, p) },
	}
}
