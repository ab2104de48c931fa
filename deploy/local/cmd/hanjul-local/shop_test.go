package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hanjul/deploy/local"
)

// TestShopOpensTheProductOnce runs the two one-shots of docker-compose.yml, twice each, against a hanjul that only knows whether the product was opened.
func TestShopOpensTheProductOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if code, err := makeKeys([]string{dir}, out); code != 0 || err != nil {
			t.Fatalf("keys: code %d, %v", code, err)
		}
	}
	if lines := strings.Count(first.String(), "\n"); lines != 7 || first.String() != second.String() {
		t.Fatalf("keys printed %q, then %q; expected the same seven files", first.String(), second.String())
	}
	token, err := local.Keys{OperatorTokens: filepath.Join(dir, "operator.tokens")}.OperatorToken()
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	var calls []string
	opened := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet {
			if !opened {
				w.WriteHeader(http.StatusNotFound)
			}
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		calls = append(calls, r.Method+" "+r.URL.Path)
		opened = strings.HasSuffix(r.URL.Path, "/open")
	}))
	defer server.Close()
	for range 2 {
		var out bytes.Buffer
		code, err := openShop(t.Context(), []string{
			"--api", server.URL, "--desk", server.URL, "--tokens", filepath.Join(dir, "operator.tokens"), "--shown", "http://shop.example",
		}, &out, io.Discard)
		if code != 0 || err != nil {
			t.Fatalf("shop: code %d, %v", code, err)
		}
		if !strings.Contains(out.String(), "http://shop.example/v1/products/demo/queue") || strings.Contains(out.String(), server.URL) {
			t.Fatalf("the lines to type name another address than that to be shown:\n%s", out.String())
		}
	}
	if want := "PUT /v1/products/demo, POST /v1/products/demo/open"; strings.Join(calls, ", ") != want {
		t.Fatalf("the desk was called %q, expected %q", calls, want)
	}
}
