package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"hanjul/pkg/commandline"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// letterView is a dead letter as machines read it.
type letterView struct {
	ID         int64      `json:"id"`
	State      string     `json:"state"`
	Reason     string     `json:"reason"`
	Product    product.ID `json:"product,omitempty"`
	OrderID    order.ID   `json:"order_id,omitempty"`
	CommandID  string     `json:"command_id,omitempty"`
	Topic      string     `json:"topic"`
	Partition  int        `json:"partition"`
	Offset     int64      `json:"offset"`
	RecordedAt time.Time  `json:"recorded_at"`
	ParkedAt   time.Time  `json:"parked_at"`
}

func newLetterView(r ledger.LetterRow) letterView {
	return letterView{
		r.ID, r.State, r.Reason, r.Product, r.OrderID, r.CommandID, r.Topic, r.Partition, r.Offset, r.RecordedAt.UTC(), r.ParkedAt.UTC(),
	}
}

// about is the id that the letter's command is known by.
func about(r ledger.LetterRow) string {
	switch {
	case r.OrderID != "":
		return "order " + string(r.OrderID)
	case r.CommandID != "":
		return "command " + shown(r.CommandID)
	}
	return "never verified"
}

// shown keeps what a stranger wrote from moving the terminal's cursor.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return utf8.RuneError
		}
		return r
	}, s)
}

func printLetters(w io.Writer, page []ledger.LetterRow, asJSON bool) error {
	if asJSON {
		views := make([]letterView, len(page))
		for i, r := range page {
			views[i] = newLetterView(r)
		}
		return commandline.JSON(w, struct {
			Letters []letterView `json:"dead_letters"`
		}{views})
	}
	t := commandline.NewTable(w)
	t.Line("ID", "STATE", "REASON", "PRODUCT", "WHAT", "PARTITION/OFFSET", "PARKED AT")
	for _, r := range page {
		t.Line(r.ID, r.State, r.Reason, commandline.Dash(r.Product), about(r), fmt.Sprintf("%d/%d", r.Partition, r.Offset), stamp(r.ParkedAt))
	}
	return t.End()
}

func printLetter(w io.Writer, l ledger.Letter, asJSON bool) error {
	verdict := "none"
	switch {
	case l.Order != nil:
		verdict = verdictOf(*l.Order)
	case l.Command != nil:
		verdict = l.Command.Result
	}
	if asJSON {
		return commandline.JSON(w, struct {
			letterView
			Verdict string `json:"verdict"`
			Key     []byte `json:"key"`     // base64
			Payload []byte `json:"payload"` // base64
		}{newLetterView(l.LetterRow), verdict, l.Key, l.Payload})
	}
	t := commandline.NewTable(w)
	t.Line("id", l.ID)
	t.Line("state", l.State)
	t.Line("reason", l.Reason)
	t.Line("product", commandline.Dash(l.Product))
	t.Line("what", about(l.LetterRow))
	t.Line("verdict", verdict)
	t.Line("record", fmt.Sprintf("%s, partition %d, offset %d, of %s", l.Topic, l.Partition, l.Offset, stamp(l.RecordedAt)))
	t.Line("parked at", stamp(l.ParkedAt))
	t.Line("key", readable(l.Key))
	t.Line("payload", readable(l.Payload))
	return t.End()
}

func printResult(w io.Writer, a ledger.LetterAction, r ledger.LetterResult, asJSON bool) error {
	if asJSON {
		return commandline.JSON(w, struct {
			ledger.LetterResult
			RequestID string `json:"request_id"`
			Repeat    bool   `json:"repeat"`
		}{r, a.RequestID, r.Repeat})
	}
	line := fmt.Sprintf("dead letter %d: %s", r.Letter, r.State)
	if r.Queued {
		line += ", on its way to the judge"
	}
	if r.Repeat {
		line += " (done before)"
	}
	_, err := fmt.Fprintf(w, "%s; request id %s\n", line, a.RequestID)
	return err
}

func verdictOf(r ledger.OrderRow) string {
	if r.Reason == "" {
		return string(r.State)
	}
	return fmt.Sprintf("%s (%s)", r.State, r.Reason)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// readable is text as it is, and anything else in base64.
func readable(b []byte) string {
	if utf8.Valid(b) && !bytes.ContainsFunc(b, func(r rune) bool { return shown(string(r)) != string(r) }) {
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}
