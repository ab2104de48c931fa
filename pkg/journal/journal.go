// Package journal is the contract between simulated buyers, who write down every call they made, and the auditor, who
// holds the stores against it. A journal is a file of JSON lines, one Entry each, in any order. It imports the standard library and
// the contracts only.
package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Call names what a buyer asked for.
type Call string

// The calls of the storefront that buyers make.
const (
	CallJoin   Call = "join"
	CallStatus Call = "status"
	CallLeave  Call = "leave"
	CallOrder  Call = "order"        // POST …/orders
	CallLookup Call = "order_status" // GET /v1/orders/{order}
)

// Entry is one call and its answer. Zero values say that the answer had no such field.
type Entry struct {
	Sent     time.Time      `json:"sent"` // before the request was written
	Time     time.Time      `json:"time"` // when the answer was read, or given up
	Product  product.ID     `json:"product"`
	Buyer    product.UserID `json:"buyer"`
	Call     Call           `json:"call"`
	Status   int            `json:"status"`          // HTTP status; 0: no answer (cut, timed out)
	State    string         `json:"state,omitempty"` // status of the line, or state of the order
	Reason   string         `json:"reason,omitempty"`
	Problem  string         `json:"problem,omitempty"` // type of the problem details
	Place    product.Place  `json:"place,omitempty"`
	Pass     string         `json:"pass,omitempty"` // the pass received, or the one shown with an order
	OrderID  order.ID       `json:"order_id,omitempty"`
	Quantity int            `json:"quantity,omitempty"`
}

// Writer appends entries. Safe for concurrent use; each entry is one write to the underlying buffer, so lines never mix.
type Writer struct {
	mu  sync.Mutex
	out *bufio.Writer
	err error
}

// NewWriter writes to w, buffered until Close.
func NewWriter(w io.Writer) *Writer { return &Writer{out: bufio.NewWriterSize(w, 1<<16)} }

// Write appends one entry. The first error is kept and told by Close.
func (w *Writer) Write(e Entry) {
	line, err := json.Marshal(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		_, err = w.out.Write(append(line, '\n'))
	}
	if err != nil && w.err == nil {
		w.err = err
	}
}

// Close flushes what is buffered and returns the first error of any write. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.err, w.out.Flush())
}

// Read returns all entries of one product. A line that is no entry is an error that names its number.
func Read(r io.Reader, p product.ID) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var e Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("journal line %d: %w", n, err)
		}
		if e.Product == p {
			entries = append(entries, e)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return entries, nil
}
