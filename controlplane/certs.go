package controlplane

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"berth.dev/berth/fleet/system"
	"berth.dev/berth/internal/datadir"
)

// certs is every key and certificate of one control plane. The API server and
// the controller manager read theirs from files under DIR/pki.
type certs struct {
	ca, proxyCA *authority
	// kubelet serves every simulated node; metrics serves the metrics API.
	kubelet, metrics identity
	// admin is the owner; fleet is the simulated nodes' identity and controller
	// that of Berth's controllers, with RBAC.
	admin, fleet, manager, scheduler, controller identity
	dir                                          string
}

// path is the path of a file under DIR/pki.
func (c *certs) path(name string) string { return c.dir + "/" + name }

// issue loads or makes the authorities and the service account key under
// dir/pki and signs all certificates anew.
func issue(dir datadir.Dir) (*certs, error) {
	c := &certs{dir: dir.Join("pki")}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if c.ca, err = loadAuthority(c.dir, "ca"); err != nil {
		return nil, err
	}
	if c.proxyCA, err = loadAuthority(c.dir, "front-proxy-ca"); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.path("sa.key")); errors.Is(err, fs.ErrNotExist) {
		if _, err := newKey(c.path("sa.key")); err != nil {
			return nil, err
		}
	}
	return c, c.sign()
}

// sign makes the leaf certificates, and writes those that are read from files.
func (c *certs) sign() error {
	loopback := net.IPv4(127, 0, 0, 1)
	leaves := []struct {
		by   *authority
		cn   string
		orgs []string
		dns  []string
		ips  []net.IP
		file string    // written under DIR/pki when not empty
		to   *identity // kept in memory when not nil
	}{
		{
			by: c.ca, cn: "kube-apiserver", file: "apiserver", ips: []net.IP{loopback, net.IPv4(10, 96, 0, 1)},
			dns: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		},
		{by: c.ca, cn: "kube-apiserver-kubelet-client", orgs: []string{"system:masters"}, file: "kubelet-client"},
		{by: c.proxyCA, cn: "front-proxy-client", file: "front-proxy-client"},
		{by: c.ca, cn: "kubelet", dns: []string{"*.sim.internal"}, to: &c.kubelet},
		{by: c.ca, cn: "metrics-server", dns: []string{system.MetricsService + "." + system.MetricsNamespace + ".svc"}, to: &c.metrics},
		{by: c.ca, cn: "berth:admin", orgs: []string{"system:masters"}, to: &c.admin},
		{by: c.ca, cn: fleetUser, to: &c.fleet},
		{by: c.ca, cn: "system:kube-controller-manager", to: &c.manager},
		{by: c.ca, cn: schedulerUser, to: &c.scheduler},
		{by: c.ca, cn: controllerUser, to: &c.controller},
	}
	for _, l := range leaves {
		id, err := l.by.leaf(l.cn, l.orgs, l.dns, l.ips...)
		if err != nil {
			return err
		}
		if l.to != nil {
			*l.to = id
		}
		if l.file == "" {
			continue
		}
		err = errors.Join(
			datadir.WriteFile(c.path(l.file+".key"), id.keyPEM, 0o600),
			datadir.WriteFile(c.path(l.file+".crt"), id.certPEM, 0o600))
		if err != nil {
			return fmt.Errorf("keep certificate of %s: %w", l.cn, err)
		}
	}
	return nil
}
