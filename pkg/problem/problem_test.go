package problem_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/problem"
)

func TestWrite(t *testing.T) {
	t.Parallel()

	t.Run("EveryMember", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		problem.Write(w, problem.Problem{
			Status: 409, Type: "pass-spent", Title: "The pass is spent", Detail: "it bought an order",
			Fields: []problem.Field{{Name: "quantity", Detail: "expected 2"}}, RetryAfter: 1500 * time.Millisecond,
			Members: map[string]any{"order_id": "x", "status": 7},
		})
		want := `{"detail":"it bought an order","errors":[{"field":"quantity","detail":"expected 2"}],"order_id":"x","status":409,"title":"The pass is spent","type":"pass-spent"}`
		if diff := cmp.Diff(want, w.Body.String()); diff != "" {
			t.Fatal(diff)
		}
		got := []any{w.Code, w.Header().Get("Content-Type"), w.Header().Get("Retry-After"), w.Header().Get("Cache-Control")}
		if diff := cmp.Diff([]any{409, problem.ContentType, "2", "no-store"}, got); diff != "" {
			t.Fatal(diff)
		}
	})

	t.Run("AMemberThatIsNoJSONIsLeftOut", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		problem.Write(w, problem.Problem{Status: 503, Type: "busy", Title: "Busy", Members: map[string]any{"bad": func() {}}})
		if diff := cmp.Diff(`{"status":503,"title":"Busy","type":"busy"}`, w.Body.String()); diff != "" {
			t.Fatal(diff)
		}
	})
}
