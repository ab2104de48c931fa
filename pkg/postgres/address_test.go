package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hanjul/pkg/config"
	"hanjul/pkg/postgres"
)

// word is the password in every URL here; no error may show it.
const word = "p4ss%2Fw0rd"

func TestReadTakesWhatIsRight(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	for name, environ := range map[string][]string{
		"a server":             {"HANJUL_POSTGRES_URL=postgres://u:" + word + "@db:5432/hanjul"},
		"several":              {"HANJUL_POSTGRES_URL=postgresql://u:" + word + "@a:5432,b:5433/hanjul?sslmode=require&target_session_attrs=read-write"},
		"a socket":             {"HANJUL_POSTGRES_URL=postgres:///hanjul?host=/run/postgresql"},
		"a pooler":             {"HANJUL_POSTGRES_URL=postgres://u:" + word + "@pooler:6432/hanjul", "HANJUL_POSTGRES_DIRECT_URL=postgres://u:" + word + "@db/hanjul", "HANJUL_POSTGRES_SCHEMA=staging_2"},
		"an authority":         {"HANJUL_POSTGRES_URL=postgres://u:" + word + "@db/hanjul", "HANJUL_API_POSTGRES_CA_FILE=" + ca},
		"an authority, a mode": {"HANJUL_POSTGRES_URL=postgres://u:" + word + "@db/hanjul?sslmode=verify-ca", "HANJUL_POSTGRES_CA_FILE=" + ca},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := config.NewSource(environ, "API")
			a := postgres.Read(s)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprintf("%v %+v %#v", a, a, a); strings.Contains(text, word) {
				t.Fatal(text)
			}
			pool, err := postgres.Open(t.Context(), a, postgres.Config{})
			if err != nil {
				t.Fatal(err)
			}
			pool.Close()
		})
	}
}

func TestReadTellsEveryFault(t *testing.T) {
	t.Parallel()
	ca, empty := authority(t), filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const fine = "HANJUL_POSTGRES_URL=postgres://u:" + word + "@db/hanjul"
	for name, c := range map[string]struct {
		environ []string
		want    []string // one for each fault, in their order
	}{
		"nothing":         {nil, []string{"HANJUL_API_POSTGRES_URL: found nothing, expected a postgres:// URL, there or in the file named by"}},
		"no URL":          {[]string{"HANJUL_POSTGRES_URL=host=db password=" + word}, []string{"HANJUL_POSTGRES_URL: found no URL, expected postgres://"}},
		"another scheme":  {[]string{"HANJUL_POSTGRES_URL=mysql://u:" + word + "@db/x"}, []string{"HANJUL_POSTGRES_URL: found no URL, expected postgres://"}},
		"a bad port":      {[]string{"HANJUL_POSTGRES_URL=postgres://u:" + word + "@db:port/x"}, []string{"HANJUL_POSTGRES_URL: it does not parse: expected postgres://"}},
		"a raw password":  {[]string{"HANJUL_POSTGRES_URL=postgres://u:" + word + "%zz@db/x"}, []string{"HANJUL_POSTGRES_URL: it does not parse"}},
		"sslmode":         {[]string{fine + "?sslmode=always"}, []string{"HANJUL_POSTGRES_URL: sslmode is unknown: expected one of disable, allow, prefer, require, verify-ca, verify-full"}},
		"a socket":        {[]string{"HANJUL_POSTGRES_URL=postgres://u:" + word + "@/x?host=/run/postgresql&sslmode=verify-full"}, []string{"sslmode=verify-full is impossible over the Unix socket /run/postgresql"}},
		"a root":          {[]string{fine + "?sslmode=verify-full&sslrootcert=/nowhere/root.pem"}, []string{"HANJUL_POSTGRES_URL: a file that it names cannot be read: open /nowhere/root.pem"}},
		"two authorities": {[]string{fine + "?sslrootcert=" + ca, "HANJUL_POSTGRES_CA_FILE=" + ca}, []string{"HANJUL_POSTGRES_URL: sslrootcert stands beside POSTGRES_CA_FILE"}},
		"no use of it":    {[]string{fine + "?sslmode=prefer", "HANJUL_POSTGRES_CA_FILE=" + ca}, []string{"HANJUL_POSTGRES_URL: with sslmode=prefer POSTGRES_CA_FILE protects nothing: expected verify-full"}},
		"direct alone": {[]string{"HANJUL_POSTGRES_DIRECT_URL=db/" + word}, []string{
			"HANJUL_API_POSTGRES_URL: found nothing", "HANJUL_POSTGRES_DIRECT_URL: found no URL, expected postgres://",
		}},
		"all at once": {[]string{
			fine + "?sslmode=x", "HANJUL_API_POSTGRES_DIRECT_URL=postgres://u:" + word + "@db:0x/y", "HANJUL_POSTGRES_SCHEMA=Staging", "HANJUL_POSTGRES_CA_FILE=" + empty,
		}, []string{
			`HANJUL_POSTGRES_SCHEMA: found "Staging", expected a lower-case letter or _`,
			"HANJUL_POSTGRES_CA_FILE: " + empty + " holds no certificate; expected some in PEM",
			"HANJUL_POSTGRES_URL: sslmode is unknown", "HANJUL_API_POSTGRES_DIRECT_URL: it does not parse",
		}},
		"the server's own": {[]string{fine, "HANJUL_POSTGRES_SCHEMA=pg_mine"}, []string{`HANJUL_POSTGRES_SCHEMA: found "pg_mine", expected`}},
		"no such file":     {[]string{fine, "HANJUL_POSTGRES_CA_FILE=/nowhere/ca.pem"}, []string{"HANJUL_POSTGRES_CA_FILE: open /nowhere/ca.pem: no such file or directory; expected a readable file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := config.NewSource(c.environ, "API")
			postgres.Read(s)
			lines := strings.Split(fmt.Sprint(s.Err()), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("%d faults, want %d:\n%s", len(lines), len(c.want), strings.Join(lines, "\n"))
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("found %q\nwant  %q", lines[i], want)
				}
				if strings.Contains(lines[i], word) {
					t.Errorf("shows the password: %s", lines[i])
				}
			}
		})
	}
}

// An address that was read from nowhere hides its password too.
func TestOpenHidesThePassword(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.At("postgres://u:"+word+"@db:port/x"), postgres.Config{})
	if err == nil || strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), "POSTGRES_URL: it does not parse") {
		t.Fatal(err)
	}
}
