package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"hanjul/pkg/config"
)

// defaultPort is the port of an address in REDIS_URL that names none.
const defaultPort = "6379"

// Read takes from the settings how Redis is reached: REDIS_URL or REDIS_ADDRS, REDIS_MODE, and who the service is there. Faults are the
// source's to tell; each names the setting and what was expected. Settings that contradict each other are a fault, because whichever
// were taken, somebody meant the other. What the service chooses itself (Timeout, PoolSize, ClientName) is left to it.
func Read(s *config.Source) Config {
	r := reader{s}
	address := s.OptionalSecret("REDIS_URL", "redis://user:password@host:port or, for TLS, rediss://...",
		"where Redis is, and who the service is there, in one; instead of REDIS_ADDRS")
	addrs := r.addrs()
	c := Config{
		Addrs:    addrs,
		Mode:     Mode(s.Choice("REDIS_MODE", string(Cluster), "how Redis is run: a cluster, one server, or a master that Sentinels know", string(Cluster), string(Standalone), string(Sentinel))),
		Master:   s.String("REDIS_MASTER", "", "a master's name", "what the Sentinels call the master; in mode sentinel"),
		Username: s.String("REDIS_USER", "", "a user's name", "who the service is in Redis; empty: the default user"),
		Password: s.OptionalSecret("REDIS_PASSWORD", "a password", "the password of REDIS_USER"),

		SentinelUsername: s.String("REDIS_SENTINEL_USER", "", "a user's name", "who the service is for the Sentinels; in mode sentinel"),
		SentinelPassword: s.OptionalSecret("REDIS_SENTINEL_PASSWORD", "a password", "the password of REDIS_SENTINEL_USER, or of the Sentinels"),
	}
	encrypted := s.Choice("REDIS_TLS", "off", "whether Redis, and Sentinels, are spoken to by TLS; rediss:// in REDIS_URL means on", "on", "off") == "on"
	if !address.IsZero() {
		encrypted = r.url(address.Reveal(), &c, encrypted)
	}
	r.relate(c, address.IsZero())
	if file := s.String("REDIS_CA_FILE", "", "a file with PEM certificates", "who may have signed the certificate of Redis; empty: whom this machine trusts"); file != "" && !encrypted {
		s.Fault("REDIS_CA_FILE", "expected REDIS_TLS=on or a rediss:// REDIS_URL beside it")
	} else if encrypted {
		c.TLS = r.tls(file)
	}
	return c
}

