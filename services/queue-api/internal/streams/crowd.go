package streams

import (
	"context"
	"sync"
	"time"

	"hanjul/pkg/product"
	"hanjul/services/queue-api/internal/live"
)

// heardEvery is the time between two notes that everybody with a stream is heard of; far below the shortest absence.
const heardEvery = 5 * time.Second

// Lines are what a crowd needs of live.
type Lines interface {
	Survey(ctx context.Context, p product.ID, places []product.Place, positions []int64) (live.Look, bool)
	Heard(p product.ID, u product.UserHash)
	Every() time.Duration
}

// Crowd is the open streams of people in line. Of each product with streams it looks at the snapshot of the line as often as that is
// refreshed, in one goroutine for all of them, and wakes those for whom something changed. Their number and their people are bounded
// together with the hub's, and end with it. Safe for concurrent use.
type Crowd struct {
	hub   *Hub
	lines Lines

	mu       sync.Mutex
	sections map[product.ID]*section
	open     sync.WaitGroup // streams, and the goroutines that look for them
}

// NewCrowd returns a crowd without streams, with a share in the hub's bounds.
func NewCrowd(hub *Hub, lines Lines) *Crowd {
	return &Crowd{hub: hub, lines: lines, sections: map[product.ID]*section{}}
}

// section is the streams of one product.
type section struct {
	crowd   *Crowd
	product product.ID
	empty   context.CancelFunc

	mu      sync.Mutex
	members map[*Member]struct{}
	look    live.Look // of no place
	at      time.Time // its moment
	held    bool
	heard   time.Time
}

// Member is one connection of somebody in line. It holds the newest position and nothing older, however slowly it is read.
type Member struct {
	section *section
	user    product.UserHash
	changed chan struct{}

	// Under the section's lock.
	place    product.Place
	position int64
	closed   bool
}

// Open takes a stream for somebody who has a place, or says ErrFull or ErrStopping. What changes from now on wakes the stream; the caller
// finds out what was there before, afterwards, and closes the stream.
func (c *Crowd) Open(p product.ID, user product.UserHash, place product.Place) (*Member, error) {
	c.hub.mu.Lock()
	if err := c.hub.sit(user); err != nil {
		c.hub.mu.Unlock()
		return nil, err
	}
	c.open.Add(1) // under the lock under which the hub stops, so before anybody waits
	c.hub.mu.Unlock()
	c.hub.metrics.inLine.Inc()

	m := &Member{user: user, changed: make(chan struct{}, 1), place: place}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sections[p]
	if s == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s = &section{crowd: c, product: p, empty: cancel, members: map[*Member]struct{}{}}
		c.sections[p] = s
		c.open.Go(func() { s.follow(ctx) })
	}
	m.section = s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[m] = struct{}{}
	return m, nil
}

// Changed is sent to when something about the person may have changed. Then call Look.
func (m *Member) Changed() <-chan struct{} { return m.changed }

// Look is what the newest snapshot says of the person, and its moment; false where no snapshot says anything.
func (m *Member) Look() (live.Look, time.Time, bool) {
	s := m.section
	s.mu.Lock()
	defer s.mu.Unlock()
	look := s.look
	look.Position, look.Age = m.position, time.Since(s.at)
	return look, s.at, s.held
}

// Place is the place that the stream is for.
func (m *Member) Place() product.Place {
	m.section.mu.Lock()
	defer m.section.mu.Unlock()
	return m.place
}

// Move says that the person has another place now.
func (m *Member) Move(place product.Place) {
	m.section.mu.Lock()
	defer m.section.mu.Unlock()
	if m.place != place {
		m.place, m.position = place, 0
	}
}

// Stopping is closed when the process ends its streams.
func (m *Member) Stopping() <-chan struct{} { return m.section.crowd.hub.stopping }

// Close gives the stream's place back. Safe to repeat.
func (m *Member) Close() {
	c, s := m.section.crowd, m.section
	c.mu.Lock()
	s.mu.Lock()
	again := m.closed
	m.closed = true
	delete(s.members, m)
	if len(s.members) == 0 && c.sections[s.product] == s {
		delete(c.sections, s.product)
		s.empty()
	}
	s.mu.Unlock()
	c.mu.Unlock()
	if again {
		return
	}
	c.hub.mu.Lock()
	c.hub.rise(m.user)
	c.hub.mu.Unlock()
	c.hub.metrics.inLine.Dec()
	c.open.Done()
}

// Run waits until ctx ends, which must be when the hub's Run ends, and then for the streams to end, but not longer than patience. It returns
// nil. Connections of streams are not the server's any more, so that nobody else waits for what is written to them last.
func (c *Crowd) Run(ctx context.Context, patience time.Duration) error {
	<-ctx.Done()
	<-c.hub.stopping
	ended := make(chan struct{})
	go func() {
		c.open.Wait()
		close(ended)
	}()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-ended:
	case <-limit.C:
	}
	return nil
}

// follow looks until the section is empty.
func (s *section) follow(ctx context.Context) {
	every := s.crowd.lines.Every()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var members []*Member
	var places []product.Place
	var positions []int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		members, places = s.list(members[:0], places[:0])
		positions = append(positions[:0], make([]int64, len(places))...)
		look, held := s.crowd.lines.Survey(ctx, s.product, places, positions)
		if ctx.Err() != nil {
			return
		}
		s.note(look, held, members, places, positions)
		// Due again when the snapshot is; not at once where it stays old or there is none.
		next := every
		if held && look.Age < every {
			next = max(every-look.Age, every/8)
		}
		pause.Reset(max(next, time.Millisecond))
	}
}

// list gives the members and their places, and has everybody heard of now and then.
func (s *section) list(members []*Member, places []product.Place) ([]*Member, []product.Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hear := s.held && time.Since(s.heard) >= heardEvery
	if hear {
		s.heard = time.Now()
	}
	for m := range s.members {
		members, places = append(members, m), append(places, m.place)
		if hear && m.place <= s.look.View.Near {
			s.crowd.lines.Heard(s.product, m.user)
		}
	}
	return members, places
}

// note keeps a snapshot and wakes those for whom it says something new.
func (s *section) note(look live.Look, held bool, members []*Member, places []product.Place, positions []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := held != s.held || held && said(look) != said(s.look)
	if s.held = held; held {
		s.look, s.at = look, time.Now().Add(-look.Age)
	}
	for i, m := range members {
		if m.place != places[i] {
			continue // moved meanwhile
		}
		if moved := held && m.position != positions[i]; moved || all {
			if held {
				m.position = positions[i]
			}
			select {
			case m.changed <- struct{}{}:
			default:
			}
		}
	}
}

// saying is what everybody in a line is told alike, beside numbers that change all the time.
type saying struct {
	state            product.State
	queueOn          bool
	reason           string
	opened, epoch    int64
	inc              int
	stockKnown, none bool
	stale, moves     bool
}

func said(look live.Look) saying {
	v := look.View
	_, _, moves := look.Flow.Wait(0)
	return saying{
		state: v.State, queueOn: v.QueueOn, reason: v.Reason, opened: v.OpenedUS, epoch: v.PassEpoch, inc: v.Inc,
		stockKnown: v.StockKnown, none: v.StockKnown && v.Base == 0, stale: look.Stale(), moves: moves,
	}
}
