package product

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// State is where a product stands in its sale.
type State string

// The states of a product, and what each lets through.
const (
	NotOpen State = "not_open" // no join, no admission, no order
	Open    State = "open"     // all
	Paused  State = "paused"   // join and order, no admission
	Closed  State = "closed"   // orders of unexpired passes only
)

// Settings are what operators choose for a product. The ledger keeps them with a version; the scheduler copies them to
// Redis; a copy of a lower version never overwrites a higher one. Integers carry their unit in the name.
type Settings struct {
	State        State   `json:"state"`
	QueueOn      bool    `json:"queue_on"`
	Rate         float64 `json:"rate"`           // admissions per second, above 0, at most 100,000
	Burst        int     `json:"burst"`          // admissions at once after idling; at least 1
	Capacity     int     `json:"capacity"`       // most active passes at a time; at least 1
	PassMS       int64   `json:"pass_ms"`        // life of an unused pass, from its admission
	OrderTTLMS   int64   `json:"order_ttl_ms"`   // an order sent later than this after its bind is rejected(expired)
	MaxLen       int     `json:"max_len"`        // longest line
	InflightMax  int     `json:"inflight_max"`   // most orders bound and not yet judged
	UnitsPerPass int     `json:"units_per_pass"` // usual quantity, for admission by stock
	Oversub      int     `json:"oversub"`        // units that may be admitted for beyond the stock
	MaxQuantity  int     `json:"max_quantity"`   // most units of one order
	UserLimit    int     `json:"user_limit"`     // most confirmed units of one user (I5)
	OrdersHalted bool    `json:"orders_halted"`  // no new order is bound, and pass time stands still
	AbsenceMS    int64   `json:"absence_ms"`     // a waiter not heard for longer is away; 0: nobody becomes away
	GraceMS      int64   `json:"grace_ms"`       // how long somebody away keeps the place
	Reason       string  `json:"reason"`         // shown to people while paused, closed or halted
}

// DefaultSettings are the settings of a new product: not open, with the defaults of the documentation.
func DefaultSettings() Settings {
	return Settings{
		State: NotOpen, QueueOn: true,
		Rate: 50, Burst: 5, Capacity: 100,
		PassMS: (5 * time.Minute).Milliseconds(), OrderTTLMS: (10 * time.Minute).Milliseconds(),
		MaxLen: 1_000_000, InflightMax: 10_000,
		UnitsPerPass: 1, Oversub: 0, MaxQuantity: 4, UserLimit: 4,
		AbsenceMS: (5 * time.Minute).Milliseconds(), GraceMS: (10 * time.Minute).Milliseconds(),
	}
}

// UnmarshalJSON reads settings as the ledger keeps them. Rows that an older version wrote lack the members that came later; those
// take their defaults, so that reading an old row and validating it again does not fail.
func (s *Settings) UnmarshalJSON(b []byte) error {
	type plain Settings // without this method
	read := plain(DefaultSettings())
	if err := json.Unmarshal(b, &read); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	*s = Settings(read)
	return nil
}

// Validate returns every fault at once, each naming its field and what was expected; each wraps ErrInvalid.
func (s Settings) Validate() error {
	var faults []error
	fault := func(ok bool, field, expected string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s: expected %s: %w", field, expected, ErrInvalid))
		}
	}
	switch s.State {
	case NotOpen, Open, Paused, Closed:
	default:
		fault(false, "state", "not_open, open, paused or closed")
	}
	fault(s.Rate > 0 && s.Rate <= 100_000, "rate", "a number above 0, at most 100000 (per second)")
	fault(s.Burst >= 1 && s.Burst <= 100_000, "burst", "a whole number from 1 to 100000")
	fault(s.Capacity >= 1 && s.Capacity <= 1_000_000, "capacity", "a whole number from 1 to 1000000")
	fault(s.PassMS >= 1_000 && s.PassMS <= 86_400_000, "pass_ms", "1000 to 86400000 (1 s to 24 h)")
	fault(s.OrderTTLMS >= 1_000 && s.OrderTTLMS <= 86_400_000, "order_ttl_ms", "1000 to 86400000 (1 s to 24 h)")
	fault(s.MaxLen >= 1 && s.MaxLen <= 10_000_000, "max_len", "a whole number from 1 to 10000000")
	fault(s.InflightMax >= 1 && s.InflightMax <= 1_000_000, "inflight_max", "a whole number from 1 to 1000000")
	fault(s.UnitsPerPass >= 1 && s.UnitsPerPass <= 1_000, "units_per_pass", "a whole number from 1 to 1000")
	fault(s.Oversub >= 0 && s.Oversub <= 1_000_000, "oversub", "a whole number from 0 to 1000000")
	fault(s.MaxQuantity >= 1 && s.MaxQuantity <= 1_000, "max_quantity", "a whole number from 1 to 1000")
	fault(s.UserLimit >= 1 && s.UserLimit <= 1_000_000, "user_limit", "a whole number from 1 to 1000000")
	// Hidden tabs are throttled to one poll a minute: a shorter absence would send people away who are there.
	fault(s.AbsenceMS == 0 || s.AbsenceMS >= 90_000 && s.AbsenceMS <= 86_400_000, "absence_ms", "0 (off) or 90000 to 86400000 (90 s to 24 h)")
	fault(s.GraceMS >= 1_000 && s.GraceMS <= 86_400_000, "grace_ms", "1000 to 86400000 (1 s to 24 h)")
	fault(len(s.Reason) <= 200, "reason", "at most 200 bytes")
	return errors.Join(faults...)
}
