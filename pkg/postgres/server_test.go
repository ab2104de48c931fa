package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/postgres"
)

func TestServerCheck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		server postgres.Server
		want   error
		waits  bool
		text   string
	}{
		{postgres.Server{Version: 150_000}, nil, false, ""},
		{postgres.Server{Version: 180_001}, nil, false, ""},
		{postgres.Server{Version: 140_011}, postgres.ErrVersion, false, "version 14.11, needed 15 or newer"},
		{postgres.Server{Version: 150_004, Standby: true, ReadOnly: true}, postgres.ErrReadOnly, true, "hot standby: expected the address of the primary"},
		{postgres.Server{Version: 150_004, ReadOnly: true}, postgres.ErrReadOnly, true, "default_transaction_read_only is on"},
	} {
		err := c.server.Check()
		if !errors.Is(err, c.want) || errors.Is(err, postgres.ErrTransient) != c.waits || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%+v: %v", c.server, err)
		}
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	url := localtest.Postgres(t)
	a, b := open(t, url, postgres.Config{}), open(t, localtest.Postgres(t), postgres.Config{})
	one, err := postgres.Look(t.Context(), a)
	if err != nil || one.Check() != nil || one.Schema != "public" || one.Encoding != "UTF8" || one.Version < 150_000 {
		t.Fatalf("%+v, %v", one, err)
	}
	other, err := postgres.Look(t.Context(), b)
	if err != nil || other.Cluster != one.Cluster || other.Database == one.Database || other.Name == one.Name {
		t.Fatalf("%+v beside %+v, %v", other, one, err)
	}
	locked := open(t, url+"&default_transaction_read_only=on", postgres.Config{})
	if s, err := postgres.Look(t.Context(), locked); err != nil || !errors.Is(s.Check(), postgres.ErrReadOnly) {
		t.Fatalf("%+v, %v", s, err)
	}
}
