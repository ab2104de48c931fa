package waitingroom

import (
	"context"
	"fmt"
	"strconv"

	"hanjul/pkg/product"
)

// LineSettings are a product's settings as the ledger has them, for the copy in Redis.
type LineSettings struct {
	product.Settings
	V         int64 // the ledger's settings_v; a copy of a lower or equal one changes nothing
	OpenedUS  int64 // first opening, microseconds since 1970; 0 while never opened. Never changed once set
	PassEpoch int64 // never lowered
}

// SettingsPut copies settings of a higher version into a slot that has some (F19), and tells whether it did. A slot without
// settings is opened by RestoreCommit only: ErrNotReady. Safe to repeat.
func (r *Room) SettingsPut(ctx context.Context, p product.ID, s LineSettings) (applied bool, err error) {
	if err := s.Validate(); err != nil {
		return false, fmt.Errorf("put settings of product %s: %w", p, err)
	}
	k := r.keys.Product(p)
	answer, err := r.run(ctx, r.scripts.settingsPut, p, []string{k.Settings}, s.args()...)
	if err != nil {
		return false, fmt.Errorf("put settings: %w", err)
	}
	switch answer.Text(0) {
	case "applied":
		return true, nil
	case "stale":
		return false, nil
	case "absent":
		return false, fmt.Errorf("put settings: product %s: %w", p, ErrNotReady)
	default:
		return false, broken(p, fmt.Errorf("put settings: unknown code %q", answer.Text(0)))
	}
}

// args are the 20 settings in the order that settings_put and restore_commit read them.
func (s LineSettings) args() []any {
	flag := func(on bool) string {
		if on {
			return "1"
		}
		return "0"
	}
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []any{
		whole(s.V), string(s.State), flag(s.QueueOn), strconv.FormatFloat(s.Rate, 'f', -1, 64), whole(int64(s.Burst)),
		whole(int64(s.Capacity)), whole(s.PassMS), whole(s.OrderTTLMS), whole(int64(s.MaxLen)), whole(int64(s.InflightMax)),
		whole(int64(s.UnitsPerPass)), whole(int64(s.Oversub)), whole(int64(s.MaxQuantity)), whole(int64(s.UserLimit)),
		s.Reason, whole(s.OpenedUS), whole(s.PassEpoch),
		flag(s.OrdersHalted), whole(s.AbsenceMS), whole(s.GraceMS),
	}
}
