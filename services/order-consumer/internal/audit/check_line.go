package audit

import (
	"slices"
	"time"

	"hanjul/pkg/journal"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
	"hanjul/pkg/ticket"
)

// grant is one admission that a buyer was told of: a pass of one place.
type grant struct {
	pass  pass.Pass
	ended time.Time // when the pass certainly counted no more: first submit or leave sent, or the lease's end
}

// checkPasses is I4: a pass buys at most one order, for its own user and product, and a retry answers the same id.
func checkPasses(b Books) Finding {
	f := look("I4")
	type seat struct {
		user  product.UserID
		place product.Place
	}
	idOf := map[seat]order.ID{}
	passes := map[order.ID]bool{}
	submits, answered := 0, map[order.ID]bool{}
	for _, e := range b.Journal {
		if e.Pass == "" {
			continue
		}
		p, genuine := b.Passes[e.Pass]
		if !genuine {
			if e.Call == journal.CallStatus {
				f.fault("buyer %s was given a pass that does not verify", e.Buyer)
			}
			continue
		}
		if e.Call == journal.CallStatus {
			passes[p.OrderID] = true
			s := seat{p.User, p.Place}
			if id, again := idOf[s]; again && id != p.OrderID {
				f.fault("place %s of %s has passes for two orders, %s and %s", p.Place, p.User, id, p.OrderID)
			}
			idOf[s] = p.OrderID
			if p.User != e.Buyer || p.Product != b.Product {
				f.fault("buyer %s was given a pass of %s for %s", e.Buyer, p.User, p.Product)
			}
		}
		if e.Call == journal.CallOrder {
			submits++
			if e.OrderID != "" {
				answered[e.OrderID] = true
				if e.OrderID != p.OrderID {
					f.fault("buyer %s submitted the pass of order %s and was answered order %s", e.Buyer, p.OrderID, e.OrderID)
				}
			}
		}
	}
	rows := map[seat]order.ID{}
	for _, o := range b.Ledger.Orders {
		if o.Place == 0 {
			continue
		}
		s := seat{o.UserID, o.Place}
		if id, again := rows[s]; again {
			f.fault("place %s of %s bought two orders, %s and %s", o.Place, o.UserID, id, o.OrderID)
		}
		rows[s] = o.OrderID
		if len(passes) > 0 {
			if id, known := idOf[s]; known && id != o.OrderID {
				f.fault("place %s of %s has a pass for order %s and bought order %s", o.Place, o.UserID, id, o.OrderID)
			} else if !known {
				f.fault("order %s of %s at place %s was bought with no pass of the journal", o.OrderID, o.UserID, o.Place)
			}
		}
	}
	f.saw(len(passes), "passes")
	f.saw(submits, "submits")
	f.saw(len(answered), "ids")
	return f.done()
}

// checkNobodyLost is I6: everyone is in exactly one set, and everyone who joined is still somewhere.
func checkNobodyLost(b Books) Finding {
	f := look("I6")
	if !b.Line.Known {
		return f.done()
	}
	for user, sets := range b.Line.Users {
		if sets != 1 {
			f.fault("user %s is in %d sets", user, sets)
		}
	}
	f.saw(len(b.Line.Users), "people in Redis")
	counted := b.Line.Waiting + b.Line.Away + b.Line.Active + b.Line.Ordering + b.Line.Ended
	if b.Line.Joined != counted {
		f.fault("%d joined; waiting %d, away %d, active %d, ordering %d and ended %d are %d", b.Line.Joined,
			b.Line.Waiting, b.Line.Away, b.Line.Active, b.Line.Ordering, b.Line.Ended, counted)
	}
	if b.Line.Graces != b.Line.Away {
		f.fault("%d are away and the grace of %d runs", b.Line.Away, b.Line.Graces)
	}
	// After a loss only those who came back are known again, so a buyer of the journal may rightly be unknown.
	joined := map[product.UserHash]journal.Entry{}
	for _, e := range b.Journal {
		if e.Call == journal.CallJoin && (e.Status == 200 || e.Status == 201) {
			if hash := b.Hash(e.Buyer); joined[hash].Time.Before(e.Time) {
				joined[hash] = e
			}
		}
	}
	forgotten := 0
	if b.Inc <= 1 {
		for hash, e := range joined {
			switch {
			case b.Line.Users[hash] > 0:
			case b.Line.TakenAt.Sub(e.Time) > ticket.Life: // Records of ended people are kept for as long as a ticket lives.
				forgotten++
			default:
				f.fault("buyer %s joined and is in no set", e.Buyer)
			}
		}
	}
	f.saw(len(joined)-forgotten, "buyers who joined")
	if forgotten > 0 {
		f.lost("%d buyers who joined more than %s ago and are no longer remembered", forgotten, ticket.Life)
	}
	return f.done()
}

