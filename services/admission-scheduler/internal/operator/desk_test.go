package operator_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/keyring"
	"hanjul/pkg/ledger"
	"hanjul/pkg/order"
	"hanjul/pkg/product"
	"hanjul/services/admission-scheduler/internal/operator"
)

const token = "correct-horse-battery"

// books stand for the ledger where only the desk's own side is looked at: they note what reached them.
type books struct {
	calls    []string
	settings product.Settings
	movement *ledger.Movement
	version  int64
	err      error
}

func (b *books) note(call string, a ledger.Action) (ledger.ActionResult, error) {
	b.calls = append(b.calls, call+" "+a.Operator+" "+a.RequestID)
	b.version = a.IfVersion
	if b.err != nil {
		return ledger.ActionResult{}, b.err
	}
	return ledger.ActionResult{Product: ledger.ProductRow{ID: a.Product, SettingsV: 1, OpenedUS: 1}}, nil
}

func (b *books) Product(_ context.Context, p product.ID) (ledger.ProductRow, error) {
	return ledger.ProductRow{ID: p, Total: 10, Sold: 3, Seq: 4}, b.err
}

func (b *books) PutProduct(_ context.Context, a ledger.Action, s product.Settings, m *ledger.Movement) (ledger.ActionResult, error) {
	b.settings, b.movement = s, m
	return b.note("put", a)
}

func (b *books) Open(_ context.Context, a ledger.Action) (ledger.ActionResult, error) {
	return b.note("open", a)
}

func (b *books) Pause(_ context.Context, a ledger.Action, reason string) (ledger.ActionResult, error) {
	return b.note("pause "+reason, a)
}

func (b *books) Resume(_ context.Context, a ledger.Action) (ledger.ActionResult, error) {
	return b.note("resume", a)
}

func (b *books) ProductsAfter(_ context.Context, after product.ID, limit int) ([]ledger.ProductRow, error) {
	var page []ledger.ProductRow
	for _, id := range []product.ID{"p", "q", "r"} {
		if id > after && len(page) < limit {
			page = append(page, ledger.ProductRow{ID: id, SettingsV: 7})
		}
	}
	return page, b.err
}

func (b *books) CloseSale(_ context.Context, a ledger.Action, reason string) (ledger.ActionResult, error) {
	return b.note("close "+reason, a)
}

func (b *books) Halt(_ context.Context, a ledger.Action) (ledger.ActionResult, error) {
	return b.note("halt", a)
}

func (b *books) Unhalt(_ context.Context, a ledger.Action) (ledger.ActionResult, error) {
	return b.note("unhalt", a)
}

func (b *books) QueueOff(_ context.Context, a ledger.Action) (ledger.ActionResult, error) {
	return b.note("queue-off", a)
}

func (b *books) QueueOn(_ context.Context, a ledger.Action) (ledger.ActionResult, error) {
	return b.note("queue-on", a)
}

func (b *books) Restock(_ context.Context, a ledger.Action, m ledger.Movement) (ledger.ActionResult, error) {
	b.movement = &m
	return b.note("restock", a)
}

func (b *books) OrdersByID(context.Context, []order.ID) (map[order.ID]ledger.OrderRow, error) {
	return nil, b.err
}

func (b *books) Cancel(_ context.Context, a ledger.Action, c ledger.Cancellation) (ledger.ActionResult, error) {
	return b.note("cancel "+string(c.User), a)
}

func (b *books) Evict(_ context.Context, a ledger.Action, e ledger.Eviction) (ledger.ActionResult, error) {
	return b.note("evict "+string(e.User), a)
}

func (b *books) Unban(_ context.Context, a ledger.Action, user product.UserID, _ product.UserHash) (ledger.ActionResult, error) {
	return b.note("unban "+string(user), a)
}

func (b *books) RevokePasses(_ context.Context, a ledger.Action, reason string) (ledger.ActionResult, error) {
	return b.note("revoke-passes "+reason, a)
}

