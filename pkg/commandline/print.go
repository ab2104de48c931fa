package commandline

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// JSON writes one document on a line of its own, for machines.
func JSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Table lays out lines of cells for people, each column as wide as its longest cell. Not safe for concurrent use.
type Table struct{ w *tabwriter.Writer }

// NewTable makes an empty table; what is added is written by End.
func NewTable(w io.Writer) Table { return Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Line adds one line.
func (t Table) Line(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			_, _ = io.WriteString(t.w, "\t") // End tells what could not be written
		}
		_, _ = fmt.Fprint(t.w, cell)
	}
	_, _ = io.WriteString(t.w, "\n")
}

// End writes the table, and says what could not be written.
func (t Table) End() error { return t.w.Flush() }

// Dash stands for what is not there.
func Dash[T ~string](s T) string {
	if s == "" {
		return "-"
	}
	return string(s)
}