// checkPlaces is I7: places are unique, first come first served, and never change but by a new join.
func checkPlaces(b Books) Finding {
	f := look("I7")
	owner := map[product.Place]product.UserID{}
	var joins []journal.Entry
	byBuyer := map[product.UserID][]journal.Entry{}
	for _, e := range b.Journal {
		if e.Place == 0 {
			continue
		}
		if who, taken := owner[e.Place]; taken && who != e.Buyer {
			f.fault("place %s was told to %s and to %s", e.Place, who, e.Buyer)
		}
		owner[e.Place] = e.Buyer
		if e.Call == journal.CallJoin && e.Status == 201 {
			joins = append(joins, e)
		}
		byBuyer[e.Buyer] = append(byBuyer[e.Buyer], e)
	}
	f.saw(len(owner), "places")
	f.saw(len(joins), "joins")

	// First come, first served: a join that was answered before another was sent has the lower place.
	answered := slices.Clone(joins)
	slices.SortFunc(answered, func(x, y journal.Entry) int { return x.Time.Compare(y.Time) })
	slices.SortFunc(joins, func(x, y journal.Entry) int { return x.Sent.Compare(y.Sent) })
	next, highest := 0, journal.Entry{}
	for _, e := range joins {
		for next < len(answered) && answered[next].Time.Before(e.Sent) {
			if answered[next].Place > highest.Place {
				highest = answered[next]
			}
			next++
		}
		if highest.Place >= e.Place {
			f.fault("%s joined after %s had place %s, and got place %s", e.Buyer, highest.Buyer, highest.Place, e.Place)
		}
	}

	// A place is lost only by a new join of the same buyer, which answers 201.
	kept := 0
	for buyer, entries := range byBuyer {
		given := map[product.Place]bool{}
		for _, e := range entries {
			if e.Call == journal.CallJoin && (e.Status == 201 || e.Status == 200) {
				given[e.Place] = true
			}
		}
		for _, e := range entries {
			kept++
			if len(given) > 0 && !given[e.Place] {
				f.fault("%s was told place %s, which no join gave", buyer, e.Place)
			}
		}
	}
	f.saw(kept, "answers with a place")

	for _, place := range b.Line.EqualPlaces {
		f.fault("two people of the line share place %s", place)
	}

	// Nobody is admitted before somebody in front who never stopped waiting. After a loss the people in front come back one
	// by one, each when they are heard, so the order of admissions is theirs. So do those who were away meanwhile.
	if b.Line.Back > 0 {
		f.lost("the order of admissions: %d people came back to their place from away", b.Line.Back)
	}
	if b.Inc <= 1 && b.Line.Back == 0 {
		admitted := grants(b)
		slices.SortFunc(admitted, func(x, y grant) int { return x.pass.Admitted.Compare(y.pass.Admitted) })
		highest := product.Place(0)
		for i := 0; i < len(admitted); {
			tied := i
			top := highest
			for tied < len(admitted) && admitted[tied].pass.Admitted.Equal(admitted[i].pass.Admitted) {
				if admitted[tied].pass.Place < highest {
					f.fault("%s at place %s was admitted after place %s", admitted[tied].pass.User, admitted[tied].pass.Place, highest)
				}
				top = max(top, admitted[tied].pass.Place)
				tied++
			}
			i, highest = tied, top
		}
		f.saw(len(admitted), "admissions in order")
	}
	return f.done()
}

