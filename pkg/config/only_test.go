package config_test

import (
	"fmt"
	"testing"

	"hanjul/pkg/config"
)

func TestOnly(t *testing.T) {
	t.Parallel()
	load := func(s *config.Source) [2]string {
		return [2]string{s.Addr("LISTEN", ":1", "where"), s.OptionalSecret("KEY", "a key", "signs").Reveal()}
	}
	environ := []string{"HANJUL_LISTEN=:2", "HANJUL_API_KEY=k", "HANJUL_API_OTHER=x", "HANJUL_API_LITSEN=:3"}
	if got, err := config.Only(environ, "API", load); err != nil || got != [2]string{":2", "k"} {
		t.Fatal(got, err)
	}
	_, err := config.Only(append(environ, "HANJUL_API_LISTEN=no", "HANJUL_KEY_FILE=/none/there"), "API", load)
	want := "HANJUL_API_LISTEN: found \"no\", expected host:port"
	if fmt.Sprint(err) != want {
		t.Fatal(err)
	}
}
