package operator_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/product"
)

func TestDeskEvicts(t *testing.T) {
	t.Parallel()
	c, l := desk(t)
	call(t, c, "PUT", "/v1/products/p", `{"stock":10}`, "Idempotency-Key", "make")
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second).Format(time.RFC3339)
	for key, body := range map[string]string{"a1": `{"user":"김 서연","for_ms":3600000,"reason":"a bot"}`, "b1": `{"user":"b","until":"` + until + `"}`} {
		first := call(t, c, "POST", "/v1/products/p/evict", body, "Idempotency-Key", key)
		end, err := time.Parse(time.RFC3339, first.text("banned_until"))
		if first.status != 200 || err != nil || time.Until(end) < 59*time.Minute || first.body["command_id"] != nil {
			t.Fatal(first, err)
		}
		again := call(t, c, "POST", "/v1/products/p/evict", body, "Idempotency-Key", key)
		if again.status != 200 || again.body["repeat"] != true || again.text("banned_until") != first.text("banned_until") {
			t.Fatal(again)
		}
	}
	bans, _, err := l.Bans(t.Context(), "p", 0, true, 10)
	users := map[product.UserHash]bool{product.HashUser(c.Users, "김 서연"): true, product.HashUser(c.Users, "b"): true}
	if err != nil || len(bans) != 2 || !users[bans[0].User] || !users[bans[1].User] {
		t.Fatal(bans, err)
	}
	if a := call(t, c, "POST", "/v1/products/p/unban", `{"user":"b"}`, "Idempotency-Key", "b2"); a.status != 200 || a.text("banned_until") != "" {
		t.Fatal(a)
	}
	if bans, _, err := l.Bans(t.Context(), "p", 0, true, 10); err != nil || len(bans) != 1 {
		t.Fatal(bans, err)
	}
	a := call(t, c, "POST", "/v1/products/p/revoke-passes", "", "Idempotency-Key", "r1")
	if a.status != 200 || a.body["pass_epoch"] != 2.0 || a.body["settings_v"] != 2.0 {
		t.Fatal(a)
	}
	if a := call(t, c, "GET", "/v1/products/p", ""); a.body["pass_epoch"] != 2.0 {
		t.Fatal(a)
	}
	// One row in the audit trail each, and no command: nothing of it moves stock.
	if n := rows(t, l, "operator_actions"); n != 5 {
		t.Fatal(n)
	}
	if n := rows(t, l, "outbox"); n != 1 {
		t.Fatal(n)
	}

	for path, bodies := range map[string]map[string][]string{
		"evict": {
			`{}`: {"user"}, `{"user":""}`: {"user"}, `{"user":7,"for_ms":1}`: {"user"}, `{"user":"a"}`: {"until"},
			`{"user":"a","until":"tomorrow"}`: {"until"}, `{"user":"a","until":"` + until + `","for_ms":1}`: {"until"},
			`{"user":"a","for_ms":0}`: {"for_ms"}, `{"user":"a","for_ms":400000000000}`: {"for_ms"}, `{"user":"a","for_ms":1,"place":3}`: {"place"},
			`{"user":"a","until":"2001-01-01T00:00:00Z"}`: nil,
		},
		"unban":         {`{}`: {"user"}, `{"user":"a\u0000"}`: {"user"}, `{"user":"a","why":1}`: {"why"}},
		"revoke-passes": {`{"user":"a"}`: {"user"}, `{"reason":1}`: {"reason"}},
	} {
		for body, fields := range bodies {
			a := call(t, c, "POST", "/v1/products/p/"+path, body, "Idempotency-Key", "wrong")
			if a.status != 422 || a.text("type") != "invalid-field" {
				t.Error(path, body, a)
			}
			if diff := cmp.Diff(fields, a.fields()); diff != "" {
				t.Error(path, body, diff)
			}
		}
		if a := call(t, c, "POST", "/v1/products/nobody/"+path, map[string]string{"evict": `{"user":"a","for_ms":1}`, "unban": `{"user":"a"}`}[path]); a.status != 404 || a.text("type") != "unknown-product" {
			t.Error(path, a)
		}
	}
}
