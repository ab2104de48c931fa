// Package signatures verifies many Ed25519 signatures of one key at once. It knows no passes: package pass reads them and asks.
package signatures

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"

	"filippo.io/edwards25519"
)

// The parts of a signature, and of the random factors (RFC 8032 section 8.2 leaves their size to us: a forgery passes with
// probability 2^-128).
const (
	pointSize  = 32
	factorSize = 16
)

// Verify says that every text carries a valid signature of the key. It says no when one of them may be invalid, and then not which:
// verify each alone. A set with a forged signature passes with probability 2^-128.
//
// For a signature (R, s) of text M under key A the equation s·B = R + k·A holds, where k = SHA-512(R, A, M). The sum of these equations, each times a
// random factor, holds for all of them only; with one key it costs one scalar multiplication for the key, one for the base point, and a short one for
// each R, which share their doublings. The sum is compared after multiplication by the cofactor, so that the outcome does not hang on the factors; the
// one difference to crypto/ed25519 is a signature whose R has a part of small order, which nobody but the holder of the private key can make.
//
// Safe for concurrent use.
func Verify(key ed25519.PublicKey, texts, signatures [][]byte) bool {
	a, err := new(edwards25519.Point).SetBytes(key)
	if err != nil || len(texts) != len(signatures) {
		return false
	}
	factors := make([]byte, factorSize*len(texts))
	if _, err := rand.Read(factors); err != nil {
		return false
	}
	var (
		points  = []*edwards25519.Point{edwards25519.NewGeneratorPoint(), a}
		ofBase  = edwards25519.NewScalar()
		ofKey   = edwards25519.NewScalar()
		scalars = []*edwards25519.Scalar{ofBase, ofKey}
		hash    = sha512.New()
		sum     = make([]byte, 0, sha512.Size)
		factor  [pointSize]byte
	)
	for i, signature := range signatures {
		if len(signature) != ed25519.SignatureSize {
			return false
		}
		r, errR := new(edwards25519.Point).SetBytes(signature[:pointSize])
		s, errS := new(edwards25519.Scalar).SetCanonicalBytes(signature[pointSize:]) // S + L is another text for the same number
		if errR != nil || errS != nil {
			return false
		}
		hash.Reset()
		hash.Write(signature[:pointSize])
		hash.Write(key)
		hash.Write(texts[i])
		k, errK := new(edwards25519.Scalar).SetUniformBytes(hash.Sum(sum))
		copy(factor[:factorSize], factors[factorSize*i:])
		z, errZ := new(edwards25519.Scalar).SetCanonicalBytes(factor[:])
		if errK != nil || errZ != nil {
			return false
		}
		ofBase.MultiplyAdd(z, s, ofBase)
		ofKey.MultiplyAdd(z, k, ofKey)
		scalars, points = append(scalars, z), append(points, r)
	}
	ofBase.Negate(ofBase)
	difference := new(edwards25519.Point).VarTimeMultiScalarMult(scalars, points)
	return difference.MultByCofactor(difference).Equal(edwards25519.NewIdentityPoint()) == 1
}
