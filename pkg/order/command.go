package order

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"hanjul/pkg/keyring"
	"hanjul/pkg/product"
)

// CommandVersion is the version of the commands' JSON that this build writes and understands, but for kinds that came later: they
// carry the version that brought them, so that a consumer of an earlier build waits for its successor instead of parking them (F20).
const CommandVersion = 1

// dropVersion brought the drop, directVersion the place without a pass.
const (
	dropVersion   = 2
	directVersion = 3
)

// ErrVersion says that the message is of a version this build does not know: wait and alarm, never park (F20).
var ErrVersion = errors.New("unknown version")

// ErrMAC says that a command's MAC is missing or wrong.
var ErrMAC = errors.New("command mac does not verify")

// Kind is what a command asks of a product.
type Kind string

// The kinds of commands on the topic orders. A place carries its pass; a place that was ordered directly, while the queue was off, and
// every other kind carry a MAC (F31).
const (
	KindPlace     Kind = "place"
	KindCancel    Kind = "cancel"
	KindAdjust    Kind = "adjust"
	KindLoadStock Kind = "load_stock"
	KindVoid      Kind = "void"
	KindDrop      Kind = "drop"
)

// version is that of a command of the kind.
func (k Kind) version() int {
	if k == KindDrop {
		return dropVersion
	}
	return CommandVersion
}

// Command is the value of one record on the topic orders; its key is the product. Which fields a kind needs is checked
// by Validate. The bytes of a place are made once, kept as the intent and sent again unchanged.
type Command struct {
	Version        int              `json:"v"`
	Kind           Kind             `json:"kind"`
	ID             string           `json:"command_id"` // a place's is its order id
	Product        product.ID       `json:"product"`
	OrderID        ID               `json:"order_id,omitempty"`
	User           product.UserID   `json:"user,omitempty"`
	UserHash       product.UserHash `json:"user_hash,omitempty"`
	Place          product.Place    `json:"place,omitempty"`
	Quantity       int              `json:"quantity,omitempty"`
	IdempotencyKey string           `json:"idempotency_key,omitempty"`
	Pass           string           `json:"pass,omitempty"`
	DeadlineMS     int64            `json:"deadline_ms,omitempty"` // compared with the record's own timestamp (F10)
	Delta          int64            `json:"delta,omitempty"`       // units added to the total by an adjust
	AtMS           int64            `json:"at_ms"`                 // when it was made, for people and metrics only
	Traceparent    string           `json:"traceparent,omitempty"`
	KeyID          string           `json:"kid,omitempty"`
	MAC            string           `json:"mac,omitempty"`
}

// Direct says that the command is a place without a pass, which its user's Idempotency-Key stands for (F16).
func (c Command) Direct() bool {
	return c.Kind == KindPlace && c.Pass == "" && c.Place == 0 && c.IdempotencyKey != ""
}

// version is that of this command.
func (c Command) version() int {
	if c.Direct() {
		return directVersion
	}
	return c.Kind.version()
}

// Encode is the command's JSON: the same bytes for the same command.
func (c Command) Encode() ([]byte, error) {
	c.Version = c.version()
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode command %s: %w", c.ID, err)
	}
	return b, nil
}

// Sign returns the command with its MAC under the key. Not for a place with a pass, which vouches for it.
func (c Command) Sign(key keyring.Key) (Command, error) {
	c.Version, c.KeyID, c.MAC = c.version(), key.ID(), ""
	unsigned, err := c.Encode()
	if err != nil {
		return Command{}, err
	}
	c.MAC = base64.RawURLEncoding.EncodeToString(key.Sum(unsigned))
	return c, nil
}

// Verify checks the MAC; ErrMAC when it is missing, of an unknown key, or wrong.
func (c Command) Verify(keys keyring.Ring) error {
	key, err := keys.Find(c.KeyID)
	if err != nil {
		return fmt.Errorf("command %s: %w: %w", c.ID, ErrMAC, err)
	}
	mac, err := base64.RawURLEncoding.DecodeString(c.MAC)
	if err != nil {
		return fmt.Errorf("command %s: %w", c.ID, ErrMAC)
	}
	c.MAC = ""
	unsigned, err := c.Encode()
	if err != nil {
		return err
	}
	if !key.Equal(unsigned, mac) {
		return fmt.Errorf("command %s: %w", c.ID, ErrMAC)
	}
	return nil
}

