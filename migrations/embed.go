// Package migrations holds the numbered SQL files that build the ledger's schema. It imports nothing of ours;
// `order-consumer migrate` applies them, and every binary that opens the ledger refuses an older schema.
package migrations

import "embed"

// FS holds the migrations in goose form, applied in the order of their numbers.
//
//go:embed *.sql
var FS embed.FS
