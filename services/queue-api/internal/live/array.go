package live

import (
	"slices"

	"hanjul/pkg/product"
)

// blockMax is the most places of a block: a change moves at most so many, and a rank looks at one block besides the sums.
const blockMax = 512

// array holds the places of a line in order, eight bytes each, in blocks. A change costs the search for its block and a move within it; a
// rank the same search and the sum of the blocks before. Changes are made by one goroutine at a time; settle ends a series of them.
type array struct {
	blocks [][]product.Place // none is empty
	before []int             // places before each block, as of the last settle
	n      int
}

// block finds the block in which a place stands or would stand: the last that begins at or below it, else the first.
func (a *array) block(p product.Place) int {
	i, found := slices.BinarySearchFunc(a.blocks, p, func(b []product.Place, p product.Place) int { return int(b[0] - p) })
	if !found && i > 0 {
		i--
	}
	return i
}

// add puts a place in, and tells whether it was not there.
func (a *array) add(p product.Place) bool {
	if len(a.blocks) == 0 {
		a.blocks = append(a.blocks, append(make([]product.Place, 0, blockMax), p))
		a.n++
		return true
	}
	b := a.block(p)
	at, found := slices.BinarySearch(a.blocks[b], p)
	if found {
		return false
	}
	a.n++
	if len(a.blocks[b]) < blockMax {
		a.blocks[b] = slices.Insert(a.blocks[b], at, p)
		return true
	}
	next := make([]product.Place, 0, blockMax)
	if at == blockMax && b == len(a.blocks)-1 { // at the end of the line, where most come: its blocks stay full
		a.blocks = append(a.blocks, append(next, p))
		return true
	}
	half := blockMax / 2
	next = append(next, a.blocks[b][half:]...)
	a.blocks[b] = a.blocks[b][:half]
	if at > half {
		next = slices.Insert(next, at-half, p)
	} else {
		a.blocks[b] = slices.Insert(a.blocks[b], at, p)
	}
	a.blocks = slices.Insert(a.blocks, b+1, next)
	return true
}

// remove takes a place out, and tells whether it was there.
func (a *array) remove(p product.Place) bool {
	if len(a.blocks) == 0 {
		return false
	}
	b := a.block(p)
	at, found := slices.BinarySearch(a.blocks[b], p)
	if !found {
		return false
	}
	a.n--
	a.blocks[b] = slices.Delete(a.blocks[b], at, at+1)
	switch {
	case len(a.blocks[b]) == 0:
		a.blocks = slices.Delete(a.blocks, b, b+1)
	case b+1 < len(a.blocks) && len(a.blocks[b])+len(a.blocks[b+1]) <= blockMax/2:
		a.blocks[b] = append(a.blocks[b], a.blocks[b+1]...)
		a.blocks = slices.Delete(a.blocks, b+1, b+2)
	}
	return true
}

// removeTo takes out a place and everything below it, and tells how many there were.
func (a *array) removeTo(p product.Place) int {
	removed, whole := 0, 0
	for whole < len(a.blocks) && a.blocks[whole][len(a.blocks[whole])-1] <= p {
		removed += len(a.blocks[whole])
		whole++
	}
	a.blocks = slices.Delete(a.blocks, 0, whole)
	if len(a.blocks) > 0 {
		at, found := slices.BinarySearch(a.blocks[0], p)
		if found {
			at++
		}
		a.blocks[0] = slices.Delete(a.blocks[0], 0, at)
		removed += at
	}
	a.n -= removed
	return removed
}

// settle counts the places before each block.
func (a *array) settle() {
	a.before = a.before[:0]
	sum := 0
	for _, b := range a.blocks {
		a.before = append(a.before, sum)
		sum += len(b)
	}
}

// rank is how many stand before a place, and whether it stands there itself, as of the last settle.
func (a *array) rank(p product.Place) (int, bool) {
	if len(a.blocks) == 0 {
		return 0, false
	}
	b := a.block(p)
	at, found := slices.BinarySearch(a.blocks[b], p)
	return a.before[b] + at, found
}

// first is the lowest place, 0 without any.
func (a *array) first() product.Place {
	if len(a.blocks) == 0 {
		return 0
	}
	return a.blocks[0][0]
}