// DecodeCommand reads a record's value. ErrVersion for a version of a later build; any other error means that the bytes
// are no command, and names what was wrong. Where they are JSON of a command and only a field is missing or out of range, the
// command is returned beside the error, so that it can be verified and set aside under its id. It checks the fields of the kind,
// not the pass or the MAC.
func DecodeCommand(b []byte) (Command, error) {
	var c Command
	if err := json.Unmarshal(b, &c); err != nil || c.Version < 1 || c.Version > c.version() {
		return decodeOdd(b)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("decode command: %w", err)
	}
	return c, nil
}

// decodeOdd says what is wrong with bytes that are not a command of this build's: the version comes first, since a later one may
// have fields of other types.
func decodeOdd(b []byte) (Command, error) {
	var head struct {
		Version *int            `json:"v"`
		Kind    json.RawMessage `json:"kind"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return Command{}, fmt.Errorf("decode command: %w", err)
	}
	if head.Version == nil {
		return Command{}, fmt.Errorf("decode command: v: expected a number: %w", product.ErrInvalid)
	}
	if kind := Kind(strings.Trim(string(head.Kind), `"`)); *head.Version > kind.version() {
		return Command{}, fmt.Errorf("decode command: version %d: %w", *head.Version, ErrVersion)
	}
	var c Command
	if err := json.Unmarshal(b, &c); err != nil {
		return Command{}, fmt.Errorf("decode command: %w", err)
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("decode command: %w", err)
	}
	return c, nil
}

// Validate checks that the fields which the kind needs are there and in range; each fault names its field.
func (c Command) Validate() error {
	var faults []error
	fault := func(ok bool, field, expected string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s: expected %s: %w", field, expected, product.ErrInvalid))
		}
	}
	fault(c.Version == c.version(), "v", strconv.Itoa(c.version()))
	fault(c.ID != "" && len(c.ID) <= 128, "command_id", "1-128 characters")
	if _, err := product.ParseID(string(c.Product)); err != nil {
		faults = append(faults, err)
	}
	needsOrder, needsUser := false, false
	switch c.Kind {
	case KindPlace:
		needsOrder, needsUser = true, true
		fault(c.ID == string(c.OrderID), "command_id", "the order id of a place")
		fault(c.Quantity >= 1 && c.Quantity <= 1000, "quantity", "1 to 1000")
		fault(c.DeadlineMS > 0, "deadline_ms", "milliseconds since 1970")
		if !c.Direct() {
			fault(c.Place > 0, "place", "a place above 0")
			fault(c.Pass != "", "pass", "the pass")
		}
	case KindCancel:
		needsOrder, needsUser = true, true
		fault(c.Quantity >= 0, "quantity", "0 or more")
	case KindDrop:
		needsOrder, needsUser = true, true
	case KindVoid:
		needsOrder = true
		_, err := product.ParseUserHash(string(c.UserHash))
		fault(err == nil, "user_hash", "32 hex digits")
	case KindAdjust:
		fault(c.Delta != 0 && c.Delta >= -1_000_000_000 && c.Delta <= 1_000_000_000, "delta", "a whole number of units, not 0")
	case KindLoadStock:
	default:
		fault(false, "kind", "place, cancel, adjust, load_stock, void or drop")
	}
	if needsOrder {
		if _, err := ParseID(string(c.OrderID)); err != nil {
			faults = append(faults, err)
		}
	}
	if needsUser {
		if _, err := product.ParseUserID(string(c.User)); err != nil {
			faults = append(faults, err)
		}
	}
	fault(len(c.IdempotencyKey) <= 128, "idempotency_key", "at most 128 characters")
	return errors.Join(faults...)
}

// Digest tells two submits with the same pass apart (F15): the same quantity and the same Idempotency-Key (none both
// times counts as the same) give the same digest. 32 hex digits of a SHA-256.
func Digest(quantity int, idempotencyKey string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(quantity) + "|" + idempotencyKey))
	return hex.EncodeToString(sum[:16])
}
