package live

import (
	"math"
	"time"
)

// The measure of how fast a line moves: a sample a second, over a short window, which tells of now, and a long one.
const (
	sampleEvery = time.Second
	shortWindow = 10 * time.Second
	longWindow  = time.Minute
	samplesMax  = int(longWindow/sampleEvery) + 2
)

// Flow is how many people a second left the front of a line, admitted or given up, as measured. Zero means that nobody did.
type Flow struct {
	Low, High float64 // the slower and the faster of the windows, with the uncertainty of how few were counted
	Mean      float64
}

// Wait is the range of seconds in which somebody with so many people ahead will be let through; false when the line does not move.
func (f Flow) Wait(ahead int64) (least, most int64, ok bool) {
	if f.Low <= 0 || f.High <= 0 {
		return 0, 0, false
	}
	return int64(float64(ahead) / f.High), int64(math.Ceil(float64(ahead+1) / f.Low)), true
}

// flow counts departures. Not safe for concurrent use.
type flow struct {
	total   int64 // since the line is followed
	samples []sample
}

type sample struct {
	at    time.Time
	total int64
}

// note adds departures that were seen at a time, and measures.
func (f *flow) note(at time.Time, gone int64) Flow {
	f.total += gone
	if n := len(f.samples); n == 0 || at.Sub(f.samples[n-1].at) >= sampleEvery {
		if n == samplesMax {
			f.samples = append(f.samples[:0], f.samples[1:]...)
		}
		f.samples = append(f.samples, sample{at, f.total})
	}
	low, high := math.Inf(1), 0.0
	mean := 0.0
	for _, window := range []time.Duration{shortWindow, longWindow} {
		from := f.samples[0]
		for _, s := range f.samples {
			if at.Sub(s.at) >= window {
				from = s
			}
		}
		n, took := float64(f.total-from.total), at.Sub(from.at).Seconds()
		if took <= 0 || n <= 0 {
			continue
		}
		// Of n departures that come as they like, about √n more or fewer could have come.
		unsure := min(0.75, 0.05+1/math.Sqrt(n))
		mean = n / took
		low, high = min(low, mean*(1-unsure)), max(high, mean*(1+unsure))
	}
	if high == 0 {
		return Flow{}
	}
	return Flow{low, high, mean}
}
