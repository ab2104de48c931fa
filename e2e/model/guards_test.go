package model

import "testing"

// without are the guards, each with a run in which its absence breaks a promise.
var without = map[string]struct {
	guard   Guard
	run     func(without Guard) searched
	promise Breach
}{
	"newest place wins":                     {NewestPlaceWins, oneLife(two(faults{})), I6NewerPlaceGone},
	"order id of the place":                 {OrderIDOfPlace, oneLife(faults{Failover: 1, Posts: 2, Joins: 1}), I4TwoOrders},
	"kept intents":                          {KeptIntents, oneLife(two(faults{Unknown: 1})), I2NeverJudged},
	"202 only when acknowledged":            {AckedOnly, oneLife(two(faults{Unknown: 1})), I2EndedInTime},
	"bind rule 1":                           {BindRule1, oneLife(two(faults{})), I12RefusedThoughOrdered},
	"bind rule 2":                           {BindRule2, oneLife(two(faults{StatusLost: 1})), I12RefusedThoughOrdered},
	"bind rule 4":                           {BindRule4, oneLife(two(faults{Failover: 1})), I6PassWorthless},
	"bind rule 4, its bounds":               {BindRule4Bounds, oneLife(two(faults{Leave: 1})), I6OrderedThoughLeft},
	"digest check":                          {DigestCheck, oneLife(two(faults{Bodies: 1})), I4OtherBody},
	"front check of U2":                     {FrontCheck, oneLife(two(faults{Flush: 1})), I7CalledTwice},
	"judged check of U2":                    {JudgedCheck, oneLife(faults{Flush: 1, Posts: 1, Joins: 2}), I6JudgedStillInLine},
	"status version":                        {StatusVersion, oneLife(two(faults{})), I2TakenBack},
	"wanted statuses":                       {WantedStatuses, oneLife(two(faults{StatusLost: 1})), I2Unreadable},
	"void":                                  {VoidForNobodys, oneLife(two(faults{Flush: 1})), I2NeverJudged},
	"void waits for the deadline":           {VoidWaits, oneLife(faults{Flush: 1, Posts: 2, Joins: 1}), I2EndedInTime},
	"void waits while its user is in line":  {VoidNotInLine, oneLife(faults{Failover: 1, Posts: 1, Joins: 1}), I6JudgedStillInLine},
	"void closes the id":                    {VoidClosesID, oneLife(faults{Flush: 1, Posts: 1, Joins: 1}), I6JudgedStillInLine},
	"reconcile after a loss":                {ReconcileAfterLoss, oneLife(faults{Flush: 1, Posts: 1, Joins: 1}), I6JudgedStillInLine},
	"offset after the verdict":              {OffsetAfterVerdict, oneStock(twoOrders(), stockFaults{Crash: 1}, 1), I2NeverJudged},
	"a known id changes nothing":            {KnownIsNothing, oneStock(twoOrders(), stockFaults{Crash: 1}, 1), I3JudgedTwice},
	"the ledger judges":                     {LedgerJudges, oneStock(twoOrders(), stockFaults{Flush: 1, Crash: 1}, 1), I12SoldOutWithUnits},
	"stock row lock":                        {StockRowLock, oneStock(twoOrders(), stockFaults{Rebalance: 1}, 1), I3JudgedTwice},
	"limit in the ledger":                   {LimitInLedger, oneStock(oneUser(), stockFaults{}, 1), I5OverLimit},
	"tombstone":                             {Tombstone, oneStock(cancelledBefore(), stockFaults{}, 1), I3CancelUndone},
	"command ids":                           {CommandIDs, oneStock(adjusted(), stockFaults{Crash: 1}, 1), I3AdjustedTwice},
	"settle takes a greater seq only":       {SettleSeq, oneStock(twoOrders(), stockFaults{Rebalance: 1}, 1), I10LeftTooHigh},
	"a forgotten stock comes by load_stock": {CreateByLoad, oneStock(twoOrders(), stockFaults{Flush: 1}, 1), I1StockForgotten},
	"load_stock travels behind the log":     {LoadBehindLog, oneStock(twoOrders(), stockFaults{Flush: 1}, 1), I1StockForgotten},
	"held changes with its intent":          {HeldByIntents, oneStock(newOrders(), stockFaults{Crash: 1}, 1), I10HeldWrong},
	"incarnation":                           {LineInc, oneLine(lineFlush()), I7InFront},
	"a place is never behind the clock":     {PlaceClock, oneLine(lineFailover()), I7SamePlace},
	"nonce of the restore":                  {RestoreNonce, oneLine(lineTwice()), I7InFront},
	"ghosts":                                {Ghosts, oneLine(lineFlush()), I8OverCapacity},
}