// config is a desk's setup over the books, with one operator, anna.
func config(t testing.TB, l operator.Ledger) operator.Config {
	t.Helper()
	tokens, err := operator.ParseTokens("anna:" + token + ",ben:another-long-token")
	if err != nil {
		t.Fatal(err)
	}
	return operator.Config{
		Tokens: tokens, Commands: commandKey(t), Users: commandKey(t), Ledger: l,
		Live: func(context.Context, product.ID) (operator.Numbers, error) {
			return operator.Numbers{Waiting: 5, Active: 2, Held: 1}, nil
		},
		ReplayTopics: []string{"order-events", "order-events.rebuild"}, PassMin: 102 * time.Second,
	}
}

func commandKey(t testing.TB) keyring.Key {
	t.Helper()
	key, err := keyring.Parse("c1:" + base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ring(t testing.TB) keyring.Ring { t.Helper(); return keyring.Ring{commandKey(t)} }

// answer is what a call came to.
type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (a answer) text(name string) string { s, _ := a.body[name].(string); return s }

// call sends a request to the desk; headers are pairs and replace the default ones, an empty value takes one away.
func call(t testing.TB, c operator.Config, method, path, body string, headers ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k1")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	operator.New(slog.New(slog.DiscardHandler), c).Handler().ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header()}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Fatalf("%s %s: %d %q: %v", method, path, w.Code, w.Body.String(), err)
	}
	return a
}

// fields are the names of the faulty fields.
func (a answer) fields() []string {
	var names []string
	list, _ := a.body["errors"].([]any)
	for _, each := range list {
		entry, _ := each.(map[string]any)
		name, _ := entry["field"].(string)
		names = append(names, name)
	}
	return names
}

func TestDeskRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		kind                     string
		fields                   []string
	}{
		{"NoToken", "POST", "/v1/products/p/open", "", []string{"Authorization", ""}, 401, "token-invalid", nil},
		{"WrongToken", "POST", "/v1/products/p/open", "", []string{"Authorization", "Bearer nobody's"}, 401, "token-invalid", nil},
		{"TheTokenOnlyInPart", "POST", "/v1/products/p/open", "", []string{"Authorization", "Bearer " + token[:10]}, 401, "token-invalid", nil},
		{"NotBearer", "POST", "/v1/products/p/open", "", []string{"Authorization", "Basic " + token}, 401, "token-invalid", nil},
		{"NoTokenForAPathThatIsNot", "GET", "/", "", []string{"Authorization", ""}, 401, "token-invalid", nil},
		{"NoToRead", "GET", "/v1/products/p", "", []string{"Authorization", ""}, 401, "token-invalid", nil},
		{"NoKey", "PUT", "/v1/products/p", "{}", []string{"Idempotency-Key", ""}, 400, "idempotency-key-required", []string{"Idempotency-Key"}},
		{"AKeyTooLong", "PUT", "/v1/products/p", "{}", []string{"Idempotency-Key", strings.Repeat("k", 129)}, 400, "idempotency-key-required", []string{"Idempotency-Key"}},
		{"AKeyNotASCII", "PUT", "/v1/products/p", "{}", []string{"Idempotency-Key", "ключ"}, 400, "idempotency-key-required", []string{"Idempotency-Key"}},
		{"NoPath", "GET", "/v2", "", nil, 404, "not-found", nil},
		{"NoMethod", "DELETE", "/v1/products/p", "", nil, 405, "method-not-allowed", nil},
		{"AProductIDWithBlanks", "PUT", "/v1/products/a%20b", "{}", nil, 422, "invalid-field", []string{"product"}},
		{"NotJSON", "PUT", "/v1/products/p", "rate=5", nil, 400, "malformed-request", nil},
		{"ANakedNumber", "PUT", "/v1/products/p", "5", nil, 400, "malformed-request", nil},
		{"CutOff", "PUT", "/v1/products/p", `{"rate":5`, nil, 400, "malformed-request", nil},
		{"SomethingBehind", "PUT", "/v1/products/p", `{} {}`, nil, 400, "malformed-request", nil},
		{"AMemberTwice", "PUT", "/v1/products/p", `{"rate":5,"rate":6}`, nil, 400, "malformed-request", nil},
		{"AnotherContentType", "PUT", "/v1/products/p", `{"rate":5}`, []string{"Content-Type", "text/plain"}, 415, "unsupported-content-type", nil},
		{"TooLarge", "PUT", "/v1/products/p", `{"reason":"` + strings.Repeat("x", 20_000) + `"}`, nil, 413, "body-too-large", nil},
		{"UnknownFieldsAreNamed", "PUT", "/v1/products/p", `{"rat":5,"burts":1}`, nil, 422, "invalid-field", []string{"burts", "rat"}},
		{"AnotherCaseIsAnotherField", "PUT", "/v1/products/p", `{"Rate":5}`, nil, 422, "invalid-field", []string{"Rate"}},
		{"EveryFaultAtOnce", "PUT", "/v1/products/p", `{"rate":0,"burst":0,"capacity":-1}`, nil, 422, "invalid-field", []string{"rate", "burst", "capacity"}},
		{"WrongKinds", "PUT", "/v1/products/p", `{"rate":"5","capacity":1.5,"stock":null}`, nil, 422, "invalid-field", []string{"stock", "rate", "capacity"}},
		{"StateHasItsOwnCalls", "PUT", "/v1/products/p", `{"state":"open","reason":"x"}`, nil, 422, "invalid-field", []string{"state", "reason"}},
		{"NegativeStock", "PUT", "/v1/products/p", `{"stock":-1}`, nil, 422, "invalid-field", []string{"stock"}},
		{"APassShorterThanTwoPolls", "PUT", "/v1/products/p", `{"pass_ms":101000}`, nil, 422, "invalid-field", []string{"pass_ms"}},
		{"OpenSaysNothing", "POST", "/v1/products/p/open", `{"rate":5}`, nil, 422, "invalid-field", []string{"rate"}},
		{"ResumeSaysNothing", "POST", "/v1/products/p/resume", `{"reason":""}`, nil, 422, "invalid-field", []string{"reason"}},
		{"AVersionWithoutQuotes", "POST", "/v1/products/p/open", ``, []string{"If-Match", "7"}, 422, "invalid-field", []string{"If-Match"}},
		{"AVersionOfNothing", "POST", "/v1/products/p/open", ``, []string{"If-Match", `"0"`}, 422, "invalid-field", []string{"If-Match"}},
		{"APageTooLarge", "GET", "/v1/products?limit=1001", ``, nil, 422, "invalid-field", []string{"limit"}},
		{"APageBehindNothing", "GET", "/v1/products?after=a%20b&limit=x", ``, nil, 422, "invalid-field", []string{"limit", "after"}},
		{"AHaltInSettings", "PUT", "/v1/products/p", `{"orders_halted":true}`, nil, 422, "invalid-field", []string{"orders_halted"}},
		{"AQueueInSettings", "PUT", "/v1/products/p", `{"queue_on":false}`, nil, 422, "invalid-field", []string{"queue_on"}},
		{"AQueueWithABody", "POST", "/v1/products/p/queue-off", `{"reason":"x"}`, nil, 422, "invalid-field", []string{"reason"}},
		{"AHaltWithABody", "POST", "/v1/products/p/halt", `{"reason":"x"}`, nil, 422, "invalid-field", []string{"reason"}},
		{"ALongReasonToClose", "POST", "/v1/products/p/close", `{"reason":"` + strings.Repeat("x", 201) + `"}`, nil, 422, "invalid-field", []string{"reason"}},
		{"ALongReason", "POST", "/v1/products/p/pause", `{"reason":"` + strings.Repeat("x", 201) + `"}`, nil, 422, "invalid-field", []string{"reason"}},
		{"RestockOfNothing", "POST", "/v1/products/p/restock", `{"units":0}`, nil, 422, "invalid-field", []string{"units"}},
		{"RestockWithoutUnits", "POST", "/v1/products/p/restock", `{}`, nil, 422, "invalid-field", []string{"units"}},
		{"RestockWithoutBody", "POST", "/v1/products/p/restock", ``, nil, 400, "malformed-request", nil},
		{"RestockOfHalfAUnit", "POST", "/v1/products/p/restock", `{"units":0.5}`, nil, 422, "invalid-field", []string{"units"}},
		{"RestockOfTooMuch", "POST", "/v1/products/p/restock", `{"units":1000000001}`, nil, 422, "invalid-field", []string{"units"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &books{}
			a := call(t, config(t, b), tt.method, tt.path, tt.body, tt.headers...)
			if diff := cmp.Diff([]any{tt.status, tt.kind, tt.fields}, []any{a.status, a.text("type"), a.fields()}); diff != "" {
				t.Fatal(diff, a.body)
			}
			if len(b.calls) > 0 {
				t.Fatal("reached the books:", b.calls)
			}
			if got := a.header.Get("WWW-Authenticate") != ""; got != (tt.status == 401) {
				t.Fatal("WWW-Authenticate", a.header)
			}
		})
	}
}

