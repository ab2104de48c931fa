package fulfil

import (
	"errors"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

// Verifier knows whose commands count: places by the pass they carry, other kinds by their MAC (F31). The topic is no back door: who
// can write to it and has no key moves nothing.
type Verifier struct {
	Passes   pass.Verifier
	Commands keyring.Ring
	Users    keyring.Key // K_user, for the hash that everything but the ledger's own column knows a user by
}

// The reasons of dead letters that are found before the judge.
const (
	ParkUndecodable = "undecodable"  // the value is no command
	ParkWrongKey    = "wrong_key"    // the record's key is not the command's product
	ParkPassInvalid = "pass_invalid" // malformed, forged, or of a key we do not know
	ParkPassForeign = "pass_foreign" // a genuine pass of another user, product, place or order
	ParkMACInvalid  = "mac_invalid"  // missing, forged, or of a key we do not know
	ParkInvalid     = "invalid"      // verified, and a field is missing or out of range
)

// read decodes and verifies one record. Its one error is order.ErrVersion; everything else that is wrong comes back as an input to park.
// Verification comes before identity: only a command that verifies is parked under its id. A pass's expiry is not looked at: the
// lease in Redis decided at bind, and the deadline bounds what came after.
func (v Verifier) read(m kafka.Message) (ledger.Input, error) {
	in := ledger.Input{Offset: m.Offset, At: m.Time, Key: m.Key, Raw: m.Value}
	c, err := order.DecodeCommand(m.Value)
	if errors.Is(err, order.ErrVersion) {
		return in, err
	}
	if err != nil && c.Kind == "" {
		in.Park = &ledger.Park{Reason: ParkUndecodable, Product: named(m.Key)}
		return in, nil
	}
	if reason := v.check(m, c); reason != "" {
		in.Park = &ledger.Park{Reason: reason, Product: named(m.Key)}
		return in, nil
	}
	if err != nil {
		in.Park = &ledger.Park{Reason: ParkInvalid, Product: c.Product}
		if c.Kind == order.KindPlace {
			in.Park.OrderID = c.OrderID
		} else {
			in.Park.CommandID = c.ID
		}
		return in, nil
	}
	in.Command = c
	switch c.Kind {
	case order.KindVoid:
		in.User = c.UserHash
	case order.KindPlace, order.KindCancel, order.KindDrop:
		in.User = product.HashUser(v.Users, c.User)
	}
	return in, nil
}

// check is the reason why a command does not verify, or "".
func (v Verifier) check(m kafka.Message, c order.Command) string {
	if string(m.Key) != string(c.Product) {
		return ParkWrongKey
	}
	if c.Kind != order.KindPlace {
		if c.Verify(v.Commands) != nil {
			return ParkMACInvalid
		}
		return ""
	}
	p, err := v.Passes.Verify(c.Pass)
	switch {
	case err != nil:
		return ParkPassInvalid
	case p.User != c.User || p.Product != c.Product || p.OrderID != c.OrderID || p.Place != c.Place:
		return ParkPassForeign
	}
	return ""
}

// named is the product that a record's key names, or "".
func named(key []byte) product.ID {
	p, err := product.ParseID(string(key))
	if err != nil {
		return ""
	}
	return p
}
