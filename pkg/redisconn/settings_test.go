package redisconn_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hanjul/pkg/config"
	"hanjul/pkg/redisconn"
)

const (
	addrs  = "HANJUL_REDIS_ADDRS=a:1,b:2"
	hushed = "hu5h-hu5h"
)

func read(environ ...string) (redisconn.Config, error) {
	s := config.NewSource(environ, "API")
	c := redisconn.Read(s)
	redisconn.ReadKeyPrefix(s)
	return c, s.Err()
}

func TestRead(t *testing.T) {
	t.Parallel()
	secret := config.NewSecret(hushed)
	for name, tt := range map[string]struct {
		environ []string
		want    redisconn.Config
		tls     bool
	}{
		"ACluster":         {[]string{addrs}, redisconn.Config{Addrs: []string{"a:1", "b:2"}, Mode: redisconn.Cluster}, false},
		"OneServer":        {[]string{"HANJUL_REDIS_ADDRS=a:1", "HANJUL_REDIS_MODE=standalone"}, redisconn.Config{Addrs: []string{"a:1"}, Mode: redisconn.Standalone}, false},
		"AUser":            {[]string{addrs, "HANJUL_REDIS_USER=u", "HANJUL_REDIS_PASSWORD=" + hushed}, redisconn.Config{Addrs: []string{"a:1", "b:2"}, Mode: redisconn.Cluster, Username: "u", Password: secret}, false},
		"APassword":        {[]string{addrs, "HANJUL_REDIS_PASSWORD=" + hushed, "HANJUL_REDIS_TLS=on"}, redisconn.Config{Addrs: []string{"a:1", "b:2"}, Mode: redisconn.Cluster, Password: secret}, true},
		"AURL":             {[]string{"HANJUL_REDIS_URL=redis://u:" + hushed + "@a:1/0"}, redisconn.Config{Addrs: []string{"a:1"}, Mode: redisconn.Cluster, Username: "u", Password: secret}, false},
		"AURLWithTLS":      {[]string{"HANJUL_REDIS_URL=rediss://:" + hushed + "@[::1]", "HANJUL_REDIS_MODE=standalone"}, redisconn.Config{Addrs: []string{"[::1]:6379"}, Mode: redisconn.Standalone, Password: secret}, true},
		"ATwistedPassword": {[]string{"HANJUL_REDIS_URL=redis://u:%2F%40%3A@a:1"}, redisconn.Config{Addrs: []string{"a:1"}, Mode: redisconn.Cluster, Username: "u", Password: config.NewSecret("/@:")}, false},
		"AURLAndAUser":     {[]string{"HANJUL_REDIS_URL=redis://a:1", "HANJUL_REDIS_USER=u", "HANJUL_REDIS_PASSWORD=" + hushed}, redisconn.Config{Addrs: []string{"a:1"}, Mode: redisconn.Cluster, Username: "u", Password: secret}, false},
		"Sentinels": {
			[]string{addrs, "HANJUL_REDIS_MODE=sentinel", "HANJUL_REDIS_MASTER=m", "HANJUL_REDIS_SENTINEL_USER=s", "HANJUL_REDIS_SENTINEL_PASSWORD=" + hushed},
			redisconn.Config{Addrs: []string{"a:1", "b:2"}, Mode: redisconn.Sentinel, Master: "m", SentinelUsername: "s", SentinelPassword: secret},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := read(tt.environ...)
			if err != nil {
				t.Fatal(err)
			}
			if (got.TLS != nil) != tt.tls {
				t.Errorf("tls: %v, expected %t", got.TLS, tt.tls)
			}
			got.TLS = nil
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(config.Secret{})); diff != "" {
				t.Fatal(diff)
			}
			if err := got.Validate(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Each setting wrong once: the fault names the setting and what was expected, and never a secret.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	noCertificate := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(noCertificate, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "HANJUL_REDIS_URL=redis://u:" + hushed + "@a:1"
	for name, tt := range map[string]struct {
		environ []string
		want    string // the one fault, or its beginning
	}{
		"Nothing":              {nil, "HANJUL_API_REDIS_ADDRS: found nothing, expected host:port,host:port,..., or an address in REDIS_URL"},
		"AnAddressWithoutPort": {[]string{"HANJUL_REDIS_ADDRS=a:1,b"}, `HANJUL_REDIS_ADDRS: found "b", expected host:port`},
		"APortTooHigh":         {[]string{"HANJUL_REDIS_ADDRS=a:70000"}, `HANJUL_REDIS_ADDRS: found "a:70000", expected host:port`},
		"AnUnknownMode":        {[]string{addrs, "HANJUL_REDIS_MODE=single"}, `HANJUL_REDIS_MODE: found "single", expected one of: cluster, standalone, sentinel`},
		"TwoServersAlone":      {[]string{addrs, "HANJUL_REDIS_MODE=standalone"}, "HANJUL_REDIS_ADDRS: found 2 addresses, expected one with REDIS_MODE=standalone"},
		"SentinelsOfNoMaster":  {[]string{addrs, "HANJUL_REDIS_MODE=sentinel"}, "HANJUL_API_REDIS_MASTER: found nothing, expected what the Sentinels call the master"},
		"AMasterOfACluster":    {[]string{addrs, "HANJUL_REDIS_MASTER=m"}, "HANJUL_REDIS_MASTER: expected nothing unless REDIS_MODE=sentinel, found REDIS_MODE=cluster"},
		"ASentinelsUser": {
			[]string{addrs, "HANJUL_REDIS_MODE=sentinel", "HANJUL_REDIS_MASTER=m", "HANJUL_REDIS_SENTINEL_USER=s"},
			"HANJUL_API_REDIS_SENTINEL_PASSWORD: found nothing, expected the password of REDIS_SENTINEL_USER",
		},
		"ASentinelsUserOfACluster":     {[]string{addrs, "HANJUL_REDIS_SENTINEL_USER=s"}, "HANJUL_REDIS_SENTINEL_USER: expected nothing unless REDIS_MODE=sentinel"},
		"ASentinelsPasswordOfACluster": {[]string{addrs, "HANJUL_REDIS_SENTINEL_PASSWORD=" + hushed}, "HANJUL_REDIS_SENTINEL_PASSWORD: expected nothing unless REDIS_MODE=sentinel"},
		"AUserWithoutPassword":         {[]string{addrs, "HANJUL_REDIS_USER=u"}, "HANJUL_API_REDIS_PASSWORD: found nothing, expected the password of REDIS_USER"},
		"AUserTwice":                   {[]string{url, "HANJUL_REDIS_USER=u"}, "HANJUL_REDIS_USER: expected nothing beside a REDIS_URL with a password in it"},
		"APasswordTwice":               {[]string{url, "HANJUL_REDIS_PASSWORD=" + hushed}, "HANJUL_REDIS_PASSWORD: expected nothing beside a REDIS_URL with a password in it"},
		"AURLAndAddresses":             {[]string{url, addrs}, "HANJUL_REDIS_ADDRS: expected nothing beside REDIS_URL, which is an address too"},
		"AURLOfSentinels":              {[]string{url, "HANJUL_REDIS_MODE=sentinel", "HANJUL_REDIS_MASTER=m"}, "HANJUL_REDIS_URL: expected nothing in mode sentinel; the Sentinels are named in REDIS_ADDRS"},
		"AURLOfAnotherKind":            {[]string{"HANJUL_REDIS_URL=https://u:" + hushed + "@a:1"}, "HANJUL_REDIS_URL: expected redis://user:password@host:port or rediss://"},
		"AURLThatIsNone":               {[]string{"HANJUL_REDIS_URL=redis://u:" + hushed + "%zz@a:1"}, "HANJUL_REDIS_URL: expected redis://user:password@host:port or rediss://"},
		"AURLWithoutHost":              {[]string{"HANJUL_REDIS_URL=redis://u:" + hushed + "@"}, "HANJUL_REDIS_URL: expected redis://user:password@host:port or rediss://"},
		"AURLWithAPortTooHigh":         {[]string{"HANJUL_REDIS_URL=redis://u:" + hushed + "@a:70000"}, "HANJUL_REDIS_URL: expected redis://user:password@host:port or rediss://... with a port"},
		"AURLWithAUserAlone":           {[]string{"HANJUL_REDIS_URL=redis://" + hushed + "@a:1"}, "HANJUL_REDIS_URL: found a user without a password, expected both or neither"},
		"AURLWithADatabase":            {[]string{url + "/3"}, "HANJUL_REDIS_URL: expected no number of a database behind the host"},
		"AURLWithOptions":              {[]string{url + "?read_timeout=1s"}, "HANJUL_REDIS_URL: expected redis://user:password@host:port or rediss://... and nothing behind it"},
		"AURLThatForbidsTLS":           {[]string{url, "HANJUL_REDIS_TLS=on"}, "HANJUL_REDIS_TLS: found on beside a redis:// REDIS_URL, expected off"},
		"AURLWithTLSThatIsOff":         {[]string{strings.Replace(url, "redis:", "rediss:", 1), "HANJUL_REDIS_TLS=off"}, "HANJUL_REDIS_TLS: found off beside a rediss:// REDIS_URL, expected on"},
		"TLSPerhaps":                   {[]string{addrs, "HANJUL_REDIS_TLS=true"}, `HANJUL_REDIS_TLS: found "true", expected one of: on, off`},
		"ACAWithoutTLS":                {[]string{addrs, "HANJUL_REDIS_CA_FILE=" + noCertificate}, "HANJUL_REDIS_CA_FILE: expected REDIS_TLS=on or a rediss:// REDIS_URL beside it"},
		"ACAThatIsGone":                {[]string{addrs, "HANJUL_REDIS_TLS=on", "HANJUL_REDIS_CA_FILE=/nowhere/ca.pem"}, "HANJUL_REDIS_CA_FILE: expected a readable file with PEM certificates: open /nowhere/ca.pem"},
		"ACAThatIsNone":                {[]string{addrs, "HANJUL_REDIS_TLS=on", "HANJUL_REDIS_CA_FILE=" + noCertificate}, "HANJUL_REDIS_CA_FILE: found no certificate in "},
		"APrefixWithBraces":            {[]string{addrs, "HANJUL_KEY_PREFIX=a{b}"}, "HANJUL_KEY_PREFIX: expected no braces"},
		"APrefixThatMatchesMore":       {[]string{addrs, "HANJUL_KEY_PREFIX=a*:"}, "HANJUL_KEY_PREFIX: expected no blanks and none of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := read(tt.environ...)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("faults:\n%v\nexpected one:\n%s", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), hushed) {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}

	t.Run("AllAtOnce", func(t *testing.T) {
		t.Parallel()
		_, err := read("HANJUL_REDIS_URL=nothing", "HANJUL_REDIS_ADDRS=a", "HANJUL_REDIS_MODE=any", "HANJUL_REDIS_MASTER=m", "HANJUL_REDIS_USER=u",
			"HANJUL_REDIS_SENTINEL_USER=s", "HANJUL_REDIS_TLS=maybe", "HANJUL_REDIS_CA_FILE=/nowhere", "HANJUL_KEY_PREFIX={")
		for _, name := range []string{"URL", "ADDRS", "MODE", "MASTER", "PASSWORD", "SENTINEL_USER", "TLS", "CA_FILE"} {
			if err == nil || !strings.Contains(err.Error(), "REDIS_"+name+": ") {
				t.Errorf("nothing about REDIS_%s in:\n%v", name, err)
			}
		}
	})
}
