package model

import (
	"math/bits"
	"strings"
)

// Breach is a set of broken promises; the numbers are those of docs/invariants.md.
type Breach uint32

// The promises, as far as the models can break them.
const (
	I1Oversold Breach = 1 << iota
	I1StockForgotten
	I2NeverJudged
	I2Unreadable
	I2TakenBack
	I2EndedInTime
	I3JudgedTwice
	I3CancelUndone
	I3AdjustedTwice
	I4TwoOrders
	I4OtherBody
	I5OverLimit
	I6JudgedStillInLine
	I6OrderingWithoutIntent
	I6IntentStays
	I6NewerPlaceGone
	I6PassWorthless
	I6OrderedThoughLeft
	I7CalledTwice
	I7InFront
	I7SamePlace
	I8OverCapacity
	I10LeftTooHigh
	I10LeftTooLow
	I10HeldWrong
	I12RefusedThoughOrdered
	I12SoldOutWithUnits
	I12LineClosedForGood
)

// said are the promises in words, in the order of the constants.
func said() []string {
	return []string{
		"I1: more units are sold than there are",
		"I1: Redis offers units that orders in the log already have",
		"I2: an answered order is never judged",
		"I2: the verdict cannot be read",
		"I2: a verdict that could be read is taken back",
		"I2: an order accepted in time is ended as expired",
		"I3: one order moves stock twice",
		"I3: a cancelled order ends confirmed",
		"I3: one adjust moves the total twice",
		"I4: one pass buys two orders",
		"I4: 202 for a body that is not the one judged",
		"I5: a user has more units than the limit",
		"I6: judged, and still in the line with that place",
		"I6: ordering, and no intent",
		"I6: an intent stays for ever",
		"I6: a newer place is gone",
		"I6: an unexpired pass is worth nothing",
		"I6: ordered with a place that was given up",
		"I7: a place that was called, as the ledger knows, is in the line again",
		"I7: a newcomer stands in front of older tickets",
		"I7: one place is given to two people",
		"I8: more passes are out than the capacity",
		"I10: Redis has more left than the ledger, for good",
		"I10: Redis has less left than the ledger, for good",
		"I10: held is not the sum of the intents",
		"I12: refused, although ordered or unknown",
		"I12: sold out is the verdict, with units unsold",
		"I12: the sale stands still for good",
	}
}

func (b Breach) each() []Breach {
	var out []Breach
	for rest := b; rest != 0; rest &= rest - 1 {
		out = append(out, 1<<bits.TrailingZeros32(uint32(rest)))
	}
	return out
}

func (b Breach) String() string {
	names := said()
	var out []string
	for _, one := range b.each() {
		out = append(out, names[bits.TrailingZeros32(uint32(one))])
	}
	return strings.Join(out, "; ")
}

// Guard is a set of guards of the design. A system is made without some of them.
type Guard uint64

// The guards of docs/joint.md.
const (
	NewestPlaceWins    Guard = 1 << iota // R2 in settle
	OrderIDOfPlace                       // decision 1: the order id is a function of the place
	KeptIntents                          // F2: bind keeps the command, and the sweeper sends it
	AckedOnly                            // F2: 202 only after the log acknowledged
	BindRule1                            // a bound order is answered with its stored bytes
	BindRule2                            // a judged order is answered with its verdict
	BindRule4                            // an unexpired pass that the slot forgot is bound
	BindRule4Bounds                      // ... but only from none, a lower place, or the same place waiting or called
	DigestCheck                          // F15: another body with the same pass is refused
	FrontCheck                           // U2: a ticket re-enters only above the front
	JudgedCheck                          // U2: ... and only if its order has no verdict
	StatusVersion                        // F3: a status is written if its version is greater
	WantedStatuses                       // F3: a forgotten status is asked for and brought back
	VoidForNobodys                       // O7: an id nobody can account for gets a void
	VoidWaits                            // O7: ... only past its deadline
	VoidNotInLine                        // O7: ... and only if its user does not stand in the line
	VoidClosesID                         // O7: ... and the slot takes the id for judged from then on
	ReconcileAfterLoss                   // F8: orders judged before a loss are settled again
	OffsetAfterVerdict                   // O4: the offset is committed last
	GenerationFence                      // a zombie's commit is refused
	KnownIsNothing                       // O3: a known id changes nothing
	LedgerJudges                         // decision 2: the transaction decides, not Redis
	StockRowLock                         // O3: what is read is locked until it is written
	LimitInLedger                        // F5
	Tombstone                            // F6: a cancel that overtakes its order leaves a row
	CommandIDs                           // F6: an adjust is known by its id
	SettleSeq                            // settle takes a greater seq only
	CreateByLoad                         // F11: only load_stock creates a forgotten stock
	LoadBehindLog                        // F11: ... and travels behind what was accepted
	HeldByIntents                        // R3: held changes with an intent that was set or deleted
	LineInc                              // F8: places begin with the incarnation
	PlaceClock                           // F8: the counter is never behind the clock
	RestoreNonce                         // L2: a paused scheduler cannot open the line
	Ghosts                               // F14: a restored line counts the passes of before
)
