package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
)

func TestTheVersionIsThatOfGoMod(t *testing.T) {
	raw, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if want := "k8s.io/kubernetes " + buildinfo.Kubernetes + "\n"; !strings.Contains(string(raw), want) {
		t.Errorf("go.mod does not require %q: bring internal/buildinfo up to date", strings.TrimSpace(want))
	}
}

func TestAuthoritiesAreKeptAndLeavesAreNew(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	first, err := issue(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	second, err := issue(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if string(first.ca.pem) != string(second.ca.pem) || string(first.proxyCA.pem) != string(second.proxyCA.pem) {
		t.Error("an authority changed between two starts: kubeconfigs that users hold would stop working")
	}
	if string(first.admin.certPEM) == string(second.admin.certPEM) {
		t.Error("the admin's certificate is the same at the second start; want a new one")
	}
	cert, err := second.kubelet.tls()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: first.ca.pool(), DNSName: "gpu-node-1.sim.internal"}); err != nil {
		t.Errorf("the kubelets' certificate does not hold for a node: %v", err)
	}
	for _, years := range []int{-4, 9} {
		clock := time.Now().AddDate(years, 0, 0)
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: first.ca.pool(), CurrentTime: clock}); err != nil {
			t.Errorf("with a clock %d years off the certificate does not hold: %v", years, err)
		}
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: first.proxyCA.pool()}); err == nil {
		t.Error("the front proxy's authority vouches for a kubelet; want the two apart")
	}
}

func TestADamagedAuthorityIsNamed(t *testing.T) {
	dir := datadir.Dir(t.TempDir())
	if _, err := issue(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.Join("pki", "ca.crt"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := issue(dir, time.Now()); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("issue() with a damaged ca.crt = %v; want an error that names the file", err)
	}
}

func TestATakenPortIsNamedWithItsHolder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	self, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	_, err = choosePort(taken, 0)
	if want := fmt.Sprintf("127.0.0.1:%d: the port is in use by %s (pid %d)", taken, strings.TrimSpace(string(self)), os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("choosePort(%d) = %v; want %q", taken, err, want)
	}
	other, err := choosePort(0, taken)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := other.Addr().(*net.TCPAddr).Port; got == taken {
		t.Errorf("choosePort(0, %d) = %d; want another port", taken, got)
	}
}

// fakeNetwork answers one name inside the process, lets another through and
// refuses the rest.
type fakeNetwork struct {
	tls    *tls.Config
	dialed string
}

func (f *fakeNetwork) Route(_ context.Context, address string) (func(net.Conn), bool, error) {
	host, _, _ := net.SplitHostPort(address)
	switch {
	case host == "inside":
		return over(f.tls, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "inside %s", r.URL.Path)
		})), false, nil
	case address == f.dialed:
		return nil, true, nil
	}
	return nil, false, errors.New("belongs to no node")
}

// connect opens a connection through the egress and returns it with the status
// line of the answer.
func connect(t *testing.T, sock, to string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", to)
	var head strings.Builder // read to the blank line and not a byte further
	for b := make([]byte, 1); !strings.HasSuffix(head.String(), "\r\n\r\n"); {
		if _, err := c.Read(b); err != nil {
			t.Fatalf("answer to CONNECT %s: %q, %v", to, head.String(), err)
		}
		head.Write(b)
	}
	line, _, _ := strings.Cut(head.String(), "\r\n")
	return c, strings.TrimPrefix(line, "HTTP/1.1 ")
}

func TestTheEgressServesInsideLetsThroughAndRefuses(t *testing.T) {
	dir := t.TempDir()
	c, err := issue(datadir.Dir(dir), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := c.kubelet.tls()
	if err != nil {
		t.Fatal(err)
	}
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	go func() {
		if c, err := outside.Accept(); err == nil {
			fmt.Fprint(c, "hello")
			c.Close()
		}
	}()
	sock := filepath.Join(dir, "egress.sock")
	e, err := listenEgress(sock, &fakeNetwork{tls: &tls.Config{Certificates: []tls.Certificate{cert}}, dialed: outside.Addr().String()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()

	conn, status := connect(t, sock, "inside:10250")
	if status != "200 OK" {
		t.Fatalf("CONNECT inside:10250 = %s; want 200", status)
	}
	client := &http.Client{Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		return tls.Client(conn, &tls.Config{RootCAs: c.ca.pool(), ServerName: "n.sim.internal"}), nil
	}}}
	res, err := client.Get("https://inside:10250/x")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "inside /x" {
		t.Errorf("inside answered %q; want %q", body, "inside /x")
	}

	conn, status = connect(t, sock, outside.Addr().String())
	if body, _ := io.ReadAll(conn); status != "200 OK" || string(body) != "hello" {
		t.Errorf("an address that may be dialed gave %s, %q; want what listens there", status, body)
	}
	if _, status = connect(t, sock, "8.8.8.8:53"); status != "502 belongs to no node" {
		t.Errorf("CONNECT 8.8.8.8:53 = %s; want it refused with the reason", status)
	}
}

func TestASocketPathThatIsTooLongGoesElsewhere(t *testing.T) {
	long := datadir.Dir("/" + strings.Repeat("x", 120))
	got, remove, err := sockets(long)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if len(got)+len("/etcd.sock-peer") > 103 {
		t.Errorf("sockets(%s) = %s: still too long for a socket address", long, got)
	}
	if got, _, _ := sockets("/data"); got != "/data" {
		t.Errorf("sockets(/data) = %s; want the data folder itself", got)
	}
}

func TestADamagedStoreIsNamed(t *testing.T) {
	for name, damage := range map[string]func(member string) error{
		"its log is missing": func(member string) error { return os.Remove(filepath.Join(member, "wal", "0.wal")) },
		"is damaged": func(member string) error {
			return os.WriteFile(filepath.Join(member, "snap", "db"), bytes.Repeat([]byte("x"), 1<<16), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := checkStore(dir); err != nil {
				t.Fatalf("checkStore of an empty folder = %v; want nil", err)
			}
			member := filepath.Join(dir, "member")
			for _, sub := range []string{"snap", "wal"} {
				if err := os.MkdirAll(filepath.Join(member, sub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(member, "wal", "0.wal"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			db, err := bolt.Open(filepath.Join(member, "snap", "db"), 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("key")); return err }), db.Close()); err != nil {
				t.Fatal(err)
			}
			if err := checkStore(dir); err != nil {
				t.Fatalf("checkStore of a sound store = %v; want nil", err)
			}
			if err := damage(member); err != nil {
				t.Fatal(err)
			}
			if err := checkStore(dir); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("checkStore of a damaged store = %v; want %q", err, name)
			}
		})
	}
}
