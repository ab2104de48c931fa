package postgres

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"hanjul/pkg/config"
)

// Address is where the ledger's database is and how to go there. It shows no password, however it is printed.
type Address struct {
	URL config.Secret
	// Direct is the server itself where URL leads through a pooler, for what lives in a session; zero: URL.
	Direct config.Secret
	// Schema holds every table; "" means that of the connection's own search path.
	Schema string
	// CAFile has the certificates, PEM, that the server's must come from; "" leaves that to the URL.
	CAFile string
}

// At is the address with the defaults for everything but the URL.
func At(url string) Address { return Address{URL: config.NewSecret(url)} }

const (
	urlForm    = "postgres://user:password@host:port/database"
	schemaForm = "a lower-case letter or _, then lower-case letters, digits and _, 63 at most, and not pg_ at its begin"
)

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// Read reads the settings POSTGRES_URL, POSTGRES_DIRECT_URL, POSTGRES_SCHEMA and POSTGRES_CA_FILE. Faults are the source's to tell.
func Read(s *config.Source) Address {
	const direct, schema, ca = "POSTGRES_DIRECT_URL", "POSTGRES_SCHEMA", "POSTGRES_CA_FILE"
	a := Address{
		URL: s.Secret("POSTGRES_URL", "a postgres:// URL",
			"where the ledger is: the server itself, or a pooler such as PgBouncer where POSTGRES_DIRECT_URL is set too; how the connection is protected says its sslmode"),
		Direct: s.OptionalSecret(direct, "a postgres:// URL",
			"the same database at the server itself, for locks that live in a session; to be set for all services where POSTGRES_URL leads through a pooler"),
		Schema: s.String(schema, "", schemaForm, "the schema that holds every table; without it the first one of the connection's search path, usually public"),
		CAFile: s.String(ca, "", "a file with certificates in PEM", "certificates that the server's must come from; sslmode is then verify-full unless the URL says verify-ca or require"),
	}
	if a.Schema != "" && (!schemaName.MatchString(a.Schema) || strings.HasPrefix(a.Schema, "pg_")) {
		s.Fault(schema, "found %q, expected %s", a.Schema, schemaForm)
	}
	if err := readableCA(a.CAFile); err != nil {
		s.Fault(ca, "%w", err)
		a.CAFile = ""
	}
	for _, one := range []struct {
		name   string
		secret config.Secret
	}{{"POSTGRES_URL", a.URL}, {direct, a.Direct}} {
		if one.secret.IsZero() {
			continue
		}
		if _, err := a.parse(one.secret); err != nil {
			s.Fault(one.name, "%w", err)
		}
	}
	return a
}

func readableCA(path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w; expected a readable file with certificates in PEM", err)
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return fmt.Errorf("%s holds no certificate; expected some in PEM, -----BEGIN CERTIFICATE-----", path)
	}
	return nil
}

// pooled says whether the URL leads through a pooler that keeps no session, so that settings must come with each transaction.
func (a Address) pooled() bool { return !a.Direct.IsZero() && a.Direct != a.URL }

// session is the address for what lives in a session.
func (a Address) session() config.Secret {
	if a.Direct.IsZero() {
		return a.URL
	}
	return a.Direct
}

// parse never puts anything of the URL into an error that could be its password.
func (a Address) parse(secret config.Secret) (*pgxpool.Config, error) {
	text := secret.Reveal()
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		return nil, errors.New("found no URL, expected " + urlForm)
	}
	_, query, _ := strings.Cut(text, "?")
	params, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("its parameters do not parse: expected " + urlForm + "?name=value&name=value")
	}
	mode := params.Get("sslmode")
	if mode != "" && !slices.Contains([]string{"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}, mode) {
		return nil, errors.New("sslmode is unknown: expected one of disable, allow, prefer, require, verify-ca, verify-full")
	}
	if a.CAFile != "" {
		if params.Has("sslrootcert") {
			return nil, errors.New("sslrootcert stands beside POSTGRES_CA_FILE: expected one of the two")
		}
		extra := "sslrootcert=" + url.QueryEscape(a.CAFile)
		switch mode {
		case "":
			mode, extra = "verify-full", extra+"&sslmode=verify-full"
		case "disable", "allow", "prefer":
			return nil, fmt.Errorf("with sslmode=%s POSTGRES_CA_FILE protects nothing: expected verify-full, verify-ca or require", mode)
		}
		if strings.Contains(text, "?") {
			extra = "&" + extra
		} else {
			extra = "?" + extra
		}
		text += extra
	}
	pc, err := pgxpool.ParseConfig(text)
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return nil, fmt.Errorf("a file that it names cannot be read: %w", file)
	}
	if err != nil {
		return nil, errors.New("it does not parse: expected " + urlForm + ", with characters such as @ / ? # % in user and password percent-encoded")
	}
	if strings.HasPrefix(mode, "verify-") {
		for _, host := range append([]string{pc.ConnConfig.Host}, fallbacks(pc)...) {
			if strings.HasPrefix(host, "/") {
				return nil, fmt.Errorf("sslmode=%s is impossible over the Unix socket %s: expected a host's name, or no sslmode", mode, host)
			}
		}
	}
	return pc, nil
}

func fallbacks(pc *pgxpool.Config) (hosts []string) {
	for _, f := range pc.ConnConfig.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	return hosts
}
