// Package ticket signs and reads tickets: the proof of a place that a person keeps and that only we read. A ticket is no
// identity: whoever shows one must also be the user it names (F28). It imports the standard library and the other
// contracts only.
package ticket

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
)

// ErrInvalid says that the text is no ticket of ours: malformed, of an unknown key, or with a wrong MAC.
var ErrInvalid = errors.New("ticket is not valid")

// ErrExpired says that the ticket is genuine and older than its life.
var ErrExpired = errors.New("ticket has expired")

// Life is how long a ticket is honoured.
const Life = 24 * time.Hour

// Remembered is how long the line keeps what has ended there, people and judged orders: longer than any ticket lives, so that nobody
// re-enters by one.
const Remembered = Life + time.Hour

// sizeMax bounds what is decoded: product (64), user hash (32), numbers and the MAC fit in half of it.
const sizeMax = 512

// Ticket is what a ticket says.
type Ticket struct {
	Product  product.ID
	User     product.UserHash
	Place    product.Place
	IssuedAt time.Time // to the second
	// Start is the position at which the person began, from which progress counts; 0 when it is not known, as in tickets of before.
	Start int64
	// Promise is the first wait that the person was told, in seconds from the join on; 0 for none.
	Promise int64
}

// Sign makes the text: base64url(claims) "." base64url(HMAC-SHA256).
func Sign(key keyring.Key, t Ticket) (string, error) {
	body, err := json.Marshal(claims{key.ID(), t.Product, t.User, t.Place, t.IssuedAt.Unix(), t.Start, t.Promise})
	if err != nil {
		return "", fmt.Errorf("sign ticket: %w", err)
	}
	encoded := base64.RawURLEncoding.EncodeToString(body)
	return encoded + "." + base64.RawURLEncoding.EncodeToString(key.Sum([]byte(encoded))), nil
}

// Verify reads a ticket: ErrInvalid or ErrExpired otherwise. The caller compares product and user with the call's own.
func Verify(keys keyring.Ring, text string, now time.Time) (Ticket, error) {
	if len(text) > sizeMax {
		return Ticket{}, ErrInvalid
	}
	encoded, sum, found := bytes.Cut([]byte(text), []byte{'.'})
	var body, mac [sizeMax]byte
	n, err := base64.RawURLEncoding.Decode(body[:], encoded)
	m, err2 := base64.RawURLEncoding.Decode(mac[:], sum)
	if !found || err != nil || err2 != nil {
		return Ticket{}, ErrInvalid
	}
	c, err := readClaims(string(body[:n]))
	if err != nil {
		return Ticket{}, ErrInvalid
	}
	key, err := keys.Find(c.KeyID)
	if err != nil || !key.Equal(encoded, mac[:m]) {
		return Ticket{}, ErrInvalid
	}
	t := Ticket{c.Product, c.User, c.Place, time.Unix(c.Issued, 0), c.Start, c.Promise}
	if now.Sub(t.IssuedAt) > Life {
		return Ticket{}, ErrExpired
	}
	return t, nil
}
