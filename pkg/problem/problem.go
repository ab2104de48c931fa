// Package problem writes errors over HTTP as RFC 9457 problem details. It owns the form of the document and nothing
// else: which types there are and which error is which of them stands in each service's map from errors to answers.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of every answer written here.
const ContentType = "application/problem+json"

// Field is one fault of a request: which field (a body member, a header or a path part) and what was expected of it.
type Field struct {
	Name   string `json:"field"`
	Detail string `json:"detail"`
}

// Problem is one answer. Type is a stable, hyphenated word that clients branch on; Title says the same to a person and is
// always the same for a type; Detail is about this occurrence and never repeats a secret or personal data.
type Problem struct {
	Status int
	Type   string
	Title  string
	Detail string
	Fields []Field
	// RetryAfter, where above 0, becomes the header Retry-After in whole seconds, rounded up.
	RetryAfter time.Duration
	// Members are further members of the document, such as order_id. The standard ones win over a member of their name.
	Members map[string]any
}

// Write sends the problem with Cache-Control: no-store. Call it before anything else was written; headers set before,
// such as Location or WWW-Authenticate, stay.
func Write(w http.ResponseWriter, p Problem) {
	document := make(map[string]any, len(p.Members)+5)
	for name, value := range p.Members {
		document[name] = value
	}
	document["type"], document["title"], document["status"] = p.Type, p.Title, p.Status
	if p.Detail != "" {
		document["detail"] = p.Detail
	}
	if len(p.Fields) > 0 {
		document["errors"] = p.Fields
	}
	body, err := json.Marshal(document)
	if err != nil {
		// Only a member that is no JSON can fail; the answer without members still tells what matters.
		p.Members = nil
		Write(w, p)
		return
	}
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64((p.RetryAfter+time.Second-1)/time.Second), 10))
	}
	w.WriteHeader(p.Status)
	// The client may have gone; there is nobody left to tell.
	_, _ = w.Write(body)
}