func oneLife(f faults) func(Guard) searched { return func(g Guard) searched { return life(g, f) } }

func oneStock(m Stock, f stockFaults, batch uint8) func(Guard) searched {
	return func(g Guard) searched { return stock(m, g, f, batch) }
}

func oneLine(m Line) func(Guard) searched { return func(g Guard) searched { return line(m, g) } }

// Each guard, taken away alone, lets a promise break.
func TestModelNeedsEachGuard(t *testing.T) {
	t.Parallel()
	all := GenerationFence
	for name, c := range without {
		if all&c.guard != 0 {
			t.Errorf("%s is taken away twice", name)
		}
		all |= c.guard
		t.Run(name, func(t *testing.T) { t.Parallel(); breaks(t, c.run(c.guard), c.promise) })
	}
	if all != Ghosts<<1-1 {
		t.Errorf("guards that nothing takes away: %b", (Ghosts<<1-1)&^all)
	}
}

// The one guard that no promise hangs on: a zombie's commit that Kafka takes only sends the owner back to records that are known.
func TestModelNeedsNoGenerationFence(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]Stock{"two orders": twoOrders(), "cancel": cancelled(), "adjust": adjusted(), "new orders": newOrders()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole(t, stock(m, GenerationFence, stockFaults{Rebalance: 1, Crash: 1, Flush: 1}, 1))
		})
	}
}

// What was found in simpler designs before this one was fixed: each is found again when the guards against it are away.
func TestModelFindsWhatBrokeSimplerDesigns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run     searched
		promise Breach
	}{
		"no fault: a retry is refused although the order is confirmed": {life(BindRule2, two(faults{})), I12RefusedThoughOrdered},
		"unknown send: nobody ever judges the order":                   {life(KeptIntents, two(faults{Unknown: 1})), I2NeverJudged},
		"no fault: the status stays pending over the verdict":          {life(StatusVersion|WantedStatuses, two(faults{})), I2Unreadable},
		"emptied: the verdict is unreadable":                           {life(WantedStatuses|ReconcileAfterLoss, faults{Flush: 1, Posts: 1, Joins: 1}), I2Unreadable},
		"failover: one pass buys two orders":                           {life(OrderIDOfPlace, faults{Failover: 1, Posts: 2, Joins: 1}), I4TwoOrders},
		"emptied: one pass buys two orders":                            {life(OrderIDOfPlace, faults{Flush: 1, Posts: 2, Joins: 1}), I4TwoOrders},
		"crash: an ordering entry leaks":                               {life(KeptIntents, two(faults{Crash: 1})), I6IntentStays},
		"rebalance, emptied: Redis keeps too much":                     {stock(oneUser(), LedgerJudges, stockFaults{Rebalance: 1, Flush: 1}, 1), I10LeftTooHigh},
		"failover, crash: Redis keeps too much":                        {stock(twoOrders(), LedgerJudges, stockFaults{Failover: 1, Crash: 1}, 1), I10LeftTooHigh},
		"emptied, crash: Redis keeps too little":                       {stock(twoOrders(), LedgerJudges, stockFaults{Flush: 1, Crash: 1}, 1), I10LeftTooLow},
		"markers end, offsets reset: Redis keeps too little":           {stock(twoOrders(), LedgerJudges, stockFaults{Marks: 1, Reset: 1}, 1), I10LeftTooLow},
		"emptied, crash: sold out with a unit unsold":                  {stock(twoOrders(), LedgerJudges, stockFaults{Flush: 1, Crash: 1}, 1), I12SoldOutWithUnits},
		"failover: a user above the limit":                             {stock(oneUser(), LedgerJudges, stockFaults{Failover: 1}, 1), I5OverLimit},
		"rebalance, emptied: a user above the limit":                   {stock(oneUser(), LedgerJudges, stockFaults{Rebalance: 1, Flush: 1}, 1), I5OverLimit},
		"no fault: a cancelled order ends confirmed":                   {stock(cancelledBefore(), Tombstone, stockFaults{}, 1), I3CancelUndone},
		"emptied, clock behind: a newcomer in front":                   {line(lineFlush(), LineInc), I7InFront},
		"failover: one place for two":                                  {line(lineFailover(), PlaceClock), I7SamePlace},
		"emptied: a place that was called stands in line again":        {line(lineFlush(), FrontCheck), I7CalledTwice},
		"emptied: more passes than the capacity":                       {line(lineFlush(), Ghosts), I8OverCapacity},
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); breaks(t, c.run, c.promise) })
	}
}
