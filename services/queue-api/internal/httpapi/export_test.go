package httpapi

import (
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

// StreamToken makes a token that expires when the test wants.
func StreamToken(keys keyring.Ring, user product.UserID, t ticket.Ticket, expires time.Time) string {
	return newStreamTokens(keys).seal(streamToken{user: user, ticket: t, expires: expires})
}
