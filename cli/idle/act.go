package idle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/cost"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/service"
	"berth.dev/berth/cli/term"
	core "berth.dev/berth/core/cost"
)

// sentence says of a holder what it does not use.
func sentence(r *core.IdleRow) string {
	text := fmt.Sprintf("%s of namespace %s holds %s of node %s and has used next to nothing of that since %s", workload(r), r.Namespace, amount(r.GPUs), r.Node, r.Since.UTC().Format("2006-01-02 15:04 UTC"))
	if r.Currency != "" {
		text += fmt.Sprintf(", which has cost %s so far", cost.Money(r.CostMicros, r.Currency))
	}
	return text + "; stop it if it does not need GPUs"
}

// amount is "1 GPU" or "0.25 GPUs".
func amount(gpus float64) string {
	if gpus == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%.4g GPUs", gpus)
}

// nudgeAll writes an event on each pod, and tells the webhook.
func (c *command) nudgeAll(ctx context.Context, cluster *client.Cluster, r *core.IdleReport) error {
	var errs []error
	for i := range r.Rows {
		row := &r.Rows[i]
		if _, err := cluster.EventsV1().Events(row.Namespace).Create(ctx, event(row, c.o.Time()), metav1.CreateOptions{FieldManager: "berth"}); err != nil {
			errs = append(errs, cluster.Failed("write an event on pod "+row.Namespace+"/"+row.Pod, err))
			continue
		}
		term.PrintLine(c.o.Out, fmt.Sprintf("nudged pod %s/%s: an event IdleGPUs", row.Namespace, row.Pod))
	}
	if c.webhook != "" && len(r.Rows) > 0 {
		if err := post(ctx, c.webhook, r); err != nil {
			errs = append(errs, err)
		} else {
			term.PrintLine(c.o.Out, "told the webhook of "+term.Count(len(r.Rows), "pod"))
		}
	}
	return errors.Join(errs...)
}

// event is what a nudge writes.
func event(r *core.IdleRow, now time.Time) *eventsv1.Event {
	host, _ := os.Hostname() // a name for people
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, GenerateName: strings.ToLower(r.Pod) + "-idle-"},
		EventTime:  metav1.NewMicroTime(now), Type: v1.EventTypeWarning, Reason: "IdleGPUs", Action: "Nudging", Note: sentence(r),
		Regarding:           v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: r.Namespace, Name: r.Pod, UID: types.UID(r.UID)},
		ReportingController: "berth.dev/idle", ReportingInstance: "berth-idle-" + host,
	}
}

// webhookPatience is how long a webhook may take.
const webhookPatience = 10 * time.Second

// post sends what is idle to a webhook: a text, as chat programs take it, and the rows.
func post(ctx context.Context, url string, r *core.IdleReport) error {
	lines := make([]string, len(r.Rows))
	for i := range r.Rows {
		lines[i] = sentence(&r.Rows[i])
	}
	raw, err := json.Marshal(map[string]any{"text": strings.Join(lines, "\n"), "holders": r.Rows})
	if err != nil {
		return fmt.Errorf("write the message of the webhook: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, webhookPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return term.Usagef("invalid --webhook %q: must be a URL", url)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("send to the webhook: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("send to the webhook: it responds with status %s", resp.Status)
	}
	return nil
}

// stopAll stops the notebooks and model services among the holders: both keep their work, and start again as they were.
func (c *command) stopAll(ctx context.Context, cluster *client.Cluster, r *core.IdleReport) error {
	api, err := cluster.Dynamic(c.o)
	if err != nil {
		return err
	}
	var errs []error
	done := map[string]bool{}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := row.Namespace + "/" + row.Kind + "/" + row.Owner
		switch {
		case done[name]:
			continue
		case row.Kind == kubeflow.Kind:
			nbs := &notebook.Notebooks{Cluster: cluster, Client: api, Namespace: row.Namespace, Options: c.o}
			errs = append(errs, nbs.Stop(ctx, row.Owner))
		case row.Kind == kserve.Kind:
			errs = append(errs, service.Stop(ctx, c.o, cluster, row.Namespace, row.Owner))
		default:
			term.PrintLine(c.o.Err, fmt.Sprintf("%s of namespace %s continues: --stop stops notebooks and model services", workload(row), row.Namespace))
		}
		done[name] = true
	}
	return errors.Join(errs...)
}
