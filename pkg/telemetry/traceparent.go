package telemetry

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// TraceparentHeader is the header's name, in HTTP and in Kafka alike.
const TraceparentHeader = "traceparent"

// ErrTraceparent is returned for a header that is not a W3C trace context.
var ErrTraceparent = errors.New("not a traceparent header")

// Traceparent is a W3C trace context: which trace a call belongs to and which span called. The zero value is no trace.
type Traceparent struct {
	traceID [16]byte
	spanID  [8]byte
	flags   byte
}

// NewTraceparent begins a trace that is marked as not sampled: a tracer downstream decides for itself.
func NewTraceparent() Traceparent {
	var t Traceparent
	fill(t.traceID[:])
	fill(t.spanID[:])
	return t
}

// ParseTraceparent reads a header. It returns ErrTraceparent for anything that the specification tells to ignore: a
// wrong length, upper-case digits, the version ff, an id of zeros. Of a later version it reads what version 00 has.
func ParseTraceparent(header string) (Traceparent, error) {
	var t Traceparent
	const length = 55 // 00-<32 digits>-<16 digits>-<2 digits>
	if len(header) < length || header[2] != '-' || header[35] != '-' || header[52] != '-' {
		return t, ErrTraceparent
	}
	var version, flags [1]byte
	ok := unhex(version[:], header[0:2]) && unhex(t.traceID[:], header[3:35]) &&
		unhex(t.spanID[:], header[36:52]) && unhex(flags[:], header[53:55])
	switch {
	case !ok, version[0] == 0xff, t.traceID == [16]byte{}, t.spanID == [8]byte{}:
		return Traceparent{}, ErrTraceparent
	case version[0] == 0 && len(header) != length, len(header) > length && header[length] != '-':
		return Traceparent{}, ErrTraceparent
	}
	t.flags = flags[0] & 1 // of the flags only "sampled" is ours to pass on
	return t, nil
}

// ContinueTraceparent is what a server does with the header of a call: the child of what it carries, or a new trace
// when there is none or it is not understood.
func ContinueTraceparent(header string) Traceparent {
	parent, err := ParseTraceparent(header)
	if err != nil {
		return NewTraceparent()
	}
	return parent.Child()
}

// Child returns the same trace with a span of its own, for a call that this one makes. The child of no trace begins one.
func (t Traceparent) Child() Traceparent {
	if t.IsZero() {
		return NewTraceparent()
	}
	fill(t.spanID[:])
	return t
}

// IsZero says whether there is no trace.
func (t Traceparent) IsZero() bool { return t.traceID == [16]byte{} }

// TraceID is the trace in 32 hexadecimal digits, for logs; empty when there is none.
func (t Traceparent) TraceID() string {
	if t.IsZero() {
		return ""
	}
	return hex.EncodeToString(t.traceID[:])
}

// String is the header's value; empty when there is no trace.
func (t Traceparent) String() string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("00-%x-%x-%02x", t.traceID, t.spanID, t.flags)
}

// fill draws an id that is not all zeros.
func fill(id []byte) {
	for {
		_, _ = rand.Read(id) // never fails, says its documentation
		for _, b := range id {
			if b != 0 {
				return
			}
		}
	}
}

// unhex reads lower-case digits only, as the specification asks.
func unhex(into []byte, text string) bool {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(into, []byte(text))
	return err == nil
}