func TestDeskChanges(t *testing.T) {
	t.Parallel()

	t.Run("WhatIsLeftOutTakesItsDefault", func(t *testing.T) {
		t.Parallel()
		b := &books{}
		a := call(t, config(t, b), "PUT", "/v1/products/p", `{"rate":120.5,"capacity":7,"stock":100}`, "Authorization", "bearer another-long-token")
		want := product.DefaultSettings()
		want.Rate, want.Capacity, want.Burst = 120.5, 7, 12
		if diff := cmp.Diff(want, b.settings); diff != "" || a.status != 200 {
			t.Fatal(a.status, diff)
		}
		if diff := cmp.Diff([]string{"put ben k1"}, b.calls); diff != "" {
			t.Fatal(diff)
		}
		command, err := order.DecodeCommand(b.movement.Command)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{order.KindAdjust, "k1", product.ID("p"), int64(100), int64(100)},
			[]any{command.Kind, command.ID, command.Product, command.Delta, b.movement.Delta}); diff != "" {
			t.Fatal(diff)
		}
		if err := command.Verify(ring(t)); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("NoBodyMakesAProductOfDefaults", func(t *testing.T) {
		t.Parallel()
		b := &books{}
		if a := call(t, config(t, b), "PUT", "/v1/products/p", "", "Content-Type", ""); a.status != 200 || b.movement != nil {
			t.Fatal(a.status, b.movement)
		}
		if diff := cmp.Diff(product.DefaultSettings(), b.settings); diff != "" {
			t.Fatal(diff)
		}
	})

	t.Run("AShortPassIsWarnedAboutWhereIdentityIsTrusted", func(t *testing.T) {
		t.Parallel()
		c := config(t, &books{})
		c.Trusting = true
		a := call(t, c, "PUT", "/v1/products/p", `{"pass_ms":5000}`)
		warnings, _ := a.body["warnings"].([]any)
		if a.status != 200 || len(warnings) != 1 {
			t.Fatal(a.status, a.body)
		}
	})

	t.Run("EachCallReachesItsOwn", func(t *testing.T) {
		t.Parallel()
		b := &books{}
		c := config(t, b)
		told := 0
		c.Changed = func() { told++ }
		call(t, c, "POST", "/v1/products/p/open", "")
		call(t, c, "POST", "/v1/products/p/pause", `{"reason":"lunch"}`)
		call(t, c, "POST", "/v1/products/p/pause", "")
		call(t, c, "POST", "/v1/products/p/resume", "{}")
		call(t, c, "POST", "/v1/products/p/halt", "")
		call(t, c, "POST", "/v1/products/p/unhalt", "{}")
		call(t, c, "POST", "/v1/products/p/queue-off", "")
		call(t, c, "POST", "/v1/products/p/queue-on", "")
		call(t, c, "POST", "/v1/products/p/close", `{"reason":"night"}`)
		call(t, c, "POST", "/v1/products/p/restock", `{"units":-5}`)
		want := []string{
			"open anna k1", "pause lunch anna k1", "pause  anna k1", "resume anna k1", "halt anna k1", "unhalt anna k1",
			"queue-off anna k1", "queue-on anna k1", "close night anna k1", "restock anna k1",
		}
		if diff := cmp.Diff(want, b.calls); diff != "" || told != 10 || b.movement.Delta != -5 {
			t.Fatal(diff, told, b.movement)
		}
	})

	t.Run("AVersionReachesTheBooks", func(t *testing.T) {
		t.Parallel()
		b := &books{}
		a := call(t, config(t, b), "POST", "/v1/products/p/halt", "", "If-Match", `"7"`)
		if b.version != 7 || a.header.Get("ETag") != `"1"` { // what the books of this test answer
			t.Fatal(b.version, a.header)
		}
	})

	t.Run("PagesOfProducts", func(t *testing.T) {
		t.Parallel()
		c := config(t, &books{})
		ids := func(path string) (ids []string, next any) {
			t.Helper()
			a := call(t, c, "GET", path, "")
			list, _ := a.body["products"].([]any)
			for _, each := range list {
				one, _ := each.(map[string]any)
				if one["settings_v"] != 7.0 {
					t.Fatal(a.body)
				}
				ids = append(ids, one["product"].(string))
			}
			return ids, a.body["next"]
		}
		if all, next := ids("/v1/products"); !slices.Equal(all, []string{"p", "q", "r"}) || next != nil {
			t.Fatal(all, next)
		}
		if some, next := ids("/v1/products?limit=2"); !slices.Equal(some, []string{"p", "q"}) || next != "q" {
			t.Fatal(some, next)
		}
		if rest, next := ids("/v1/products?limit=2&after=q"); !slices.Equal(rest, []string{"r"}) || next != nil {
			t.Fatal(rest, next)
		}
	})

	t.Run("OutcomesOfTheBooks", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			err    error
			status int
			kind   string
		}{
			{ledger.ErrUnknownProduct, 404, "unknown-product"},
			{ledger.ErrRequestReused, 409, "request-reused"},
			{ledger.ErrState, 409, "state-conflict"},
			{ledger.ErrVersion, 409, "version-conflict"},
			{ledger.ErrClosed, 409, "closed"},
			{ledger.ErrStockExists, 409, "product-exists"},
			{ledger.ErrTransient, 503, "unavailable"},
			{errors.New("anything else"), 503, "unavailable"},
		} {
			a := call(t, config(t, &books{err: tt.err}), "POST", "/v1/products/p/open", "")
			if a.status != tt.status || a.text("type") != tt.kind || (a.header.Get("Retry-After") != "") != (tt.status == 503) {
				t.Fatal(tt.err, a)
			}
		}
	})
}

