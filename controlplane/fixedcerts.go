package controlplane

import (
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// fixCertificates stops the API server from watching the files of its serving certificate
// and of the two authorities, which do not change while it runs: see certs.renew for those
// that do. Each watch takes one of the 128 inotify instances that Linux gives an account by
// default, and a control plane had eleven.
func fixCertificates(cfg *apiserver.Config) {
	if serving := cfg.KubeAPIs.ControlPlane.Generic.SecureServing; serving != nil {
		serving.Cert, serving.ClientCA = fixedCert{serving.Cert}, fixedCA{serving.ClientCA}
	}
	info := &cfg.KubeAPIs.ControlPlane.ClusterAuthenticationInfo
	info.ClientCA, info.RequestHeaderCA = fixedCA{info.ClientCA}, fixedCA{info.RequestHeaderCA}
}

// fixedCA and fixedCert are what was read at the start. They do not have the method Run
// of dynamiccertificates.ControllerRunner, by which the API server starts the watch of a
// provider that has it.
type (
	fixedCA struct {
		dynamiccertificates.CAContentProvider
	}
	fixedCert struct {
		dynamiccertificates.CertKeyContentProvider
	}
)
