package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	kubeversion "k8s.io/apimachinery/pkg/util/version"

	"berth.dev/berth/internal/finding"
)

// Server is what one answer of the API server shows beside objects.
type Server struct {
	Version string        // such as v1.36.3; "" is that it is not known
	Ahead   time.Duration // how far the clock of this machine is ahead of the server's; negative is behind
	// Certificates are the server's, and the client's own.
	Certificates []Certificate
}

// Certificate is something that ends.
type Certificate struct {
	Of         string // what it is for, for people
	From, Ends time.Time
	Do         string // how to renew it
}

// The least by which clocks differ that is worth a word: an answer takes less, and so does a heartbeat on its way. Tokens and leases
// are good for longer.
const skewed = 10 * time.Second

// longBefore is how long before its end a certificate is spoken of, or a tenth of its time if that is less: those that programs renew
// by themselves are renewed earlier.
const longBefore = 30 * 24 * time.Hour

// oldest is by how many minor versions a kubelet may be behind its API server, by Kubernetes' policy. It may never be ahead.
const oldest = 3

// versions finds kubelets that are too far from the API server's version.
func (e *examined) versions() []finding.Finding {
	server, err := kubeversion.ParseGeneric(e.Server.Version)
	if err != nil {
		return nil
	}
	ahead, behind := map[string][]string{}, map[string][]string{}
	for _, n := range e.Nodes {
		text := n.Status.NodeInfo.KubeletVersion
		kubelet, err := kubeversion.ParseGeneric(text)
		switch {
		case err != nil || kubelet.Major() != server.Major():
		case kubelet.Minor() > server.Minor():
			ahead[text] = append(ahead[text], n.Name)
		case kubelet.Minor()+oldest < server.Minor():
			behind[text] = append(behind[text], n.Name)
		}
	}
	var out []finding.Finding
	for _, v := range sortedKeys(ahead) {
		out = append(out, warn("version-skew", fmt.Sprintf("kubelets of version %s are newer than the API server (%s), which Kubernetes does not support: %s", v, e.Server.Version, few(slices.Sorted(slices.Values(ahead[v])))),
			"upgrade the API server first, then the nodes"))
	}
	for _, v := range sortedKeys(behind) {
		out = append(out, warn("version-skew", fmt.Sprintf("kubelets of version %s are more than %d minor versions older than the API server (%s), which Kubernetes does not support: %s", v, oldest, e.Server.Version, few(slices.Sorted(slices.Values(behind[v])))),
			"upgrade these nodes, before the API server is upgraded again"))
	}
	return out
}

// clocks finds clocks that differ from the API server's: this machine's, and those of nodes. A kubelet writes its own time
// into the conditions of its node, and the API server notes when it got that.
func (e *examined) clocks() []finding.Finding {
	var out []finding.Finding
	if d := e.Server.Ahead; d.Abs() >= skewed {
		out = append(out, warn("clocks", fmt.Sprintf("the clock of this machine is %s the API server's: ages and waits that commands print are wrong by that", apart(d)),
			"have it set by NTP (timedatectl)"))
	}
	var nodes []string
	for _, n := range e.Nodes {
		if d, known := aheadOf(n); known && d.Abs() >= skewed {
			nodes = append(nodes, fmt.Sprintf("%s (%s)", n.Name, strings.TrimSuffix(apart(d), " of")))
		}
	}
	if len(nodes) > 0 {
		slices.Sort(nodes)
		out = append(out, warn("clocks", fmt.Sprintf("the clock of %s is not that of the API server: %s; tokens and certificates may be refused there, and times of logs and metrics are wrong", count(len(nodes), "node"), few(nodes)),
			"have it set by NTP on these nodes (timedatectl, chronyc tracking)"))
	}
	return out
}

// apart writes "25s ahead of" or "25s behind".
func apart(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Second).String() + " behind"
	}
	return d.Round(time.Second).String() + " ahead of"
}

// aheadOf is how far the clock of a node is ahead of the API server's, as of when the kubelet last wrote the conditions of its node.
func aheadOf(n *v1.Node) (ahead time.Duration, known bool) {
	for i := range n.ManagedFields {
		m := &n.ManagedFields[i]
		if m.Manager != "kubelet" || m.Subresource != "status" || m.Time == nil {
			continue
		}
		for k := range n.Status.Conditions {
			if c := &n.Status.Conditions[k]; c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return c.LastHeartbeatTime.Sub(m.Time.Time), true
			}
		}
	}
	return 0, false
}

// certificates finds those that end soon.
func (e *examined) certificates() []finding.Finding {
	var out []finding.Finding
	list := slices.Clone(e.Server.Certificates)
	for _, w := range e.Webhooks {
		if !w.CA.Ends.IsZero() {
			c := w.CA
			c.Of = fmt.Sprintf("the caBundle of %s %s, without which the API server does not trust Service %s/%s,", w.Kind, w.Configuration, w.Namespace, w.Service)
			c.Do = "renew it with the program that registers it (often cert-manager, or a restart of the program): kubectl describe " + w.Kind + " " + w.Configuration
			list = append(list, c)
		}
	}
	for _, c := range list {
		left, before := c.Ends.Sub(e.Now), longBefore
		if whole := c.Ends.Sub(c.From); whole > 0 {
			before = min(before, whole/10)
		}
		switch on := c.Ends.UTC().Format("2006-01-02 15:04 UTC"); {
		case left <= 0:
			out = append(out, fail("certificates", c.Of+" ended on "+on, c.Do))
		case left < before:
			out = append(out, warn("certificates", fmt.Sprintf("%s ends in %s, on %s", c.Of, ending(left), on), c.Do))
		}
	}
	return out
}

// ending writes how long something still lasts, in days or hours.
func ending(d time.Duration) string {
	if d < 48*time.Hour {
		return count(int(d/time.Hour), "hour")
	}
	return count(int(d/(24*time.Hour)), "day")
}

// lastOf is the certificate of a bundle in PEM that ends last; zero where there is none.
func lastOf(bundle []byte) (out Certificate) {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && c.NotAfter.After(out.Ends) {
			out.From, out.Ends = c.NotBefore, c.NotAfter
		}
	}
	return out
}

// EndOf is the certificate of a client or server in PEM, with what follows it left out: the first. ok is false where there is none.
func EndOf(text []byte) (c Certificate, ok bool) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Certificate{}, false
	}
	one, err := x509.ParseCertificate(block.Bytes)
	if err != nil || strings.Contains(block.Type, "KEY") {
		return Certificate{}, false
	}
	return Certificate{From: one.NotBefore, Ends: one.NotAfter}, true
}
