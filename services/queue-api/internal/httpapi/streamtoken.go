package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

// How long a token opens a stream. Within a step the token of the same standing is the same text, so it lives for at least the difference.
const (
	streamTokenLife = time.Minute
	streamTokenStep = 15 * time.Second
)

// streamTokenMax bounds what is decoded: the key's id (32), a product (64), a user (256) and numbers fit in it.
const streamTokenMax = 1024

// What a key of tickets is turned into two others for, so that no token is a ticket and no ticket a token.
const (
	streamTokenSeals = "hanjul stream token 1: seal"
	streamTokenNonce = "hanjul stream token 1: nonce"
)

var (
	errStreamTokenInvalid = errors.New("the token of the stream is not valid")
	errStreamTokenExpired = errors.New("the token of the stream has expired")
	errStreamTokenForeign = errors.New("the token is for another product's stream")
)

// streamTokens seals and opens what stands in a stream_url: who the stream is for, with the ticket that the person was given beside it, so
// that the stream can tell what a poll tells. It is a bearer's secret for a minute, in a place that gets logged, where a person's id must
// not be read; and no cookie and no header is needed with it, since a browser's EventSource sends none. Hence it is encrypted, by keys made
// from those of tickets, and rotates with them. Safe for concurrent use.
type streamTokens struct {
	seals []seal // the first seals
}

type seal struct {
	id    string
	aead  cipher.AEAD
	nonce keyring.Key // nonces come from the sealed text, so that a text has one token
}

// streamToken is what a token says.
type streamToken struct {
	user    product.UserID
	ticket  ticket.Ticket // but for the hash of the user
	expires time.Time     // to the second
}

func newStreamTokens(keys keyring.Ring) *streamTokens {
	t := &streamTokens{}
	for _, k := range keys {
		block, err := aes.NewCipher(k.Derive(streamTokenSeals).Secret())
		if err == nil {
			var aead cipher.AEAD
			if aead, err = cipher.NewGCM(block); err == nil {
				t.seals = append(t.seals, seal{k.ID(), aead, k.Derive(streamTokenNonce)})
			}
		}
		if err != nil {
			panic(err) // of a key that has not 32 bytes, which Derive does not make
		}
	}
	return t
}

// streamTokenExpiry is when a token that is made now expires: at the end of a step.
func streamTokenExpiry(now time.Time) time.Time {
	return now.Truncate(streamTokenStep).Add(streamTokenLife)
}

// seal makes the text: key id "." base64url(nonce, sealed).
func (t *streamTokens) seal(s streamToken) string {
	plain := make([]byte, 0, 128)
	for _, n := range []int64{
		s.expires.Unix(), int64(s.ticket.Place), s.ticket.IssuedAt.Unix(), s.ticket.Start, s.ticket.Promise, int64(len(s.ticket.Product)),
	} {
		plain = binary.AppendVarint(plain, n)
	}
	plain = append(append(plain, s.ticket.Product...), s.user...)
	by := t.seals[0]
	nonce := by.nonce.Sum(plain)[:by.aead.NonceSize()]
	return by.id + "." + base64.RawURLEncoding.EncodeToString(by.aead.Seal(nonce, nonce, plain, []byte(by.id)))
}

// open reads a token: errStreamTokenInvalid or errStreamTokenExpired otherwise.
func (t *streamTokens) open(text string, now time.Time) (streamToken, error) {
	id, encoded, found := strings.Cut(text, ".")
	if !found || len(text) > streamTokenMax {
		return streamToken{}, errStreamTokenInvalid
	}
	sealed, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return streamToken{}, errStreamTokenInvalid
	}
	for _, by := range t.seals {
		if by.id != id || len(sealed) < by.aead.NonceSize() {
			continue
		}
		nonce, rest := sealed[:by.aead.NonceSize()], sealed[by.aead.NonceSize():]
		plain, err := by.aead.Open(nil, nonce, rest, []byte(id))
		if err != nil {
			return streamToken{}, errStreamTokenInvalid
		}
		return readStreamToken(plain, now)
	}
	return streamToken{}, errStreamTokenInvalid
}

func readStreamToken(plain []byte, now time.Time) (streamToken, error) {
	var n [6]int64
	for i := range n {
		value, size := binary.Varint(plain)
		if size <= 0 {
			return streamToken{}, errStreamTokenInvalid
		}
		n[i], plain = value, plain[size:]
	}
	if n[5] < 0 || n[5] > int64(len(plain)) {
		return streamToken{}, errStreamTokenInvalid
	}
	s := streamToken{
		user: product.UserID(plain[n[5]:]), expires: time.Unix(n[0], 0),
		ticket: ticket.Ticket{
			Product: product.ID(plain[:n[5]]), Place: product.Place(n[1]), IssuedAt: time.Unix(n[2], 0), Start: n[3], Promise: n[4],
		},
	}
	if !now.Before(s.expires) {
		return streamToken{}, errStreamTokenExpired
	}
	return s, nil
}
