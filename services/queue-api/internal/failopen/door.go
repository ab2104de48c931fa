// Package failopen says who is let in while Redis is away, where the operators chose that (F39): so many people a second as its rate
// allows, whoever comes first, by the clock and the memory of this process alone. It knows no line, and it signs nothing. Before it are the
// handlers of httpapi.
package failopen

import (
	"crypto/rand"
	"encoding/base64"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"hanjul/pkg/product"
)

// grantsMost bounds the people remembered; each takes about 200 bytes. Beyond it nobody new is let in.
const grantsMost = 1_000_000

// Grant is one person's.
type Grant struct {
	Nonce    string // 16 random bytes in base64url
	At, Ends time.Time
}

// Door lets people in. Safe for concurrent use.
type Door struct {
	now func() time.Time

	mu     sync.Mutex
	bucket *rate.Limiter
	grants map[person]Grant
	sweep  int // so many grants until those that ended are looked for
}

type person struct {
	product product.ID
	user    product.UserHash
}

// sweepLeast is the least number of grants to look through.
const sweepLeast = 1024

// New makes a door for so many people a second, above 0, and at first for those of one second at once, one at least. A nil clock means
// time.Now.
func New(perSecond float64, now func() time.Time) *Door {
	if now == nil {
		now = time.Now
	}
	burst := max(1, int(math.Ceil(perSecond)))
	return &Door{now: now, bucket: rate.NewLimiter(rate.Limit(perSecond), burst), grants: map[person]Grant{}, sweep: sweepLeast}
}

// Let lets a person in for a time, or says no. Whoever was let in and asks again before its end gets the same grant, which counts once.
func (d *Door) Let(p product.ID, u product.UserHash, life time.Duration) (Grant, bool) {
	who, now := person{p, u}, d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.grants[who]; now.Before(known.Ends) {
		return known, true
	}
	if len(d.grants) >= d.sweep {
		for other, grant := range d.grants {
			if !now.Before(grant.Ends) {
				delete(d.grants, other)
			}
		}
		d.sweep = max(sweepLeast, 2*len(d.grants))
	}
	if len(d.grants) >= grantsMost || !d.bucket.AllowN(now, 1) {
		return Grant{}, false
	}
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails
	grant := Grant{base64.RawURLEncoding.EncodeToString(nonce[:]), now, now.Add(life)}
	d.grants[who] = grant
	return grant, true
}
