package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"hanjul/pkg/commandline"
)

// productView is what the desk says of a product, as far as it is printed.
type productView struct {
	Product   string                     `json:"product"`
	Settings  map[string]json.RawMessage `json:"settings"`
	Version   int64                      `json:"settings_v"`
	Inc       int                        `json:"line_inc"`
	OpenedAt  *time.Time                 `json:"opened_at"`
	Stock     struct{ Total, Sold, Left int64 }
	Line      *struct{ Waiting, Active, Held int64 }
	CommandID *string  `json:"command_id"`
	Repeat    bool     `json:"repeat"`
	Warnings  []string `json:"warnings"`
}

// setting is the text of one setting.
func (v productView) setting(name string) string {
	var text string
	if json.Unmarshal(v.Settings[name], &text) == nil {
		return text
	}
	return string(v.Settings[name])
}

// state says where the sale stands, in few words.
func (v productView) state() string {
	state := v.setting("state")
	if v.setting("queue_on") == "false" {
		state += ", queue off"
	}
	if v.setting("orders_halted") == "true" {
		state += ", orders halted"
	}
	return state
}

// read fills a view from an answer, or prints the answer as it is for machines.
func read(w io.Writer, answer []byte, asJSON bool, view any) (done bool, err error) {
	if asJSON {
		_, err := fmt.Fprintf(w, "%s\n", answer)
		return true, err
	}
	if err := json.Unmarshal(answer, view); err != nil {
		return true, fmt.Errorf("read the desk's answer: %w", err)
	}
	return false, nil
}

func printProducts(w io.Writer, answer []byte, asJSON bool) error {
	var page struct {
		Products []productView
		Next     *string
	}
	if done, err := read(w, answer, asJSON, &page); done {
		return err
	}
	t := commandline.NewTable(w)
	t.Line("PRODUCT", "STATE", "TOTAL", "SOLD", "LEFT", "RATE", "CAPACITY", "VERSION")
	for _, v := range page.Products {
		t.Line(v.Product, v.state(), v.Stock.Total, v.Stock.Sold, v.Stock.Left, v.setting("rate"), v.setting("capacity"), v.Version)
	}
	if err := t.End(); err != nil {
		return err
	}
	if page.Next != nil {
		_, err := fmt.Fprintf(w, "there may be more: --after %s\n", *page.Next)
		return err
	}
	return nil
}

func printProduct(w io.Writer, answer []byte, asJSON bool) error {
	var v productView
	if done, err := read(w, answer, asJSON, &v); done {
		return err
	}
	t := commandline.NewTable(w)
	t.Line("product", v.Product)
	t.Line("state", v.state())
	t.Line("settings version", v.Version)
	opened := "never"
	if v.OpenedAt != nil {
		opened = v.OpenedAt.UTC().Format(time.RFC3339)
	}
	t.Line("opened", opened)
	t.Line("line began anew", max(0, v.Inc-1))
	t.Line("units", fmt.Sprintf("%d, sold %d, left %d", v.Stock.Total, v.Stock.Sold, v.Stock.Left))
	if v.Line != nil {
		t.Line("line", fmt.Sprintf("%d waiting, %d passes active, %d units held", v.Line.Waiting, v.Line.Active, v.Line.Held))
	} else {
		t.Line("line", "unknown: redis does not answer")
	}
	for _, name := range slices.Sorted(maps.Keys(v.Settings)) {
		if name != "state" {
			t.Line(name, v.setting(name))
		}
	}
	return t.End()
}

func printChange(w io.Writer, answer []byte, asJSON bool) error {
	var v productView
	if done, err := read(w, answer, asJSON, &v); done {
		return err
	}
	said := fmt.Sprintf("%s is %s; its settings have version %d", v.Product, v.state(), v.Version)
	if v.Repeat {
		said += " (done before)"
	}
	if v.CommandID != nil {
		said += fmt.Sprintf("; the units follow as command %s, judged in its turn: show tells them", *v.CommandID)
	}
	for _, warning := range v.Warnings {
		said += "\nwarning: " + warning
	}
	_, err := fmt.Fprintln(w, said)
	return err
}