// checkPace is I8: the rate in every window of the passes' admission times and of Redis' own count, and the capacity.
func checkPace(b Books) Finding {
	f := look("I8")
	admitted := grants(b)
	times := make([]time.Time, 0, len(admitted))
	for _, g := range admitted {
		times = append(times, g.pass.Admitted)
	}
	slices.SortFunc(times, time.Time.Compare)
	rate, burst := b.Settings.Rate, float64(b.Settings.Burst)
	// A bucket of burst tokens refilled at rate: the i-th admission empties it at the earliest at floor. Going through the times
	// once with the bucket is the same as checking every window. A millisecond is the grain of adm.
	tokens, last := burst, time.Time{}
	for i, t := range times {
		if i > 0 {
			tokens = min(burst, tokens+rate*(t.Sub(last)+time.Millisecond).Seconds())
		}
		last = t
		tokens--
		if tokens < -0.001 {
			f.fault("admission at %s exceeds %g per second with a burst of %g", t.Format(time.RFC3339Nano), rate, burst)
			tokens = 0
		}
	}
	f.saw(len(times), "admissions")

	// Lower bound of the active passes at each moment.
	type edge struct {
		at   time.Time
		step int
	}
	var edges []edge
	for _, g := range admitted {
		if g.ended.After(g.pass.Admitted) {
			edges = append(edges, edge{g.pass.Admitted, 1}, edge{g.ended, -1})
		}
	}
	slices.SortFunc(edges, func(x, y edge) int {
		if c := x.at.Compare(y.at); c != 0 {
			return c
		}
		return x.step - y.step
	})
	active, most := 0, 0
	for _, e := range edges {
		active += e.step
		most = max(most, active)
	}
	if most > b.Settings.Capacity {
		f.fault("at least %d passes were active at once, the capacity is %d", most, b.Settings.Capacity)
	}
	if len(edges) > 0 {
		f.saw(most, "active at least at the peak")
	}

	if b.Line.Known {
		if b.Line.Active > b.Line.Capacity {
			f.fault("%d passes are active, the capacity is %d", b.Line.Active, b.Line.Capacity)
		}
		seconds := make([]int64, 0, len(b.Line.Admits))
		for s := range b.Line.Admits {
			seconds = append(seconds, s)
		}
		slices.Sort(seconds)
		for i, from := range seconds {
			sum := int64(0)
			for _, s := range seconds[i:] {
				sum += b.Line.Admits[s]
				if float64(sum) > rate*float64(s-from+1)+burst {
					f.fault("Redis counted %d admissions from second %d to %d, more than %g per second and a burst of %g", sum, from, s, rate, burst)
				}
			}
		}
		f.saw(len(seconds), "seconds of Redis' own count")
	}
	return f.done()
}

// grants are the admissions that buyers were told of, once each, with the moment their pass certainly ended.
func grants(b Books) []grant {
	type key struct {
		id  order.ID
		adm int64
	}
	known := map[key]*grant{}
	ended := map[order.ID]time.Time{}
	leave := map[product.UserID][]time.Time{}
	for _, e := range b.Journal {
		if e.Call == journal.CallLeave {
			leave[e.Buyer] = append(leave[e.Buyer], e.Sent)
		}
		p, genuine := b.Passes[e.Pass]
		if e.Pass == "" || !genuine {
			continue
		}
		k := key{p.OrderID, p.Admitted.UnixMilli()}
		if known[k] == nil {
			known[k] = &grant{pass: p, ended: p.Admitted.Add(time.Duration(b.Settings.PassMS) * time.Millisecond)}
		}
		if e.Call == journal.CallOrder {
			if at, is := ended[p.OrderID]; !is || e.Sent.Before(at) {
				ended[p.OrderID] = e.Sent
			}
		}
	}
	list := make([]grant, 0, len(known))
	for _, g := range known {
		if at, is := ended[g.pass.OrderID]; is && at.Before(g.ended) {
			g.ended = at
		}
		for _, at := range leave[g.pass.User] {
			if at.After(g.pass.Admitted) && at.Before(g.ended) {
				g.ended = at
			}
		}
		// Whoever got the slot may have been admitted in the same millisecond, which is all that adm says.
		g.ended = g.ended.Truncate(time.Millisecond)
		list = append(list, *g)
	}
	return list
}
