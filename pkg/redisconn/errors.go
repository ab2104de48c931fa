package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnfit says that waiting does not help: the settings or the server must be changed, and the error says which and how.
var ErrUnfit = errors.New("redis cannot be worked with")

func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnfit, fmt.Errorf(format, args...))
}

// explain names the setting behind an error of the library that no waiting mends; others it leaves as they are.
func explain(err error) error {
	if err == nil || errors.Is(err, ErrUnfit) {
		return err
	}
	text := err.Error()
	says := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	var (
		authority   x509.UnknownAuthorityError
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority):
		return unfit("REDIS_CA_FILE: it does not hold who signed the certificate of Redis: %w", err)
	case errors.As(err, &certificate):
		return unfit("REDIS_ADDRS or REDIS_URL: the certificate of Redis is for another name, or not valid now: %w", err)
	case says("WRONGPASS", "NOAUTH"):
		return unfit("REDIS_USER and REDIS_PASSWORD, or those in REDIS_URL: Redis does not know this user with this password: %w", err)
	case says("NOPERM"):
		return unfit("REDIS_USER: this user may not do what the service needs; docs/deploy.md has the rules for it: %w", err)
	case says("cluster support disabled"):
		return unfit("REDIS_MODE is cluster and the server is run without, expected REDIS_MODE=standalone, or sentinel with the Sentinels' addresses: %w", err)
	case says("all sentinels") && errors.Is(err, redis.Nil):
		return unfit("REDIS_MASTER: the Sentinels know no master of this name: %w", err)
	case says("all sentinels") && says("unknown command"):
		return unfit("REDIS_ADDRS: expected the Sentinels, with REDIS_MODE=sentinel: %w", err)
	default:
		return err
	}
}
