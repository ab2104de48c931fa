// Package pass signs and verifies passes: short-lived JWTs (EdDSA over Ed25519) that let one person order once. The pass's
// jti is the order id. queue-api signs; queue-api and order-consumer verify, the latter with the public JWK set only.
// It imports the standard library and the other contracts only.
package pass

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Issuer is the iss of every pass.
const Issuer = "hanjul"

// ErrInvalid says that the text is no pass of ours: malformed, another algorithm or key, a wrong signature, or claims out of form.
var ErrInvalid = errors.New("pass is not valid")

// ErrPlaceless says that the text is a genuine pass of no place: handed out while nobody could ask the line (F39). It opens a shop that looks
// at passes only and buys no order here.
var ErrPlaceless = errors.New("pass is of no place")

// sizeMax bounds what is decoded: a 256-byte user id in JSON escapes to at most 1,536 bytes.
const sizeMax = 4096

// nonceMin is the least length of a nonce: 16 bytes in base64url.
const nonceMin = 22

// Pass is what a pass says. Expiry is information for its holder: the lease in Redis decides, and a bind compares with Redis TIME.
type Pass struct {
	User      product.UserID
	Product   product.ID
	Place     product.Place // 0 with a Nonce
	Nonce     string        // of a pass of no place: what its order id is made from; else empty
	OrderID   order.ID      // jti
	Epoch     int64         // pass_epoch: a lower one than the product's is revoked
	Admitted  time.Time
	IssuedAt  time.Time
	ExpiresAt time.Time // rounded up to the second
}

type header struct {
	Algorithm string `json:"alg"`
	Type      string `json:"typ"`
	KeyID     string `json:"kid"`
}

type claims struct {
	Issuer   string         `json:"iss"`
	Subject  product.UserID `json:"sub"`
	Product  product.ID     `json:"product"`
	Place    product.Place  `json:"place"`
	Nonce    string         `json:"nonce,omitempty"`
	JWTID    order.ID       `json:"jti"`
	Epoch    int64          `json:"pass_epoch"`
	Admitted int64          `json:"adm"` // milliseconds
	Issued   int64          `json:"iat"`
	Expires  int64          `json:"exp"`
}

// Signer signs passes. Safe for concurrent use.
type Signer struct {
	kid string
	key ed25519.PrivateKey
}

// NewSigner takes the key whose secret is an Ed25519 seed of 32 bytes.
func NewSigner(key keyring.Key) (*Signer, error) {
	if len(key.Secret()) != ed25519.SeedSize {
		return nil, fmt.Errorf("pass key %s: expected %d bytes of seed", key.ID(), ed25519.SeedSize)
	}
	return &Signer{key.ID(), ed25519.NewKeyFromSeed(key.Secret())}, nil
}

