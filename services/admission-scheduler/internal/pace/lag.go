package pace

// Marks say when what comes after a line is behind: up to Low the whole rate is admitted, from High on only Floor of it. A High of 0 or
// less is never behind.
type Marks struct{ Low, High int64 }

const (
	// Floor is the least share of a rate. It is above 0 because a line that stands still would tell nobody when to move again, and
	// orders in flight are bounded by a setting of their own.
	Floor = 0.05
	// rise is by how much a share may grow from one measure to the next, so that a backlog that is just gone does not come back at once.
	rise = 0.1
)

// Share is the share of a rate that is admitted while behind units are still to be done: 1 up to Low, Floor from High on, and falling evenly
// between. It is never below Floor and never above 1, and never grows with behind.
func (m Marks) Share(behind int64) float64 {
	switch {
	case m.High <= 0 || behind <= m.Low:
		return 1
	case behind >= m.High:
		return Floor
	}
	return max(Floor, 1-(1-Floor)*float64(behind-m.Low)/float64(m.High-m.Low))
}

// Follow is the share after one measure: it falls at once to what the measure asks for, and rises to it a tenth of the rate at a time.
func Follow(before, asked float64) float64 { return min(asked, before+rise) }
