package operator

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"hanjul/pkg/ledger"
	"hanjul/pkg/product"
)

// Numbers are what only Redis knows of a product at this moment.
type Numbers struct {
	Waiting int64 `json:"waiting"`
	Active  int64 `json:"active"`
	Held    int64 `json:"held"`
}

// Live reads the numbers of a product.
type Live func(ctx context.Context, p product.ID) (Numbers, error)

// liveWithin bounds the look at Redis: the books' side of the answer must not wait for it.
const liveWithin = time.Second

// changed is the answer to a change: what is in force now, and what is on its way.
type changed struct {
	view
	Created   bool     `json:"created"`
	CommandID *string  `json:"command_id"` // the command that will be judged; null when none was sent
	Repeat    bool     `json:"repeat"`     // this request was done before; the answer is the one of then
	Warnings  []string `json:"warnings"`

	BannedUntil *time.Time `json:"banned_until,omitempty"` // of an eviction
}

// view is a product as operators see it.
type view struct {
	Product   product.ID       `json:"product"`
	Settings  product.Settings `json:"settings"`
	SettingsV int64            `json:"settings_v"`
	LineInc   int              `json:"line_inc"`
	PassEpoch int64            `json:"pass_epoch"` // passes of a lower one are revoked
	OpenedAt  *time.Time       `json:"opened_at"`  // null until the first opening
	Stock     stock            `json:"stock"`
}

type stock struct {
	Total int64 `json:"total"`
	Sold  int64 `json:"sold"`
	Left  int64 `json:"left"`
	Seq   int64 `json:"seq"`
}

func newView(row ledger.ProductRow) view {
	v := view{
		Product: row.ID, Settings: row.Settings, SettingsV: row.SettingsV, LineInc: row.LineInc, PassEpoch: row.PassEpoch,
		Stock: stock{row.Total, row.Sold, row.Total - row.Sold, row.Seq},
	}
	if row.OpenedUS > 0 {
		at := time.UnixMicro(row.OpenedUS).UTC()
		v.OpenedAt = &at
	}
	return v
}

func newChanged(result ledger.ActionResult, warnings []string) changed {
	c := changed{view: newView(result.Product), Created: result.Created, Repeat: result.Repeat, Warnings: append([]string{}, warnings...)}
	if !result.BannedUntil.IsZero() {
		c.BannedUntil = &result.BannedUntil
	}
	if result.CommandID != "" {
		c.CommandID = &result.CommandID
	}
	return c
}

// pageMost is the most products of one page.
const pageMost = 1000

// list shows all products, page by page, as the books have them.
func (d *Desk) list(w http.ResponseWriter, r *http.Request) {
	var f faults
	query := r.URL.Query()
	limit, after := 100, product.ID("")
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > pageMost {
			f.add("limit", "expected a whole number from 1 to %d", pageMost)
		}
		limit = n
	}
	if text := query.Get("after"); text != "" {
		id, err := product.ParseID(text)
		if err != nil {
			f.add("after", "expected the id of a product")
		}
		after = id
	}
	if err := f.err(); err != nil {
		d.write(w, r, err)
		return
	}
	rows, err := d.Ledger.ProductsAfter(r.Context(), after, limit)
	if err != nil {
		d.write(w, r, err)
		return
	}
	answer := struct {
		Products []view      `json:"products"`
		Next     *product.ID `json:"next"` // for after; null on the last page
	}{Products: []view{}}
	for _, row := range rows {
		answer.Products = append(answer.Products, newView(row))
	}
	if len(rows) == limit {
		answer.Next = &rows[limit-1].ID
	}
	writeJSON(w, http.StatusOK, answer)
}

// read shows a product: the books' side always, the line's side where Redis answers.
func (d *Desk) read(w http.ResponseWriter, r *http.Request) {
	p, err := productOf(r)
	if err != nil {
		d.write(w, r, err)
		return
	}
	row, err := d.Ledger.Product(r.Context(), p)
	if err != nil {
		d.write(w, r, err)
		return
	}
	answer := struct {
		view
		Line       *Numbers `json:"line"`
		LineReason *string  `json:"line_reason"`
	}{view: newView(row)}
	ctx, cancel := context.WithTimeout(r.Context(), liveWithin)
	defer cancel()
	if numbers, err := d.Live(ctx, p); err != nil {
		reason := "unavailable"
		answer.LineReason = &reason
		d.logger.LogAttrs(r.Context(), slog.LevelWarn, "live numbers not read", slog.String("product_id", string(p)), slog.Any("err", err))
	} else {
		answer.Line = &numbers
	}
	tag(w, row)
	writeJSON(w, http.StatusOK, answer)
}
