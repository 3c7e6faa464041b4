package controlplane

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"

	"berth.dev/berth/internal/datadir"
)

// certificate reads one of a PEM.
func certificate(t *testing.T, raw []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatalf("no certificate in %q", raw)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificatesOfClientsHoldForAYear(t *testing.T) {
	now := time.Now()
	c, err := issue(datadir.Dir(t.TempDir()), now)
	if err != nil {
		t.Fatal(err)
	}
	clients := 0
	for _, l := range c.leaves {
		cert := certificate(t, l.id.certPEM)
		if slices.Contains(cert.Subject.Organization, "system:masters") {
			t.Errorf("%s is one of system:masters, whose rights nobody can take away", l.cn)
		}
		if l.serves() {
			if len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
				t.Errorf("the certificate of server %s can do %v", l.cn, cert.ExtKeyUsage)
			}
			continue
		}
		clients++
		if len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
			t.Errorf("the certificate of client %s can do %v", l.cn, cert.ExtKeyUsage)
		}
		if left := cert.NotAfter.Sub(now); left > 366*24*time.Hour || left < 364*24*time.Hour {
			t.Errorf("the certificate of %s holds until %v, %v from now", l.cn, cert.NotAfter, left)
		}
	}
	if clients != 8 {
		t.Errorf("%d clients, want the owner, fleet, controllers, the meter, controller manager, scheduler and the API server's two", clients)
	}
}

