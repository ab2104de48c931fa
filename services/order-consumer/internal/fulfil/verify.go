package fulfil

import (
	"errors"

	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/services/order-consumer/internal/signatures"
)

// Verifier knows whose commands count: places by the pass they carry, everything else by its MAC (F31). The topic is no back door: who
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

// read decodes and verifies records, and gives its answers at the same indexes. Its one error is order.ErrVersion; everything else that
// is wrong comes back as an input to park. Verification comes before identity: only a command that verifies is parked under its id. A pass's
// expiry is not looked at: the lease in Redis decided at bind, and the deadline bounds what came after.
func (v Verifier) read(records []kafka.Message) ([]ledger.Input, []error) {
	inputs, faults := make([]ledger.Input, len(records)), make([]error, len(records))
	commands, decoded := make([]order.Command, len(records)), make([]error, len(records))
	var passes []string
	for i, m := range records {
		commands[i], decoded[i] = order.DecodeCommand(m.Value)
		passes = append(passes, commands[i].Pass)
	}
	shown, refused := v.Passes.VerifyMany(passes, signatures.Verify)
	for i, m := range records {
		inputs[i] = ledger.Input{Offset: m.Offset, At: m.Time, Key: m.Key, Raw: m.Value}
		if errors.Is(decoded[i], order.ErrVersion) {
			faults[i] = decoded[i]
			continue
		}
		v.judgeable(&inputs[i], commands[i], decoded[i], shown[i], refused[i])
	}
	return inputs, faults
}

// judgeable completes the input of one record: a command for the judge, or why it is parked.
func (v Verifier) judgeable(in *ledger.Input, c order.Command, decoded error, shown pass.Pass, refused error) {
	if decoded != nil && c.Kind == "" {
		in.Park = &ledger.Park{Reason: ParkUndecodable, Product: named(in.Key)}
		return
	}
	if reason := v.check(in.Key, c, shown, refused); reason != "" {
		in.Park = &ledger.Park{Reason: reason, Product: named(in.Key)}
		return
	}
	if decoded != nil {
		in.Park = &ledger.Park{Reason: ParkInvalid, Product: c.Product}
		if c.Kind == order.KindPlace {
			in.Park.OrderID = c.OrderID
		} else {
			in.Park.CommandID = c.ID
		}
		return
	}
	in.Command = c
	switch c.Kind {
	case order.KindVoid:
		in.User = c.UserHash
	case order.KindPlace, order.KindCancel, order.KindDrop:
		in.User = product.HashUser(v.Users, c.User)
	}
}

// check is the reason why a command does not verify, or "". shown is what its pass says, refused why that is none.
func (v Verifier) check(key []byte, c order.Command, shown pass.Pass, refused error) string {
	if string(key) != string(c.Product) {
		return ParkWrongKey
	}
	if c.Kind != order.KindPlace || c.Direct() {
		if c.Verify(v.Commands) != nil {
			return ParkMACInvalid
		}
		return ""
	}
	switch {
	case refused != nil:
		return ParkPassInvalid
	case shown.User != c.User || shown.Product != c.Product || shown.OrderID != c.OrderID || shown.Place != c.Place:
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
