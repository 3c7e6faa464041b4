package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"sync"
	"time"
)

// certificate is TLS with the certificate of o. HTTP/2 brings a scraper nothing, and
// costs memory for each connection.
func (o Options) certificate() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if o.CertFile != "" {
		p := &pair{certFile: o.CertFile, keyFile: o.KeyFile}
		if _, err := p.get(); err != nil {
			return nil, err
		}
		c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.get() }
		return c, nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	own, err := selfSigned(host)
	if err != nil {
		return nil, fmt.Errorf("create a certificate for the metrics: %w", err)
	}
	c.Certificates = []tls.Certificate{own}
	return c, nil
}

// selfSignedLife is longer than an agent lives. No client can know the certificate, so
// there is nothing to be gained by a shorter one.
const selfSignedLife = 10 * 365 * 24 * time.Hour

// selfSigned makes a certificate for a host: with an elliptic curve, as a signature by
// RSA is the dearest part of a handshake.
func selfSigned(host string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: host}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{host, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// pair is a certificate in two files, which are read again when one of them changes.
type pair struct {
	certFile, keyFile string

	mu     sync.Mutex
	marks  [2]mark
	loaded *tls.Certificate
}

// mark tells one content of a file from another.
type mark struct {
	size int64
	at   time.Time
}

func markOf(path string) mark {
	info, err := os.Stat(path)
	if err != nil {
		return mark{}
	}
	return mark{info.Size(), info.ModTime()}
}

// get returns the certificate. Files that are wrong after a change leave the one before.
func (p *pair) get() (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := [2]mark{markOf(p.certFile), markOf(p.keyFile)}
	if p.loaded != nil && marks == p.marks {
		return p.loaded, nil
	}
	next, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		if p.loaded != nil {
			return p.loaded, nil
		}
		return nil, fmt.Errorf("read the certificate of the metrics: %w", err)
	}
	p.loaded, p.marks = &next, marks
	return p.loaded, nil
}
