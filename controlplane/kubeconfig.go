package controlplane

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientapi "k8s.io/client-go/tools/clientcmd/api"

	"berth.dev/berth/internal/datadir"
	"berth.dev/berth/internal/pause"
)

// contextName is the name of everything in our kubeconfigs.
const contextName = "berth"

// owner is the owner's entry in a kubeconfig: the certificate itself, since people
// copy the file.
func (c *certs) owner() *clientapi.AuthInfo {
	return &clientapi.AuthInfo{ClientCertificateData: c.admin.certPEM, ClientKeyData: c.admin.keyPEM}
}

// user is the entry of a client whose certificate is in a file of DIR/pki.
func (c *certs) user(file string) *clientapi.AuthInfo {
	return &clientapi.AuthInfo{ClientCertificate: c.path(file + ".crt"), ClientKey: c.path(file + ".key")}
}

// writeKubeconfig writes a kubeconfig of one context, "berth", for a user.
func (p *plane) writeKubeconfig(path string, user *clientapi.AuthInfo) error {
	return putKubeconfig(path, clientapi.Config{
		Clusters:       map[string]*clientapi.Cluster{contextName: {Server: p.state.Server, CertificateAuthorityData: p.certs.ca.pem}},
		AuthInfos:      map[string]*clientapi.AuthInfo{contextName: user},
		Contexts:       map[string]*clientapi.Context{contextName: {Cluster: contextName, AuthInfo: contextName}},
		CurrentContext: contextName,
	})
}

// putKubeconfig replaces a kubeconfig in one step.
func putKubeconfig(path string, config clientapi.Config) error {
	raw, err := clientcmd.Write(config)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return datadir.WriteFile(path, raw, 0o600)
}

// renewKubeconfig puts the owner's certificate in a kubeconfig, and leaves what else
// the owner has set there (a namespace, more contexts) as it is.
func (p *plane) renewKubeconfig(path string) error {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil || config.AuthInfos[contextName] == nil {
		return p.writeKubeconfig(path, p.certs.owner())
	}
	config.AuthInfos[contextName] = p.certs.owner()
	return putKubeconfig(path, *config)
}

// renewEvery is how often it is looked whether certificates are due.
const renewEvery = time.Minute

// keepCertificates renews the certificates of clients until ctx ends.
func (p *plane) keepCertificates(ctx context.Context) error {
	for pause.For(ctx, renewEvery) {
		if err := p.renewCertificates(time.Now()); err != nil {
			p.log.Error("certificates are not renewed; the next try is in a minute", "error", err)
		}
	}
	return ctx.Err()
}

// renewCertificates renews the certificates of clients if they are due. What could
// not be written is due again.
func (p *plane) renewCertificates(now time.Time) error {
	before := p.certs.signed
	done, err := p.certs.renew(now)
	if err == nil && done {
		err = p.renewKubeconfig(p.Dir.Kubeconfig())
	}
	if err != nil {
		p.certs.signed = before
		return err
	}
	if done {
		p.log.Info("certificates of clients are renewed", "until", now.Add(clientLife))
	}
	return nil
}
