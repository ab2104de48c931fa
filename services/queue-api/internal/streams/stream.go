package streams

import (
	"sync"

	"hanjul/pkg/order"
	"hanjul/pkg/product"
)

// Stream is one connection that waits for one order. It holds the newest status and nothing older, however slowly it is read.
type Stream struct {
	hub     *Hub
	id      order.ID
	user    product.UserHash
	changed chan struct{}

	mu     sync.Mutex
	status order.Status
	told   int // the greatest version that the reader has or was woken for
}

// Changed is sent to when the status is a newer one. Then call Status.
func (s *Stream) Changed() <-chan struct{} { return s.changed }

// Status is the newest status that was found; its version may be one that the reader has.
func (s *Stream) Status() order.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Known says that the reader has the status of this version by itself, and need not be woken for it.
func (s *Stream) Known(version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = max(s.told, version)
}

// Stopping is closed when the process ends its streams.
func (s *Stream) Stopping() <-chan struct{} { return s.hub.stopping }

// Close gives the stream's place back. Safe to repeat.
func (s *Stream) Close() { s.hub.close(s) }

// tell keeps a status that is newer and wakes the reader; it says whether it was. A status of another person is never kept.
func (s *Stream) tell(status order.Status) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status.Version <= s.told || status.User != s.user {
		return false
	}
	s.status, s.told = status, status.Version
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return true
}
