package redisconn

// Waiting is how many calls wait for the next pipelines.
func (s *Shared) Waiting() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		n += len(l.queue)
	}
	return n
}
