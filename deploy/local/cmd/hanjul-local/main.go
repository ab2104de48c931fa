// Command hanjul-local sets a machine up and runs hanjul on it.
package main

import (
	"context"
	"fmt"
	"os"

	"hanjul/deploy/local"
)

func main() {
	if err := local.Ensure(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
