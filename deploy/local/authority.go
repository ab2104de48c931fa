package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority signs certificates for the servers and clients of one machine, so
// that encrypted connections can be tested. Its own key is never written. Its
// methods are safe concurrently.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one whose files go to dir.
func NewAuthority(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	a := &Authority{dir: dir, key: key, cert: &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: "hanjul test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err == nil {
		err = writePEM(a.File(), "CERTIFICATE", der)
	}
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return a, nil
}

// File has the authority's own certificate, in PEM.
func (a *Authority) File() string { return filepath.Join(a.dir, "authority.pem") }

// Certificate is one that the authority signed.
type Certificate struct {
	// CertFile and KeyFile are in PEM; the key in PKCS #8, as Java wants it.
	CertFile, KeyFile string
	// Pair is the same, loaded.
	Pair tls.Certificate
}

// Issue signs a certificate for a day, for a server and for a client. name is its common name and begins the names of its files; it is for the hosts,
// names or IP addresses.
func (a *Authority) Issue(name string, hosts ...string) (Certificate, error) {
	c := Certificate{CertFile: filepath.Join(a.dir, name+".pem"), KeyFile: filepath.Join(a.dir, name+".key")}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, fmt.Errorf("issue the certificate %s: %w", name, err)
	}
	wanted := &x509.Certificate{
		SerialNumber: serial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			wanted.IPAddresses = append(wanted.IPAddresses, ip)
		} else {
			wanted.DNSNames = append(wanted.DNSNames, host)
		}
	}
	signed, signErr := x509.CreateCertificate(rand.Reader, wanted, a.cert, key.Public(), a.key)
	private, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(signErr, keyErr); err != nil {
		return c, fmt.Errorf("issue the certificate %s: %w", name, err)
	}
	err = errors.Join(writePEM(c.CertFile, "CERTIFICATE", signed), writePEM(c.KeyFile, "PRIVATE KEY", private))
	if err == nil {
		c.Pair, err = tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	}
	if err != nil {
		return c, fmt.Errorf("issue the certificate %s: %w", name, err)
	}
	return c, nil
}

func serial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[1:])
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
