package waitingroom

import "errors"

// What a call can meet that is no fault of the connection.
var (
	// ErrNotReady: the product's slot holds no settings, because the product is unknown, was never opened here, or Redis
	// forgot it and nobody has restored it yet. Ask InCatalogue which; otherwise it means 503.
	ErrNotReady = errors.New("line has no settings")
	// ErrNotOpen: the sale has not begun.
	ErrNotOpen = errors.New("line is not open")
	// ErrClosed: nobody can join any more.
	ErrClosed = errors.New("line is closed")
	// ErrQueueOff: nobody can join, since orders need no pass.
	ErrQueueOff = errors.New("queue is off")
	// ErrFull: the line is as long as its setting allows.
	ErrFull = errors.New("line is full")
	// ErrBanned: the user was removed by an operator and may not join until the ban ends.
	ErrBanned = errors.New("user is banned from the line")
	// ErrPlacesEnded: this incarnation has no place left; the scheduler must advance the line (F42).
	ErrPlacesEnded = errors.New("places of this incarnation have ended")
	// ErrNotHolder: the restore is held by another nonce, or was not begun, or its time ran out. Begin again.
	ErrNotHolder = errors.New("restore is not held by this nonce")
	// ErrOpen: the slot already has settings; nothing is to be restored.
	ErrOpen = errors.New("line is already restored")
	// ErrBehind: the line lacks changes of the bans that come before those given, since Redis went back to an earlier moment.
	ErrBehind = errors.New("line lacks earlier bans")
	// ErrNoCatalogue: the catalogue is not there, so nobody can say that a product is unknown (503, not 404).
	ErrNoCatalogue = errors.New("catalogue is not loaded")
)
