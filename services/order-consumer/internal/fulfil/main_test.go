package fulfil

import (
	"crypto/ed25519"
	"encoding/base64"
	"testing"
	"time"

	"hanjul/deploy/local/localtest"
	"hanjul/pkg/kafka"
	"hanjul/pkg/keyring"
	"hanjul/pkg/order"
	"hanjul/pkg/pass"
	"hanjul/pkg/product"
)

func TestMain(m *testing.M) { localtest.Main(m) }

// key is a key of 32 equal bytes.
func key(t testing.TB, kid string, fill byte) keyring.Key {
	t.Helper()
	secret := make([]byte, ed25519.SeedSize)
	for i := range secret {
		secret[i] = fill
	}
	k, err := keyring.Parse(kid + ":" + base64.RawURLEncoding.EncodeToString(secret))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// world has every key of a deployment.
type world struct {
	signer            *pass.Signer
	user, order, mac  keyring.Key
	verifier          Verifier
	recorded, openeds time.Time
}

func newWorld(t testing.TB) world {
	t.Helper()
	signer, err := pass.NewSigner(key(t, "pass1", 1))
	if err != nil {
		t.Fatal(err)
	}
	w := world{
		signer: signer, user: key(t, "user1", 2), order: key(t, "order1", 3), mac: key(t, "mac1", 4),
		recorded: time.UnixMilli(1_800_000_000_000), openeds: time.UnixMilli(1_700_000_000_000),
	}
	w.verifier = Verifier{Passes: signer.Verifier(), Commands: keyring.Ring{w.mac}, Users: w.user}
	return w
}

// pass is the pass of a user's place.
func (w world) pass(p product.ID, user product.UserID, n product.Place) pass.Pass {
	return pass.Pass{
		User: user, Product: p, Place: n, OrderID: order.DeriveID(w.order, p, product.HashUser(w.user, user), n, w.openeds.UnixMicro()),
		Epoch: 1, Admitted: w.recorded, IssuedAt: w.recorded, ExpiresAt: w.recorded.Add(-time.Hour), // its expiry is nobody's business here
	}
}

// place is the command that the API makes of a pass.
func (w world) place(t testing.TB, p pass.Pass, quantity int) order.Command {
	t.Helper()
	text, err := w.signer.Sign(p)
	if err != nil {
		t.Fatal(err)
	}
	return order.Command{
		Kind: order.KindPlace, ID: string(p.OrderID), Product: p.Product, OrderID: p.OrderID, User: p.User, Place: p.Place,
		Quantity: quantity, Pass: text, DeadlineMS: w.recorded.Add(time.Minute).UnixMilli(),
	}
}

// direct is the command that the API makes of an Idempotency-Key while the queue is off.
func (w world) direct(t testing.TB, user product.UserID, idempotencyKey string, quantity int) order.Command {
	t.Helper()
	id := order.DeriveDirectID(w.order, "p", product.HashUser(w.user, user), idempotencyKey)
	return w.signed(t, order.Command{
		Kind: order.KindPlace, ID: string(id), Product: "p", OrderID: id, User: user, Quantity: quantity,
		IdempotencyKey: idempotencyKey, DeadlineMS: w.recorded.Add(time.Minute).UnixMilli(),
	})
}

func (w world) signed(t testing.TB, c order.Command) order.Command {
	t.Helper()
	c, err := c.Sign(w.mac)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// record is the command as it stands in the log.
func (w world) record(t testing.TB, c order.Command) kafka.Message {
	t.Helper()
	value, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return kafka.Message{Topic: "orders", Time: w.recorded, Key: []byte(c.Product), Value: value}
}
