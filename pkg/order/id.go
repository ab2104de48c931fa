// Package order holds the wire contracts of the order path: order ids, commands on the topic orders, events on the topic
// order-events, statuses and the closed list of reasons. It imports the standard library and the other contracts only and does
// no I/O. Old forms stay decodable for ever; a golden sample guards each.
package order

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
)

// ID is an order's id in the text form of a UUID, lower case. It is a function of the place (see DeriveID), so that one
// pass can buy at most one order whatever Redis forgets; or, without a pass, of the user's own key (see DeriveDirectID).
type ID string

// ParseID checks an order id that came from outside; upper-case digits are not accepted, so that one order has one text.
func ParseID(s string) (ID, error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return "", fmt.Errorf("order_id: expected a lower-case UUID: %w", product.ErrInvalid)
	}
	for i := range len(s) {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			continue
		}
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return "", fmt.Errorf("order_id: expected a lower-case UUID: %w", product.ErrInvalid)
		}
	}
	return ID(s), nil
}

// DeriveID computes the order id of a place: a UUID in the shape of version 7 whose time is the join (opening plus the
// place's microseconds) and whose 74 other bits are HMAC-SHA256(K_order, "place|product|user|place"). The same place
// gives the same id for as long as the key lives. openedUS is the product's constant opening time in microseconds.
func DeriveID(key keyring.Key, p product.ID, u product.UserHash, place product.Place, openedUS int64) ID {
	sum := key.Sum([]byte("place|" + string(p) + "|" + string(u) + "|" + place.String()))
	return shape(sum, uint64(openedUS/1000+place.Low()/1000))
}

// DeriveNonceID computes the order id of a pass of no place from its nonce (F39), in the same shape, with the time at which the pass was
// handed out. No order is ever bought under it here; a shop that keeps its own orders tells two of them apart by it.
func DeriveNonceID(key keyring.Key, p product.ID, u product.UserHash, nonce string, at time.Time) ID {
	return shape(key.Sum([]byte("nonce|"+string(p)+"|"+string(u)+"|"+nonce)), uint64(at.UnixMilli()))
}

// shape is a UUID in the shape of version 7.
func shape(sum []byte, ms uint64) ID {
	var b [16]byte
	copy(b[6:], sum[:10])
	var t [8]byte
	binary.BigEndian.PutUint64(t[:], ms<<16)
	copy(b[:6], t[:6])
	b[6] = 0x70 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	return ID(format(b))
}

// DeriveDirectID computes the order id of an order without a pass (F16): a UUID in the shape of version 8 whose 122 other bits are
// HMAC-SHA256(K_order, "key|product|user|idempotency key"). The same key of the same user gives the same id for as long as K_order
// lives. No place gives one of these: another text is hashed, and the version is another.
func DeriveDirectID(key keyring.Key, p product.ID, u product.UserHash, idempotencyKey string) ID {
	sum := key.Sum([]byte("key|" + string(p) + "|" + string(u) + "|" + idempotencyKey))
	var b [16]byte
	copy(b[:], sum)
	b[6] = 0x80 | b[6]&0x0f
	b[8] = 0x80 | b[8]&0x3f
	return ID(format(b))
}

// format is the text form of 16 bytes, as RFC 9562 prints a UUID.
func format(b [16]byte) string {
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