func TestDeskReads(t *testing.T) {
	t.Parallel()

	t.Run("BooksAndLine", func(t *testing.T) {
		t.Parallel()
		a := call(t, config(t, &books{}), "GET", "/v1/products/p", "")
		want := map[string]any{"waiting": 5.0, "active": 2.0, "held": 1.0}
		if diff := cmp.Diff(want, a.body["line"]); diff != "" || a.status != 200 {
			t.Fatal(a.status, diff)
		}
		if diff := cmp.Diff(map[string]any{"total": 10.0, "sold": 3.0, "left": 7.0, "seq": 4.0}, a.body["stock"]); diff != "" {
			t.Fatal(diff)
		}
	})

	t.Run("TheBooksAloneWhenRedisIsAway", func(t *testing.T) {
		t.Parallel()
		c := config(t, &books{})
		c.Live = func(context.Context, product.ID) (operator.Numbers, error) {
			return operator.Numbers{}, errors.New("away")
		}
		a := call(t, c, "GET", "/v1/products/p", "")
		if a.status != 200 || a.body["line"] != nil || a.text("line_reason") != "unavailable" {
			t.Fatal(a.status, a.body)
		}
	})
}

func TestParseTokens(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"Empty": "", "NoName": ":" + token, "NoToken": "anna:", "Short": "anna:123456789012345", "Blank": "anna:correct horse battery",
		"BadName": "an na:" + token, "Shared": "anna:" + token + ",ben:" + token, "Hole": "anna:" + token + ",,",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := operator.ParseTokens(text)
			if err == nil || strings.Contains(err.Error(), token) {
				t.Fatal(err)
			}
		})
	}
}