// Sign makes the JWT. The same pass gives the same text.
func (s *Signer) Sign(p Pass) (string, error) {
	head, err := json.Marshal(header{"EdDSA", "JWT", s.kid})
	if err != nil {
		return "", fmt.Errorf("sign pass: %w", err)
	}
	body, err := json.Marshal(claims{
		Issuer, p.User, p.Product, p.Place, p.Nonce, p.OrderID, p.Epoch, p.Admitted.UnixMilli(), p.IssuedAt.Unix(), ceilSecond(p.ExpiresAt),
	})
	if err != nil {
		return "", fmt.Errorf("sign pass: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(s.key, []byte(text))), nil
}

// Told is the pass as its text says it, and as Verify returns it: times are as exact as there, and the expiry is rounded up.
func (p Pass) Told() Pass {
	p.Admitted, p.IssuedAt = time.UnixMilli(p.Admitted.UnixMilli()), time.Unix(p.IssuedAt.Unix(), 0)
	p.ExpiresAt = time.Unix(ceilSecond(p.ExpiresAt), 0)
	return p
}

// Verifier returns what verifies this signer's passes.
func (s *Signer) Verifier() Verifier {
	return Verifier{s.kid: s.key.Public().(ed25519.PublicKey)}
}

func ceilSecond(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// Verifier holds public keys by key id. Safe for concurrent use.
type Verifier map[string]ed25519.PublicKey

// Verify checks the signature and the form of the claims, never the expiry, and returns what the pass says; ErrInvalid otherwise, and
// ErrPlaceless together with what it says for a genuine pass of no place. The caller compares user, product and expiry with its own.
func (v Verifier) Verify(text string) (Pass, error) {
	s, err := v.parse(text, nil)
	if err != nil || !s.verify() {
		return Pass{}, ErrInvalid
	}
	return s.pass, s.pass.placeless()
}

// placeless is ErrPlaceless where it is of no place.
func (p Pass) placeless() error {
	if p.Place == 0 {
		return ErrPlaceless
	}
	return nil
}

// Together says that every text carries a valid signature of the key. No means that one of them may be invalid.
type Together func(key ed25519.PublicKey, texts, signatures [][]byte) bool

// VerifyMany verifies each of the texts as Verify does, and gives its answer at the same index. Those of one key are asked for together
// first, and each alone only when that says no: one forged pass among many costs time and nothing else.
func (v Verifier) VerifyMany(texts []string, together Together) ([]Pass, []error) {
	passes, faults := make([]Pass, len(texts)), make([]error, len(texts))
	all := make([]signed, len(texts))
	ofKey := map[string][]int{}
	keys := map[string]ed25519.PublicKey{} // by the header's text, which is the same for all passes of a key
	for i, text := range texts {
		if all[i], faults[i] = v.parse(text, keys); faults[i] == nil {
			ofKey[string(all[i].key)] = append(ofKey[string(all[i].key)], i)
		}
	}
	for key, indexes := range ofKey {
		signedTexts, signatures := make([][]byte, len(indexes)), make([][]byte, len(indexes))
		for n, i := range indexes {
			signedTexts[n], signatures[n] = all[i].text, all[i].signature
		}
		genuine := len(indexes) > 1 && together(ed25519.PublicKey(key), signedTexts, signatures)
		for _, i := range indexes {
			if genuine || all[i].verify() {
				passes[i], faults[i] = all[i].pass, all[i].pass.placeless()
			} else {
				faults[i] = ErrInvalid
			}
		}
	}
	return passes, faults
}

// signed is a pass of the right form whose signature was not looked at.
type signed struct {
	pass            Pass
	key             ed25519.PublicKey
	text, signature []byte
}

func (s signed) verify() bool { return ed25519.Verify(s.key, s.text, s.signature) }

// parse reads a pass. Where met is given, it remembers there what headers say.
func (v Verifier) parse(text string, met map[string]ed25519.PublicKey) (signed, error) {
	if len(text) > sizeMax {
		return signed{}, ErrInvalid
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return signed{}, ErrInvalid
	}
	key, known := met[parts[0]]
	if !known {
		var h header
		if !decode(parts[0], &h) || h.Algorithm != "EdDSA" {
			return signed{}, ErrInvalid
		}
		if key, known = v[h.KeyID]; !known {
			return signed{}, ErrInvalid
		}
		if met != nil {
			met[parts[0]] = key
		}
	}
	var c claims
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !decode(parts[1], &c) {
		return signed{}, ErrInvalid
	}
	_, errID := order.ParseID(string(c.JWTID))
	_, errProduct := product.ParseID(string(c.Product))
	_, errUser := product.ParseUserID(string(c.Subject))
	placed := c.Place >= 1 && c.Nonce == "" || c.Place == 0 && len(c.Nonce) >= nonceMin
	if c.Issuer != Issuer || !placed || errors.Join(errID, errProduct, errUser) != nil {
		return signed{}, ErrInvalid
	}
	return signed{
		Pass{
			c.Subject, c.Product, c.Place, c.Nonce, c.JWTID, c.Epoch,
			time.UnixMilli(c.Admitted), time.Unix(c.Issued, 0), time.Unix(c.Expires, 0),
		}, key, []byte(text[:len(parts[0])+1+len(parts[1])]), signature,
	}, nil
}

func decode(part string, into any) bool {
	b, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(b, into) == nil
}

type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	KeyID     string `json:"kid"`
	X         string `json:"x"`
}

type jwkSet struct {
	Keys []jwk `json:"keys"`
}

// ParseJWKS reads a JWK set (RFC 8037: kty OKP, crv Ed25519). Keys of other types are ignored; a set without one of ours is an error.
func ParseJWKS(b []byte) (Verifier, error) {
	var set jwkSet
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&set); err != nil {
		return nil, fmt.Errorf("pass keys: expected a JWK set: %w", err)
	}
	v := Verifier{}
	for _, k := range set.Keys {
		if k.Type != "OKP" || k.Curve != "Ed25519" {
			continue
		}
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if err != nil || len(x) != ed25519.PublicKeySize || k.KeyID == "" {
			return nil, fmt.Errorf("pass keys: key %q: expected kid and x of %d bytes", k.KeyID, ed25519.PublicKeySize)
		}
		v[k.KeyID] = x
	}
	if len(v) == 0 {
		return nil, errors.New("pass keys: expected at least one key with kty OKP and crv Ed25519")
	}
	return v, nil
}
