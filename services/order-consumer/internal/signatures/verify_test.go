package signatures_test

import (
	"crypto/ed25519"
	"fmt"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"hanjul/services/order-consumer/internal/signatures"
)

// signed makes n texts and their signatures.
func signed(key ed25519.PrivateKey, n int) (texts, sigs [][]byte) {
	for i := range n {
		text := fmt.Appendf(nil, "pass %d", i)
		texts, sigs = append(texts, text), append(sigs, ed25519.Sign(key, text))
	}
	return texts, sigs
}

func privateKey(fill byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(slices.Repeat([]byte{fill}, ed25519.SeedSize))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// Whatever is done to one of many, the whole says what the standard library says of each.
func TestVerifySaysWhatEachAloneSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := privateKey(rapid.Byte().Draw(t, "key"))
		texts, sigs := signed(key, rapid.IntRange(0, 40).Draw(t, "n"))
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			if len(texts) == 0 {
				break
			}
			i := rapid.IntRange(0, len(texts)-1).Draw(t, "at")
			switch rapid.IntRange(0, 4).Draw(t, "change") {
			case 0:
				if len(sigs[i]) == 0 { // cut to nothing by the change before
					break
				}
				sigs[i][rapid.IntRange(0, len(sigs[i])-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			case 1:
				texts[i] = append(texts[i], 'x')
			case 2:
				sigs[i] = ed25519.Sign(privateKey(0xa5), texts[i])
			case 3:
				sigs[i] = sigs[rapid.IntRange(0, len(sigs)-1).Draw(t, "other")]
			case 4:
				sigs[i] = sigs[i][:rapid.IntRange(0, 64).Draw(t, "length")]
			}
		}
		want := true
		for i := range texts {
			want = want && ed25519.Verify(public(key), texts[i], sigs[i])
		}
		if got := signatures.Verify(public(key), texts, sigs); got != want {
			t.Fatalf("all at once: %v, each alone: %v", got, want)
		}
	})
}

// Two faults that cancel each other out in a plain sum must not pass.
func TestVerifyRefusesFaultsThatCancelOut(t *testing.T) {
	t.Parallel()
	key := privateKey(7)
	texts, sigs := signed(key, 2)
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	for i, delta := range []int64{1, -1} {
		s := slices.Clone(sigs[i][32:])
		slices.Reverse(s)
		moved := new(big.Int).Add(new(big.Int).SetBytes(s), big.NewInt(delta))
		moved.Mod(moved, order).FillBytes(s)
		slices.Reverse(s)
		copy(sigs[i][32:], s)
	}
	if signatures.Verify(public(key), texts, sigs) {
		t.Fatal("two forged signatures passed together")
	}
}

// A signature whose S is not the least of its class would be a second text for the same thing.
func TestVerifyRefusesTheOtherFormOfS(t *testing.T) {
	t.Parallel()
	key := privateKey(7)
	texts, sigs := signed(key, 3)
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(sigs[1][32:])
	slices.Reverse(s)
	new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(s)
	slices.Reverse(s)
	copy(sigs[1][32:], s)
	if signatures.Verify(public(key), texts, sigs) {
		t.Fatal("S + L passed")
	}
}

func TestVerifyRefusesBadArguments(t *testing.T) {
	t.Parallel()
	key := privateKey(7)
	texts, sigs := signed(key, 2)
	if signatures.Verify(public(key)[:31], texts, sigs) || signatures.Verify(public(key), texts[:1], sigs) {
		t.Fatal("a short key, or a text too few, passed")
	}
	if !signatures.Verify(public(key), texts, sigs) || !signatures.Verify(public(key), nil, nil) {
		t.Fatal("genuine signatures, or none, did not pass")
	}
}

func BenchmarkVerify(b *testing.B) {
	key := privateKey(7)
	texts, sigs := signed(key, 250)
	b.Run("together", func(b *testing.B) {
		for range b.N {
			if !signatures.Verify(public(key), texts, sigs) {
				b.Fatal("refused")
			}
		}
	})
	b.Run("each", func(b *testing.B) {
		for range b.N {
			for i := range texts {
				if !ed25519.Verify(public(key), texts[i], sigs[i]) {
					b.Fatal("refused")
				}
			}
		}
	})
}