// ReadKeyPrefix takes KEY_PREFIX from the settings, which begins every key and channel and keeps stacks that share a Redis apart.
func ReadKeyPrefix(s *config.Source) string {
	const name = "KEY_PREFIX"
	prefix := s.String(name, "hanjul:", `a text without blanks and {}*?[]\`, "begins the name of every Redis key and channel; another for each deployment that shares a Redis")
	if strings.ContainsAny(prefix, "{}") {
		s.Fault(name, "expected no braces, which would move the keys' slots")
	}
	if strings.ContainsAny(prefix, "*?[]\\ \t\r\n") {
		s.Fault(name, `expected no blanks and none of *?[]\, which mean more than themselves in the rules of a Redis user`)
	}
	return prefix
}

// reader reads settings, and notes faults, one after the other.
type reader struct{ *config.Source }

func (r reader) addrs() []string {
	const name = "REDIS_ADDRS"
	addrs := r.List(name, "", "host:port", "Redis in cluster mode: any nodes; standalone: the one server; sentinel: the Sentinels. Needed unless REDIS_URL is set")
	if i := slices.IndexFunc(addrs, func(addr string) bool { return !isAddr(addr) }); i >= 0 {
		r.Fault(name, "found %q, expected host:port,host:port,...", addrs[i])
	}
	return addrs
}

// url takes the address, the user and the password out of REDIS_URL. The text is a secret, so no fault quotes it. It returns whether
// the connection is encrypted.
func (r reader) url(text string, c *Config, encrypted bool) bool {
	const name, form = "REDIS_URL", "expected redis://user:password@host:port or rediss://..."
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" {
		r.Fault(name, form+"; special characters of a password are written as in %%2F")
		return encrypted
	}
	if path := strings.Trim(u.Path, "/"); path != "" && path != "0" {
		r.Fault(name, "expected no number of a database behind the host; KEY_PREFIX keeps deployments apart, channels too")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		r.Fault(name, form+" and nothing behind it")
	}
	if c.Mode == Sentinel {
		r.Fault(name, "expected nothing in mode sentinel; the Sentinels are named in REDIS_ADDRS")
	}
	if len(c.Addrs) > 0 {
		r.Fault("REDIS_ADDRS", "expected nothing beside REDIS_URL, which is an address too")
	}
	addr := net.JoinHostPort(u.Hostname(), defaultPort)
	if u.Port() != "" {
		addr = net.JoinHostPort(u.Hostname(), u.Port())
	}
	if !isAddr(addr) {
		r.Fault(name, form+" with a port from 1 to 65535")
	}
	c.Addrs = []string{addr}
	if password, _ := u.User.Password(); password != "" {
		if c.Username != "" {
			r.Fault("REDIS_USER", "expected nothing beside a REDIS_URL with a password in it")
		}
		if !c.Password.IsZero() {
			r.Fault("REDIS_PASSWORD", "expected nothing beside a REDIS_URL with a password in it")
		}
		c.Username, c.Password = u.User.Username(), config.NewSecret(password)
	} else if u.User.String() != "" {
		r.Fault(name, "found a user without a password, expected both or neither")
	}
	switch given := r.given("REDIS_TLS"); {
	case u.Scheme == "rediss" && given && !encrypted:
		r.Fault("REDIS_TLS", "found off beside a rediss:// REDIS_URL, expected on, or redis:// in REDIS_URL")
	case u.Scheme == "redis" && encrypted:
		r.Fault("REDIS_TLS", "found on beside a redis:// REDIS_URL, expected off, or rediss:// in REDIS_URL")
	}
	return encrypted || u.Scheme == "rediss"
}

// relate finds settings that contradict each other; apart says that the address stands in no URL.
func (r reader) relate(c Config, apart bool) {
	if apart && len(c.Addrs) == 0 {
		r.Fault("REDIS_ADDRS", "found nothing, expected host:port,host:port,..., or an address in REDIS_URL")
	}
	if c.Username != "" && c.Password.IsZero() {
		r.Fault("REDIS_PASSWORD", "found nothing, expected the password of REDIS_USER")
	}
	if c.Mode == Standalone && len(c.Addrs) > 1 {
		r.Fault("REDIS_ADDRS", "found %d addresses, expected one with REDIS_MODE=standalone", len(c.Addrs))
	}
	if c.Mode == Sentinel {
		if c.Master == "" {
			r.Fault("REDIS_MASTER", "found nothing, expected what the Sentinels call the master, with REDIS_MODE=sentinel")
		}
		if c.SentinelUsername != "" && c.SentinelPassword.IsZero() {
			r.Fault("REDIS_SENTINEL_PASSWORD", "found nothing, expected the password of REDIS_SENTINEL_USER")
		}
		return
	}
	for _, only := range []struct {
		name string
		set  bool
	}{{"REDIS_MASTER", c.Master != ""}, {"REDIS_SENTINEL_USER", c.SentinelUsername != ""}, {"REDIS_SENTINEL_PASSWORD", !c.SentinelPassword.IsZero()}} {
		if only.set {
			r.Fault(only.name, "expected nothing unless REDIS_MODE=sentinel, found REDIS_MODE=%s", c.Mode)
		}
	}
}

// tls trusts the certificates of a file, or this machine's.
func (r reader) tls(file string) *tls.Config {
	const name = "REDIS_CA_FILE"
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return c
	}
	text, err := os.ReadFile(file)
	if err != nil {
		r.Fault(name, "expected a readable file with PEM certificates: %w", err)
		return c
	}
	if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
		r.Fault(name, "found no certificate in %s, expected PEM (-----BEGIN CERTIFICATE-----)", file)
	}
	return c
}

// given says whether a setting that was read is set, also to its default.
func (r reader) given(name string) bool {
	return slices.ContainsFunc(r.Settings(), func(setting config.Setting) bool { return setting.Name == name && setting.From != "" })
}

func isAddr(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, notNumber := strconv.Atoi(port)
	return err == nil && notNumber == nil && host != "" && n > 0 && n <= 65535
}
