//go:build linux

package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
)

const planeDir = workDir + "/plane"

// plane is a control plane that `berth up` runs.
type plane struct {
	fleet   string // its simulated nodes, as of --fleet
	process *process
	config  *rest.Config // of its administrator
	client  kubernetes.Interface
}

// startPlane starts one, and waits until it answers.
func startPlane(t *testing.T, fleet string) *plane {
	t.Helper()
	if err := os.MkdirAll(workDir, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &plane{fleet: fleet}
	p.start(t)
	return p
}

// start starts the control plane of the folder.
func (p *plane) start(t *testing.T) {
	t.Helper()
	p.process = startProcess(t, workDir, "berth-up", []string{"HOME=" + workDir, "XDG_DATA_HOME=" + workDir + "/share"},
		program("berth"), "up", "--dir", planeDir, "--fleet", p.fleet, "--scheduler", "berth", "--port", "6443")
	eventually(t, patience, "the control plane is ready", func() error {
		if p.process.ended() {
			t.Fatal("the control plane has ended")
		}
		state, err := os.ReadFile(filepath.Join(planeDir, "state.json"))
		if err != nil {
			return err
		}
		if !ready(state, p.process.cmd.Process.Pid) {
			return errors.New("it is starting")
		}
		if p.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(planeDir, "kubeconfig")); err != nil {
			return err
		}
		if p.client, err = kubernetes.NewForConfig(p.config); err != nil {
			return err
		}
		_, err = p.client.CoreV1().ServiceAccounts("default").Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// ready reports whether the control plane of a state is up, and is that process's.
func ready(state []byte, pid int) bool {
	var s struct {
		PID   int
		Ready bool
	}
	return json.Unmarshal(state, &s) == nil && s.Ready && s.PID == pid
}

// apply gives a file of manifests to the control plane.
func (p *plane) apply(t *testing.T, path string) {
	t.Helper()
	out, err := exec.Command(program("kubectl"), "--kubeconfig", filepath.Join(planeDir, "kubeconfig"), "apply", "-f", path).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl apply -f %s: %v: %s", path, err, out)
	}
}

// identity gives the kubelet what one gets that joins a cluster: a certificate
// as a client of the API server, and one as a server for its clients.
func (p *plane) identity(t *testing.T) {
	t.Helper()
	client := p.certificate(t, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth)
	server := p.certificate(t, certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth)
	for name, data := range map[string][]byte{
		"kubelet.crt": server.certificate, "kubelet.key": server.key, "ca.crt": p.config.CAData,
	} {
		if err := os.WriteFile(filepath.Join(workDir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.kubeconfig(t, workDir+"/kubelet.kubeconfig", &clientcmdapi.AuthInfo{ClientCertificateData: client.certificate, ClientKeyData: client.key})
}

// kubeconfig writes how somebody reaches the control plane.
func (p *plane) kubeconfig(t *testing.T, path string, who *clientcmdapi.AuthInfo) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: p.config.Host, CertificateAuthorityData: p.config.CAData}
	c.AuthInfos["c"] = who
	c.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	c.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
}

// keyPair is a certificate with its key, as PEM.
type keyPair struct{ certificate, key []byte }

// certificate asks the control plane for one of the node's, and approves it.
func (p *plane) certificate(t *testing.T, signer string, usage certificatesv1.KeyUsage) keyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:" + nodeName, Organization: []string{"system:nodes"}}}
	if usage == certificatesv1.UsageServerAuth {
		template.DNSNames, template.IPAddresses = []string{nodeName}, []net.IP{net.ParseIP(nodeIP), net.ParseIP("127.0.0.1")}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := p.client.CertificatesV1().CertificateSigningRequests()
	r, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "real-node-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, usage},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the control plane's approver may have changed it
		r, err := requests.Get(t.Context(), r.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: v1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.Now()}}
		_, err = requests.UpdateApproval(t.Context(), r.Name, r, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, patience, "the certificate is signed", func() error {
		r, err = requests.Get(t.Context(), r.Name, metav1.GetOptions{})
		if err == nil && len(r.Status.Certificate) == 0 {
			err = fmt.Errorf("its conditions are %v", r.Status.Conditions)
		}
		return err
	})
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return keyPair{r.Status.Certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})}
}

// agentKubeconfig is the node agent's: as the ServiceAccount of its manifest, with
// no more rights than that gives it. The token is that of a pod on the node, as
// the manifest's policy wants: the agent itself runs outside of it.
func (p *plane) agentKubeconfig(t *testing.T) string {
	t.Helper()
	p.apply(t, "../../deploy/agent.yaml")
	place := asking("berth-agent", gpuResource, 0)
	place.Namespace, place.Spec.ServiceAccountName, place.Spec.NodeName = "kube-system", "berth-agent", nodeName
	place.Spec.Containers[0].Args = nil
	place, err := p.client.CoreV1().Pods("kube-system").Create(t.Context(), place, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := p.client.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), "berth-agent", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: new(int64(time.Hour / time.Second)),
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: place.Name, UID: place.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := workDir + "/agent.kubeconfig"
	p.kubeconfig(t, path, &clientcmdapi.AuthInfo{Token: token.Status.Token})
	return path
}
