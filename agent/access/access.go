// Package access decides who may read a node agent's metrics, which name the pods of
// everyone: it serves them with TLS and asks the API server, or goes by a web
// configuration file of Prometheus' exporters, or lets everyone in where that was
// chosen. It serves nothing itself.
package access

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/internal/listen"
)

// Plain before an address asks for HTTP without TLS, for everyone, and Secured for the
// opposite on a loopback address.
const (
	Plain   = "http://"
	Secured = "https://"
)

// Options say who may read. Address is needed.
type Options struct {
	// Address is host:port, with Plain or Secured before it. Without one of them
	// everyone may read on a loopback address, and those whom the API server admits on others.
	Address string
	// WebConfig is a file in the format of Prometheus' exporter-toolkit. It goes before
	// all else: it says whether there is TLS, and who may read.
	WebConfig string
	// API answers who a caller is and what they may; nil is that there is none.
	API kubernetes.Interface
	// CertFile and KeyFile are the certificate, read again when they change; "" is one
	// that is made now and signs itself.
	CertFile, KeyFile string
	Log               *slog.Logger     // nil is none
	now               func() time.Time // nil is time.Now
}

// Access is how metrics are served.
type Access struct {
	Address string // host:port
	// TLS is nil for HTTP without TLS.
	TLS *tls.Config
	// Guard lets those through who may read; nil is everyone. On a loopback address
	// without TLS it refuses what a page in a browser asks under another name.
	Guard func(http.Handler) http.Handler
}

// Check reports what is wrong with o, as New would find it, without making anything.
// asks is whether there will be an API server.
func (o Options) Check(asks bool) error {
	address, plain, err := o.split()
	switch {
	case err != nil:
		return err
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("--tls-cert-file and --tls-private-key-file must be set together")
	case o.WebConfig != "" && o.CertFile != "":
		return errors.New("--web-config-file already names the certificate: remove --tls-cert-file and --tls-private-key-file")
	case o.WebConfig != "":
		_, err := readWebConfig(o.WebConfig)
		return err
	case !plain && !asks:
		return fmt.Errorf("--listen %s: without an API server, the agent cannot check who may read the metrics: set --web-config-file, or --listen %s%s to serve everyone", o.Address, Plain, address)
	}
	return nil
}

// split takes the address apart.
func (o Options) split() (address string, plain bool, err error) {
	address, plain = strings.CutPrefix(o.Address, Plain)
	address, secured := strings.CutPrefix(address, Secured)
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", false, fmt.Errorf("--listen %q: %w; write host:port, such as :9400", o.Address, err)
	}
	return address, plain || !secured && local(address), nil
}

// local reports whether host:port is of this machine alone.
func local(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && listen.Local(host)
}

// New makes the Access that o asks for. Its errors are those of Check, and of reading
// certificates.
func New(o Options) (*Access, error) {
	if err := o.Check(o.API != nil); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.now == nil {
		o.now = time.Now
	}
	address, plain, _ := o.split() // Check has seen that it can be
	a := &Access{Address: address}
	if o.WebConfig != "" {
		w, err := newWeb(o.WebConfig, o.Log)
		if err != nil {
			return nil, err
		}
		a.TLS, a.Guard = w.tls(), w.guard
		return a, nil
	}
	if plain {
		if local(address) {
			a.Guard = listen.Here
		}
		return a, nil
	}
	var err error
	if a.TLS, err = o.certificate(); err != nil {
		return nil, err
	}
	a.Guard = newReviewer(o.API, o.Log, o.now).guard
	return a, nil
}
