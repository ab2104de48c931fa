package httpapi

import (
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// encoded is an answer that is given so often that reflection is too dear for it. It appends what encoding/json would write.
type encoded interface {
	appendJSON(b []byte) []byte
}

// encodedSize is room for a usual answer.
const encodedSize = 1024

// encode is the JSON of an answer.
func encode(body any) ([]byte, error) {
	if e, ok := body.(encoded); ok {
		return e.appendJSON(make([]byte, 0, encodedSize)), nil
	}
	return json.Marshal(body)
}

// appendJSON appends the answer about one person.
func (d *standing) appendJSON(b []byte) []byte {
	b = appendText(append(b, `{"product":`...), string(d.Product))
	b = appendText(append(b, `,"status":`...), d.Status)
	b = appendNumber(append(b, `,"place":`...), d.Place)
	b = appendNumber(append(b, `,"position":`...), d.Position)
	b = appendNumber(append(b, `,"ahead":`...), d.Ahead)
	b = strconv.AppendInt(append(b, `,"total":`...), d.Total, 10)
	b = append(b, `,"estimated_wait":`...)
	if d.EstimatedWait == nil {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(append(b, `{"min_seconds":`...), d.EstimatedWait.Least, 10)
		b = strconv.AppendInt(append(b, `,"max_seconds":`...), d.EstimatedWait.Most, 10)
		b = append(b, '}')
	}
	b = appendMaybe(append(b, `,"estimated_wait_reason":`...), d.EstimatedWaitReason)
	b = appendShare(append(b, `,"progress":`...), d.Progress)
	b = appendMaybe(append(b, `,"progress_reason":`...), d.ProgressReason)
	b = strconv.AppendInt(append(b, `,"next_poll_ms":`...), d.NextPollMS, 10)
	b = appendMaybe(append(b, `,"ticket":`...), d.Ticket)
	b = appendMaybe(append(b, `,"pass":`...), d.Pass)
	b = append(b, `,"pass_expires_at":`...)
	if d.PassExpiresAt == nil {
		b = append(b, "null"...)
	} else {
		b = appendTime(b, *d.PassExpiresAt)
	}
	b = appendMaybe(append(b, `,"order_id":`...), d.OrderID)
	b = appendMaybe(append(b, `,"order_url":`...), d.OrderURL)
	b = appendMaybe(append(b, `,"stream_url":`...), d.StreamURL)
	b = appendMaybe(append(b, `,"stream_url_reason":`...), d.StreamURLReason)
	b = strconv.AppendBool(append(b, `,"can_join":`...), d.CanJoin)
	b = appendMaybe(append(b, `,"message":`...), d.Message)
	b = appendTime(append(b, `,"snapshot_at":`...), d.SnapshotAt)
	b = strconv.AppendInt(append(b, `,"age_ms":`...), d.AgeMS, 10)
	b = strconv.AppendBool(append(b, `,"stale":`...), d.Stale)
	return append(b, '}')
}

// appendJSON appends the answer to a join.
func (j *joined) appendJSON(b []byte) []byte {
	b = j.standing.appendJSON(b)
	b = strconv.AppendBool(append(b[:len(b)-1], `,"already_in_line":`...), j.AlreadyInLine)
	return append(b, '}')
}

func appendMaybe[S ~string](b []byte, text *S) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	return appendText(b, string(*text))
}

// appendText appends a text; one that needs an escape, as the words of an operator may, is left to encoding/json.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			escaped, _ := json.Marshal(text) // a text has no fault
			return append(b, escaped...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

func appendNumber[N ~int64](b []byte, n *N) []byte {
	if n == nil {
		return append(b, "null"...)
	}
	return strconv.AppendInt(b, int64(*n), 10)
}

// appendShare appends a number from 0 to 1; what encoding/json writes with an exponent is left to it.
func appendShare(b []byte, share *float64) []byte {
	switch {
	case share == nil:
		return append(b, "null"...)
	case *share == 0 || math.Abs(*share) >= 1e-6 && math.Abs(*share) < 1e21:
		return strconv.AppendFloat(b, *share, 'f', -1, 64)
	default:
		text, _ := json.Marshal(*share) // progress is a number
		return append(b, text...)
	}
}

func appendTime(b []byte, at time.Time) []byte {
	return append(at.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}
