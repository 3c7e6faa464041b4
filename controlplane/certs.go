package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"berth.dev/berth/api"
	"berth.dev/berth/fleet/system"
	"berth.dev/berth/internal/datadir"
)

// renewAfter is how long clients' certificates are used: a third of the time that they
// hold, so a process that could not renew them for months is not locked out.
const renewAfter = clientLife / 3

// certs is every key and certificate of one control plane. Kubernetes' parts and the
// clients in this process read theirs from files under DIR/pki, and again when those
// change; what the simulated network serves with and the owner's stay in memory.
type certs struct {
	ca, proxyCA *authority
	// kubelet serves every simulated node; metrics serves the metrics API.
	kubelet, metrics identity
	admin            identity // the owner's
	dir              string
	leaves           []*leaf
	signed           time.Time // when those of clients were
}

// leaf is a certificate of a control plane, and where it is kept.
type leaf struct {
	subject

	by   *authority
	file string    // under DIR/pki; "" is none
	id   *identity // made again at each start
}

// The clients of the API server in this process, by their files.
const (
	fleetFile      = "fleet"
	controllerFile = "controller"
	meterFile      = "meter"
	managerFile    = "controller-manager"
	schedulerFile  = "scheduler"
)

// kubeletClient is who the API server is to kubelets.
const kubeletClient = "kube-apiserver-kubelet-client"

// path is the path of a file under DIR/pki.
func (c *certs) path(name string) string { return c.dir + "/" + name }

// issue loads or makes the authorities and the service account key under
// dir/pki and signs all certificates again, as of now.
func issue(dir datadir.Dir, now time.Time) (*certs, error) {
	c := &certs{dir: dir.Join("pki")}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if c.ca, c.proxyCA, err = authorities(c.dir); err != nil {
		return nil, err
	}
	c.leaves = c.list()
	for _, l := range c.leaves {
		if *l.id, err = newIdentity(); err != nil {
			return nil, err
		}
		if l.file == "" {
			continue
		}
		if err := datadir.WriteFile(c.path(l.file+".key"), l.id.keyPEM, 0o600); err != nil {
			return nil, fmt.Errorf("keep key of %s: %w", l.cn, err)
		}
	}
	return c, c.sign(now, func(*leaf) bool { return true })
}

// authorities loads or makes what a control plane trusts in a folder: two authorities
// and, left in its file, the key that signs tokens of service accounts.
func authorities(dir string) (ca, proxyCA *authority, err error) {
	if ca, err = loadAuthority(dir, "ca"); err != nil {
		return nil, nil, err
	}
	if proxyCA, err = loadAuthority(dir, "front-proxy-ca"); err != nil {
		return nil, nil, err
	}
	tokens := dir + "/sa.key"
	if _, err = os.Stat(tokens); errors.Is(err, fs.ErrNotExist) {
		_, err = newKey(tokens)
	}
	return ca, proxyCA, err
}

// list is all certificates.
func (c *certs) list() []*leaf {
	loopback := net.IPv4(127, 0, 0, 1)
	client := func(by *authority, file, cn string) *leaf {
		return &leaf{subject{cn: cn}, by, file, &identity{}}
	}
	return []*leaf{
		{subject{
			cn: "kube-apiserver", ips: []net.IP{loopback, net.IPv4(10, 96, 0, 1)},
			dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		}, c.ca, "apiserver", &identity{}},
		{subject{cn: "kubelet", dns: []string{"*.sim.internal"}}, c.ca, "", &c.kubelet},
		{subject{cn: "metrics-server", dns: []string{system.MetricsService + "." + system.MetricsNamespace + ".svc"}}, c.ca, "", &c.metrics},
		client(c.proxyCA, "front-proxy-client", "front-proxy-client"),
		client(c.ca, "kubelet-client", kubeletClient),
		client(c.ca, fleetFile, fleetUser),
		client(c.ca, controllerFile, controllerUser),
		client(c.ca, meterFile, meterUser),
		client(c.ca, managerFile, "system:kube-controller-manager"),
		client(c.ca, schedulerFile, schedulerUser),
		{subject{cn: ownerUser, orgs: []string{api.GroupAdmins}}, c.ca, "", &c.admin},
	}
}

// sign signs the certificates that which chooses, for the keys that there are, and
// writes those that are read from files: each holds with its key at any moment.
func (c *certs) sign(now time.Time, which func(*leaf) bool) error {
	for _, l := range c.leaves {
		if !which(l) {
			continue
		}
		raw, err := l.by.sign(l.subject, l.id.key, now)
		if err != nil {
			return err
		}
		l.id.certPEM = raw
		if l.file == "" {
			continue
		}
		if err := datadir.WriteFile(c.path(l.file+".crt"), raw, 0o600); err != nil {
			return fmt.Errorf("keep certificate of %s: %w", l.cn, err)
		}
	}
	c.signed = now.Round(0) // by the calendar: a clock that stood still with the machine counts no time
	return nil
}

// renew signs the certificates of clients again if that is due, and reports whether.
func (c *certs) renew(now time.Time) (bool, error) {
	if age := now.Round(0).Sub(c.signed); age < renewAfter && age > -renewAfter {
		return false, nil
	}
	return true, c.sign(now, func(l *leaf) bool { return !l.serves() })
}