// laid is a control plane whose folder is laid out, as of a moment.
func laid(t *testing.T, now time.Time) *plane {
	t.Helper()
	p := &plane{Options: Options{Dir: datadir.Dir(t.TempDir())}, state: datadir.State{Server: "https://127.0.0.1:1"}, log: slog.New(slog.DiscardHandler)}
	var err error
	if p.certs, err = issue(p.Dir, now); err != nil {
		t.Fatal(err)
	}
	if err := p.writeKubeconfig(p.Dir.Kubeconfig(), p.certs.owner()); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestCertificatesAreRenewedLongBeforeTheyEnd(t *testing.T) {
	now := time.Now()
	p := laid(t, now)
	// The owner has changed the file, as kubectl config set-context --namespace does.
	config, err := clientcmd.LoadFromFile(p.Dir.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[contextName].Namespace = "team"
	if err := clientcmd.WriteToFile(*config, p.Dir.Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	day := 24 * time.Hour
	for _, tt := range []struct {
		name    string
		at      time.Duration // after the start
		renewed bool
	}{
		{"the next minute", time.Minute, false},
		{"after three months", 90 * day, false},
		{"after five", 150 * day, true},
		{"and not again the day after", 151 * day, false},
		{"years later, on a machine that slept", 2000 * day, true},
		{"and where the clock is set back by years", 0, true},
	} {
		before := map[string][]byte{}
		for _, l := range p.certs.leaves {
			before[l.cn] = l.id.certPEM
		}
		if err := p.renewCertificates(now.Add(tt.at)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for _, l := range p.certs.leaves {
			if renewed := !bytes.Equal(before[l.cn], l.id.certPEM); renewed != (tt.renewed && !l.serves()) {
				t.Errorf("%s: certificate of %s: renewed %v", tt.name, l.cn, renewed)
			}
			if l.file == "" {
				continue
			}
			crt, err := os.ReadFile(p.certs.path(l.file + ".crt"))
			if err != nil || !bytes.Equal(crt, l.id.certPEM) {
				t.Errorf("%s: %s.crt is not the certificate: %v", tt.name, l.file, err)
			}
			key, err := os.ReadFile(p.certs.path(l.file + ".key"))
			if err != nil || !bytes.Equal(key, l.id.keyPEM) {
				t.Errorf("%s: the key of %s changed: who reads both files could get one of each", tt.name, l.file)
			}
		}
		config, err := clientcmd.LoadFromFile(p.Dir.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		if user := config.AuthInfos[contextName]; !bytes.Equal(user.ClientCertificateData, p.certs.admin.certPEM) || !bytes.Equal(user.ClientKeyData, p.certs.admin.keyPEM) {
			t.Errorf("%s: the kubeconfig has another certificate than the owner", tt.name)
		}
		if got := config.Contexts[contextName].Namespace; got != "team" {
			t.Errorf("%s: the namespace in the kubeconfig is %q", tt.name, got)
		}
	}
}

func TestARenewalThatFailsIsTriedAgain(t *testing.T) {
	now := time.Now()
	p := laid(t, now)
	due := now.Add(clientLife / 2)
	good := p.certs.dir
	p.certs.dir = filepath.Join(good, "gone")
	if err := p.renewCertificates(due); err == nil {
		t.Fatal("certificates were written to a folder that is not there")
	}
	p.certs.dir = good
	if err := p.renewCertificates(due); err != nil {
		t.Fatal(err)
	}
	if left := certificate(t, p.certs.admin.certPEM).NotAfter.Sub(due); left < 364*24*time.Hour {
		t.Errorf("the owner's certificate holds for %v", left)
	}
}

// The clients in this process take their certificates from files, which client-go
// reads again; out of memory they would end after a year.
func TestClientsFollowTheirFiles(t *testing.T) {
	p := laid(t, time.Now())
	if c := p.fleetConfig().TLSClientConfig; c.CertFile == "" || c.KeyFile == "" || len(c.CertData)+len(c.KeyData) > 0 {
		t.Errorf("the fleet's certificate is not from files: %+v", c)
	}
	if u := p.certs.user(schedulerFile); u.ClientCertificate == "" || u.ClientKey == "" || len(u.ClientCertificateData)+len(u.ClientKeyData) > 0 {
		t.Errorf("the scheduler's certificate is not from files: %+v", u)
	}
}

// secrets is what the authorities and the service accounts' key of a folder are.
func secrets(t *testing.T, dir datadir.Dir) string {
	t.Helper()
	var b strings.Builder
	for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key"} {
		raw, err := os.ReadFile(dir.Join("pki", name))
		if err != nil {
			t.Fatalf("the keys are not whole: %v", err)
		}
		fmt.Fprintf(&b, "%s\n%s", name, raw)
	}
	return b.String()
}

// Whichever step of a change of keys is the last before a crash, the next start has
// the keys of before or new ones, all of one kind, and nothing is left of others.
func TestNewKeysAreWholeOrTheOldOnes(t *testing.T) {
	steps := len(keySteps(datadir.Dir(t.TempDir()), true))
	kept, changed := 0, 0
	for crash := range steps + 1 {
		dir := datadir.Dir(t.TempDir())
		if _, err := issue(dir, time.Now()); err != nil {
			t.Fatal(err)
		}
		old := secrets(t, dir)
		for _, step := range keySteps(dir, true)[:crash] {
			if err := step(); err != nil {
				t.Fatalf("step before %d: %v", crash, err)
			}
		}
		if err := settleKeys(dir, false); err != nil {
			t.Fatalf("a start after a crash at step %d: %v", crash, err)
		}
		if _, err := issue(dir, time.Now()); err != nil {
			t.Fatalf("a start after a crash at step %d: %v", crash, err)
		}
		now := secrets(t, dir)
		for i, part := range strings.SplitAfter(now, "-----END EC PRIVATE KEY-----") {
			if strings.TrimSpace(part) != "" && (now == old) != strings.Contains(old, part) {
				t.Errorf("crash at step %d: part %d of the keys is of another kind", crash, i)
			}
		}
		if now == old {
			kept++
		} else {
			changed++
		}
		for _, name := range []string{keysDraft, keysNext, keysLast} {
			if _, err := os.Stat(dir.Join(name)); err == nil {
				t.Errorf("crash at step %d: %s is left", crash, name)
			}
		}
	}
	if kept == 0 || changed < 2 {
		t.Errorf("of %d crashes %d kept the keys and %d changed them: want both", steps+1, kept, changed)
	}
}

func TestNewKeysInANewFolder(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if err := settleKeys(dir, true); err != nil {
		t.Fatal(err)
	}
	if _, err := issue(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	secrets(t, dir)
}

// The API server keeps the authorities of before in this ConfigMap, beside its own.
func TestOldAuthoritiesAreTrustedNoLonger(t *testing.T) {
	p := laid(t, time.Now())
	trust := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: trustName, Namespace: metav1.NamespaceSystem},
		Data: map[string]string{
			trustClient: "old\n" + string(p.certs.ca.pem), trustProxy: string(p.certs.proxyCA.pem) + "old\n", "requestheader-allowed-names": `["front-proxy-client"]`,
		},
	}
	client := fake.NewClientset(trust)
	for range 2 {
		if err := p.distrustOldKeys(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	m, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), trustName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if m.Data[trustClient] != string(p.certs.ca.pem) || m.Data[trustProxy] != string(p.certs.proxyCA.pem) || m.Data["requestheader-allowed-names"] == "" {
		t.Errorf("it trusts %q", m.Data)
	}
	updates := 0
	for _, a := range client.Actions() {
		if a.GetVerb() == "update" {
			updates++
		}
	}
	if updates != 1 {
		t.Errorf("it was written %d times, want once: what is right stays as it is", updates)
	}
	if err := p.distrustOldKeys(t.Context(), fake.NewClientset()); err != nil {
		t.Errorf("where there is none yet: %v", err)
	}
}
