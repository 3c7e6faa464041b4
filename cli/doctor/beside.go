package doctor

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	berthapi "berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/query"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/doctor"
	"berth.dev/berth/kube/profile"
)

// patience is how long something is waited for without which the rest is found all the same.
const patience = 2 * time.Second

// server asks the API server for its version, and reads from the answer what time it has and until when its certificate is good.
// What cannot be read is not known.
func server(ctx context.Context, c *client.Cluster, clock func() time.Time) (out doctor.Server) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if own, ok := doctor.EndOf(clientCertificate(c.Config)); ok {
		own.Of, own.Do = "the client certificate of this kubeconfig", "ask the administrator for a new kubeconfig; `berth up` writes one when it starts, and kubeadm certs renew does on its clusters"
		out.Certificates = append(out.Certificates, own)
	}
	client, err := rest.HTTPClientFor(c.Config)
	if err != nil {
		return out
	}
	at, _, err := rest.DefaultServerUrlFor(c.Config)
	if err != nil {
		return out
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.JoinPath("version").String(), nil)
	if err != nil {
		return out
	}
	sent := clock()
	answer, err := client.Do(r)
	if err != nil {
		return out
	}
	defer answer.Body.Close()
	got := clock()
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if raw, err := io.ReadAll(io.LimitReader(answer.Body, 1<<16)); err == nil && json.Unmarshal(raw, &version) == nil {
		out.Version = version.GitVersion
	}
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		// The header has whole seconds, so half a second later is meant on average, and it was written between both readings.
		out.Ahead = sent.Add(got.Sub(sent) / 2).Sub(date.Add(time.Second / 2))
	}
	if answer.TLS != nil && len(answer.TLS.PeerCertificates) > 0 {
		out.Certificates = append(out.Certificates, served(answer.TLS.PeerCertificates[0]))
	}
	return out
}

// served is the certificate that an API server shows.
func served(one *x509.Certificate) doctor.Certificate {
	return doctor.Certificate{
		Of: "the certificate of the API server", From: one.NotBefore, Ends: one.NotAfter,
		Do: "renew it where the API server runs (kubeadm certs renew all, then restart it); clients refuse one that has ended",
	}
}

// clientCertificate is what a client shows of itself, in PEM; nil is that it uses a token, or that its file cannot be read.
func clientCertificate(cfg *rest.Config) []byte {
	if len(cfg.CertData) > 0 || cfg.CertFile == "" {
		return cfg.CertData
	}
	text, err := os.ReadFile(cfg.CertFile)
	if err != nil {
		return nil
	}
	return text
}

// ledger asks the ledger of costs what it has lost, and when it was written. Where there is none, nothing is known.
func ledger(ctx context.Context, c *client.Cluster, o client.Options, now time.Time) (out doctor.Ledger) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r := &cost.Report{}
	from := now.Add(-doctor.LedgerDays * 24 * time.Hour)
	if err := c.Ledger(ctx, "cost", map[string]string{"from": from.UTC().Format(time.RFC3339), "to": now.UTC().Format(time.RFC3339), "by": string(cost.Namespace)}, r); err != nil {
		return out
	}
	out.Losses, out.Began = r.Losses, r.Began
	out.Copied, out.LastCopy = copied(ctx, c, o)
	out.Held = heldBy(ctx, c, now)
	list, err := query.Ask(ctx, c, "query", map[string]string{"query": "time() - max(berth_ledger_written_timestamp_seconds)"})
	if err != nil || len(list) != 1 || len(list[0].Values) == 0 {
		return out
	}
	if seconds, err := strconv.ParseFloat(list[0].Values[0].Value, 64); err == nil && seconds > 0 && seconds < 1e9 {
		out.Silent = time.Duration(seconds * float64(time.Second))
	}
	return out
}

// heldBy asks the ledger how many GPU-hours pods held of each node since UnheldSince; nil is that this is not known.
func heldBy(ctx context.Context, c *client.Cluster, now time.Time) map[string]float64 {
	r := &cost.Report{}
	if err := c.Ledger(ctx, "cost", map[string]string{"from": doctor.UnheldSince(now).UTC().Format(time.RFC3339), "to": now.UTC().Format(time.RFC3339), "by": string(cost.NodeName)}, r); err != nil {
		return nil
	}
	out := map[string]float64{}
	for i := range r.Rows {
		if row := &r.Rows[i]; row.What == cost.Held.String() {
			out[row.Name] += row.GPUHours
		}
	}
	return out
}

// copied reports whether a cluster has GPUUsageDays, and of which day the newest is where each day has one; zero is that there is none.
func copied(ctx context.Context, c *client.Cluster, o client.Options) (served bool, last time.Time) {
	if !knows(c, v1alpha1.GroupVersion.String(), "GPUUsageDay") {
		return false, last
	}
	api, err := c.Dynamic(o)
	if err != nil {
		return false, last
	}
	list, err := api.Resource(v1alpha1.GPUUsageDays).Namespace(berthapi.MetricsNamespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return false, last
	}
	for i := range list.Items {
		if day, err := time.Parse(time.DateOnly, list.Items[i].GetName()); err == nil && day.After(last) {
			last = day
		}
	}
	return true, last
}

// notebooks returns the Notebooks of a cluster with the annotations of their namespaces, where it has that kind.
func notebooks(ctx context.Context, c *client.Cluster, o client.Options) ([]doctor.Notebook, error) {
	if !knows(c, kubeflow.Resource.GroupVersion().String(), "Notebook") {
		return nil, nil
	}
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	list, err := api.Resource(kubeflow.Resource).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil || len(list.Items) == 0 {
		return nil, err
	}
	spaces, err := c.CoreV1().Namespaces().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	of := map[string]map[string]string{}
	for i := range spaces.Items {
		of[spaces.Items[i].Name] = spaces.Items[i].Annotations
	}
	var out []doctor.Notebook
	for i := range list.Items {
		n := &list.Items[i]
		out = append(out, doctor.Notebook{Namespace: n.GetNamespace(), Name: n.GetName(), Own: n.GetAnnotations(), Space: of[n.GetNamespace()]})
	}
	return out, nil
}

// movingImages returns the images of the notebook profiles of a cluster that can change under their users, where it has that kind.
func movingImages(ctx context.Context, c *client.Cluster, o client.Options) (out []string, err error) {
	if !knows(c, v1alpha1.GroupVersion.String(), v1alpha1.KindNotebookProfile) {
		return nil, nil
	}
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	list, err := api.Resource(v1alpha1.NotebookProfiles).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		p := &v1alpha1.NotebookProfile{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, p) == nil {
			out = append(out, profile.MovingImages(p)...)
		}
	}
	return out, nil
}

// written is when PriceBooks were written for the last time, by name.
func written(books []*v1alpha1.PriceBook) map[string]time.Time {
	out := map[string]time.Time{}
	for _, b := range books {
		at := b.CreationTimestamp.Time
		for i := range b.ManagedFields {
			if t := b.ManagedFields[i].Time; t != nil && t.After(at) {
				at = t.Time
			}
		}
		out[b.Name] = at
	}
	return out
}
