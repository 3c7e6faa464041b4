package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/kubetest"
)

var today = time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)

// certificate is one in PEM that began and ends so long before or after today.
func certificate(t *testing.T, began, ends time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotBefore: today.Add(began), NotAfter: today.Add(ends)}
	raw, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// kubelet is a node of a version, whose clock is ahead of the API server's.
func kubelet(name, version string, ahead time.Duration) *v1.Node {
	n := kubetest.Foreign(name, map[string]string{})
	n.Status.NodeInfo.KubeletVersion = version
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(today.Add(ahead))}}
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet", Time: new(metav1.NewTime(today.Add(-time.Hour)))}, {Manager: "kubelet", Subresource: "status", Time: new(metav1.NewTime(today))}}
	return n
}

// priced is a node with GPUs of an instance type of AWS.
func priced(name, price string) *v1.Node {
	n := kubetest.Inventory(name, kubetest.A100s(name, 8), api.ResourceGPU, 8)
	n.Labels["node.kubernetes.io/instance-type"] = "p4d.24xlarge"
	if price != "" {
		n.Annotations[api.AnnotationPrice] = price
	}
	return n
}

func TestWhatIsSeenBesideGPUs(t *testing.T) {
	const day = 24 * time.Hour
	hook := func(began, ends time.Duration) []doctor.Webhook {
		return doctor.Webhooks(nil, []*admissionv1.ValidatingWebhookConfiguration{{ObjectMeta: metav1.ObjectMeta{Name: "kserve"}, Webhooks: []admissionv1.ValidatingWebhook{{
			ClientConfig: admissionv1.WebhookClientConfig{CABundle: certificate(t, began, ends), Service: &admissionv1.ServiceReference{Namespace: "kserve", Name: "hook"}},
		}}}})
	}
	served := func(began, ends time.Duration) doctor.Server {
		return doctor.Server{Certificates: []doctor.Certificate{{Of: "the certificate of the API server", From: today.Add(began), Ends: today.Add(ends)}}}
	}
	book := func(changed time.Duration, rules ...cost.Rule) doctor.Cluster {
		return doctor.Cluster{PriceBooks: true, Prices: cost.NewRules(rules), BooksChanged: map[string]time.Time{"lab": today.Add(changed)}, Nodes: []*v1.Node{priced("a", "")}}
	}
	holder := kubetest.Pod("ada-0", "a", api.ResourceGPU, 1)
	holder.Namespace, holder.Labels = "research", map[string]string{api.LabelNotebook: "ada"}
	culled := func(own, space map[string]string, args ...string) doctor.Cluster {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []v1.Container{{Args: args}}
		return doctor.Cluster{Pods: []*v1.Pod{holder}, Notebooks: []doctor.Notebook{{Namespace: "research", Name: "ada", Own: own, Space: space}, {Namespace: "research", Name: "without-gpus"}}, Deployments: []*appsv1.Deployment{d}}
	}
	const unculled = "warn culling: 1 notebook holds GPUs, and nothing stops it when not used: research/ada"
	environment := culled(nil, nil)
	environment.Deployments[0].Spec.Template.Spec.Containers[0].Env = []v1.EnvVar{{Name: "ENABLE_CULLING", Value: "true"}}
	gives := culled(nil, nil)
	gives.Queues = []*v1alpha1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.QueueSpec{IdleNotebooks: v1alpha1.IdleGiveWay}}}
	for _, tt := range []struct {
		name string
		c    doctor.Cluster
		want string
	}{
		{
			"kubelets that are newer, too old, and just right",
			doctor.Cluster{Server: doctor.Server{Version: "v1.34.1"}, Nodes: []*v1.Node{kubelet("new", "v1.35.0", 0), kubelet("old", "v1.30.9", 0), kubelet("fine", "v1.31.2-eks-1", 0)}},
			"warn version-skew: kubelets of version v1.35.0 are newer than the API server (v1.34.1), which Kubernetes does not support: new\n" +
				"warn version-skew: kubelets of version v1.30.9 are more than 3 minor versions older than the API server (v1.34.1), which Kubernetes does not support: old",
		},
		{"the version of a server that does not say it", doctor.Cluster{Nodes: []*v1.Node{kubelet("new", "v1.35.0", 0)}}, ""},
		{
			"the clock of a node",
			doctor.Cluster{Nodes: []*v1.Node{kubelet("late", "", -time.Minute), kubelet("early", "", 45*time.Second), kubelet("fine", "", 9*time.Second)}},
			"warn clocks: the clock of 2 nodes is not that of the API server: early (45s ahead), late (1m0s behind); tokens and certificates may be refused there, and times of logs and metrics are wrong",
		},
		{
			"the clock of this machine",
			doctor.Cluster{Server: doctor.Server{Ahead: -25 * time.Second}},
			"warn clocks: the clock of this machine is 25s behind the API server's: ages and waits that commands print are wrong by that",
		},
		{"the clock of this machine, nearly right", doctor.Cluster{Server: doctor.Server{Ahead: 9 * time.Second}}, ""},
		{"a certificate of a year that ends in three weeks", doctor.Cluster{Server: served(-344*day, 21*day)}, "warn certificates: the certificate of the API server ends in 21 days, on 2026-12-19 09:00 UTC"},
		{"a certificate of 90 days that is renewed a month before its end", doctor.Cluster{Server: served(-65*day, 25*day)}, ""},
		{"a certificate that ended", doctor.Cluster{Server: served(-366*day, -time.Hour)}, "fail certificates: the certificate of the API server ended on 2026-11-28 08:00 UTC"},
		{
			"the caBundle of a webhook",
			doctor.Cluster{Webhooks: hook(-364*day, day)},
			"warn certificates: the caBundle of validatingwebhookconfiguration kserve, without which the API server does not trust Service kserve/hook, ends in 24 hours, on 2026-11-29 09:00 UTC",
		},
		{"the caBundle of a webhook that is renewed each week", doctor.Cluster{Webhooks: hook(-5*day, 2*day)}, ""},
		{
			"a price of a list that is half a year old",
			doctor.Cluster{PriceBooks: true, Nodes: []*v1.Node{priced("a", "")}, Now: today.Add(90 * day)},
			"warn price-age: the price of 1 node is older than 180 days: list price of AWS, 2026-07-20 (221 days), of a",
		},
		{
			"a price of a book that was not changed", book(-200*day, cost.Rule{Book: "lab", Name: "x", Micros: 1, Currency: "USD"}),
			"warn price-age: the price of 1 node is older than 180 days: PriceBook lab, x (200 days), of a",
		},
		{"a price of an old book that counts since a month", book(-200*day, cost.Rule{Book: "lab", Name: "x", Micros: 1, Currency: "USD", From: today.Add(-30 * day)}), ""},
		{"what was bought stays as dear as it was", book(-200*day, cost.Rule{Book: "lab", Name: "x", Micros: 1, Currency: "USD", Remark: "250000 over 4 years"}), ""},
		{
			"prices in two currencies",
			doctor.Cluster{PriceBooks: true, Nodes: []*v1.Node{priced("a", ""), priced("b", "")}, Prices: cost.NewRules([]cost.Rule{{Book: "x", Name: "b", Match: cost.Match{Labels: map[string]string{"rack": "r1"}}, Micros: 1, Currency: "EUR"}})},
			"warn currencies: prices of nodes are in EUR and USD: nothing is converted, so sums and shares are of each alone",
		},
		{
			"a gap of the ledger",
			doctor.Cluster{Ledger: doctor.Ledger{Losses: []cost.Loss{{From: today.Add(-3 * day), To: today.Add(-2 * day), What: "what 3 pods held"}}}},
			"warn ledger: the ledger of costs has 1 gap in the last 7 days, as its file was damaged: 2026-11-25 09:00 to 2026-11-26 09:00 UTC, what 3 pods held",
		},
		{"a ledger that is not written", doctor.Cluster{Ledger: doctor.Ledger{Silent: 20 * time.Minute}}, "warn ledger: nothing was written into the ledger of costs for 20m0s: what is held since then is not charged yet"},
		{"a ledger that was written a minute ago", doctor.Cluster{Ledger: doctor.Ledger{Silent: time.Minute}}, ""},
		{"a notebook that nothing stops", culled(nil, nil), unculled},
		{"a notebook of a namespace with a policy", culled(nil, map[string]string{api.AnnotationNotebookIdleAfter: "2h"}), ""},
		{"a notebook that its owner exempts", culled(map[string]string{api.AnnotationNotebookIdleAfter: "never"}, nil), ""},
		{"a controller that stops all", culled(nil, nil, "--idle-after", "8h"), ""},
		{"a controller that stops none", culled(nil, nil, "--idle-after=never"), unculled},
		{"a controller of Kubeflow's that stops all", environment, ""},
		{"a Queue that has them give way", gives, ""},
		{"images of profiles", doctor.Cluster{MovingImages: []string{"torch: team/torch:latest"}}, "warn profile-images: 1 image of notebook profiles can change under its users: torch: team/torch:latest"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "prices in two currencies" {
				tt.c.Nodes[1].Labels["rack"] = "r1"
				tt.c.BooksChanged = map[string]time.Time{"x": today}
			}
			if tt.c.Now.IsZero() {
				tt.c.Now = today
			}
			about := []string{"version-skew", "clocks", "certificates", "price-age", "currencies", "ledger", "culling", "profile-images"}
			var got []string
			for _, f := range doctor.Examine(tt.c) {
				if slices.Contains(about, f.Name) {
					got = append(got, string(f.Status)+" "+f.Name+": "+f.Seen)
					if f.How == "" || f.Do == "" && f.Name != "certificates" {
						t.Errorf("%s says neither how it was seen nor what to do: %+v", f.Name, f)
					}
				}
			}
			if strings.Join(got, "\n") != tt.want {
				t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), tt.want)
			}
		})
	}
}
