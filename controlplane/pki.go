package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"berth.dev/berth/internal/datadir"
)

// authority signs certificates. Its key and certificate are kept in the data folder
// until new ones are requested; everything it signs is created again at every start,
// and clients' certificates while the process runs, so nothing in a long-lived
// folder expires but the authority itself, after a hundred years.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// validFrom is since when all certificates hold: long before any of them is
// made, so a clock that is set back does not lock clients out.
var validFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// identity is a key with its certificate.
type identity struct {
	certPEM, keyPEM []byte
	key             *ecdsa.PrivateKey
}

// newIdentity makes a key, without a certificate yet.
func newIdentity() (identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return identity{}, err
	}
	raw, err := encodeKey(key)
	return identity{keyPEM: raw, key: key}, err
}

// tls is the identity as crypto/tls wants it.
func (i identity) tls() (tls.Certificate, error) { return tls.X509KeyPair(i.certPEM, i.keyPEM) }

// loadAuthority reads dir/name.{crt,key}, or makes them. The key is written
// first: a certificate on disk always has its key.
func loadAuthority(dir, name string) (*authority, error) {
	crtPath, keyPath := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
	crt, err := os.ReadFile(crtPath)
	if errors.Is(err, fs.ErrNotExist) {
		return newAuthority(crtPath, keyPath, name)
	}
	if err != nil {
		return nil, err
	}
	key, err := loadKey(keyPath)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(crt)
	if block == nil {
		return nil, fmt.Errorf("%s has no certificate: remove the data folder with `berth down --purge`", crtPath)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", crtPath, err)
	}
	return &authority{cert: cert, key: key, pem: crt}, nil
}

func newAuthority(crtPath, keyPath, name string) (*authority, error) {
	key, err := newKey(keyPath)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "berth-" + name},
		NotBefore:             validFrom,
		NotAfter:              now.AddDate(100, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	a := &authority{key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	return a, datadir.WriteFile(crtPath, a.pem, 0o600)
}

// newKey makes a P-256 key and writes it to path.
func newKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	raw, err := encodeKey(key)
	if err != nil {
		return nil, err
	}
	return key, datadir.WriteFile(path, raw, 0o600)
}

// loadKey reads a P-256 key that newKey wrote.
func loadKey(path string) (*ecdsa.PrivateKey, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s has no key: remove the data folder with `berth down --purge`", path)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return key, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// How long certificates hold from when they are signed. Those that servers show are
// signed again at each start and are of no use to a client.
const (
	clientLife = 365 * 24 * time.Hour
	serverLife = 10 * clientLife
)

// subject is the identity in a certificate: a server, if it has names or addresses, else
// a client.
type subject struct {
	cn   string   // common name: a client's user name
	orgs []string // organizations: a client's groups
	dns  []string
	ips  []net.IP
}

func (s *subject) serves() bool { return len(s.dns)+len(s.ips) > 0 }

// sign signs a certificate for a key, to hold from validFrom until clientLife or
// serverLife after now, for the one end of TLS that the subject is at.
func (a *authority) sign(s subject, key *ecdsa.PrivateKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	life, use := clientLife, x509.ExtKeyUsageClientAuth
	if s.serves() {
		life, use = serverLife, x509.ExtKeyUsageServerAuth
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.cn, Organization: s.orgs},
		NotBefore:    validFrom,
		NotAfter:     now.Add(life),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{use},
		DNSNames:     s.dns,
		IPAddresses:  s.ips,
	}, a.cert, key.Public(), crypto.Signer(a.key))
	if err != nil {
		return nil, fmt.Errorf("sign certificate for %s: %w", s.cn, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// pool is the certificate pool that trusts this authority alone.
func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}
