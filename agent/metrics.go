package agent

import (
	"context"
	"strings"

	"berth.dev/berth/agent/access"
	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
	"berth.dev/berth/agent/settings"
)

// serveMetrics serves what dcgm-exporter serves. Nothing that is wrong with it ends
// the agent: the devices of containers do not depend on metrics.
func (a *agent) serveMetrics(g *group, source allocation.PodSource) {
	o := &a.o
	for _, w := range o.MetricsWarnings {
		o.Log.Warn("metrics", "warning", w)
	}
	if o.Listen == "" {
		return
	}
	options := exporter.CollectorOptions{Options: exporter.Options{Hostname: o.NodeName, Divide: !o.Duplicate, OldLabels: o.OldLabels}, PodLabels: o.PodLabels, MinAge: o.Interval, Log: o.Log}
	if o.OldHostname {
		options.HostnameLabel = "Hostname"
	}
	kubelet := exporter.NewKubelet(o.podResources(), o.Resources)
	g.last(func() { _ = kubelet.Close() })
	names := podNames{source}
	collector := exporter.NewCollector(exporter.Sources{
		Snapshot: func() nvml.Snapshot { return a.now().Snapshot },
		Samples:  a.client.Samples, Ask: a.client.Ask,
		Holders: a.holders,
		Kubelet: kubelet.Holders,
		PodUIDs: names.uids, PodLabels: names.labels, Container: names.container,
		Healthy:  func(uuid string) bool { return a.now().Healthy[uuid] },
		Counters: a.counters,
		Bare:     a.withoutGPU,
	}, options)
	a.reconciler.xid = collector.Xids.Note
	if o.MetricsFile != "" {
		a.followMetricsFile(g, collector.SetFields)
	}
	g.again(o.Log, "the metrics are not served", a.notServed, func(ctx context.Context) error {
		who, err := access.New(a.access())
		if err != nil {
			return err
		}
		serve := exporter.ServeOptions{Address: who.Address, TLS: who.TLS, Guard: who.Guard, Page: collector.Page, Health: a.health, Log: o.Log}
		if a.record != nil {
			serve.Record = a.record
		}
		return exporter.Serve(ctx, serve)
	})
}

// notServed reports to the node's administrator that there are no metrics.
func (a *agent) notServed(err error) {
	a.nodeEvent("Warning", "MetricsNotServed", err.Error()+"; retrying. Devices are still allocated")
}

// followMetricsFile reads which metrics are asked for, now and whenever the file
// changes. What cannot be served is told of once, and counted. A file that cannot be
// read leaves what was read before, at first the default set.
func (a *agent) followMetricsFile(g *group, set func(exporter.Fields, []exporter.Fault)) {
	path, said := a.o.MetricsFile, ""
	var fields exporter.Fields
	read := func() {
		var faults []exporter.Fault
		data, err := readFile("--metrics-file", path)
		if err != nil {
			faults = []exporter.Fault{{Reason: exporter.LeftOutUnread, Text: err.Error() + "; the previous metrics are served, at first the default set"}}
		} else {
			fields, faults = exporter.ParseFields(path, data)
		}
		set(fields, faults)
		var all []string
		for _, f := range faults {
			all = append(all, f.Text)
		}
		text := strings.Join(all, "\n")
		if text == said {
			return
		}
		said = text
		for _, line := range all {
			a.o.Log.Warn("metrics", "left out", line)
		}
	}
	read() // before the first scrape
	g.run(func(ctx context.Context) error {
		for range settings.Changes(ctx, a.o.Log, path) {
			read()
		}
		return nil
	})
}

// access says who may read the metrics.
func (a *agent) access() access.Options {
	o := a.o.access()
	o.Log = a.o.Log
	if a.cluster != nil {
		o.API = a.cluster.client
	}
	return o
}

// now is what is known of the node.
func (a *agent) now() Status {
	if s := a.status.Load(); s != nil {
		return *s
	}
	return Status{Unread: notRead}
}

// health is why the agent is not well.
func (a *agent) health() error { return unhealthy(a.now(), a.withoutGPU) }

// holders is the agent's own table.
func (a *agent) holders() []exporter.Holder {
	if a.node == nil {
		return nil
	}
	var out []exporter.Holder
	for _, h := range a.node.Holders() {
		out = append(out, exporter.Holder{
			PodUID: h.PodUID, Namespace: h.Namespace, Pod: h.Pod, Container: h.Container, Devices: h.Devices, Committed: h.Committed,
		})
	}
	return out
}

func (a *agent) counters() exporter.Counters {
	c := exporter.Counters{Restarts: int64(a.client.Restarts())}
	if a.node != nil {
		c.Differences, c.Refusals = a.node.Differences(), a.node.Refusals()
	}
	return c
}

// podNames finds pods and containers by other names than the exporter has.
type podNames struct{ source allocation.PodSource }

// uids looks pods up by namespace and name, as they are at the call.
func (n podNames) uids() func(namespace, name string) string {
	list, err := n.source.Pods(context.Background(), false)
	if err != nil {
		return func(string, string) string { return "" }
	}
	type key struct{ namespace, name string }
	by := make(map[key]string, len(list))
	for _, p := range list {
		by[key{p.Namespace, p.Name}] = string(p.UID)
	}
	return func(namespace, name string) string { return by[key{namespace, name}] }
}

// labels returns the labels of pods by UID, as they are at the call.
func (n podNames) labels() func(podUID string) map[string]string {
	list, err := n.source.Pods(context.Background(), false)
	by := make(map[string]map[string]string, len(list))
	if err == nil {
		for _, p := range list {
			by[string(p.UID)] = p.Labels
		}
	}
	return func(podUID string) map[string]string { return by[podUID] }
}

func (n podNames) container(podUID, id string) string {
	p, err := n.source.Pod(context.Background(), podUID, false)
	if err != nil || p == nil {
		return ""
	}
	for _, s := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
		if _, of, ok := strings.Cut(s.ContainerID, "://"); ok && of == id {
			return s.Name
		}
	}
	return ""
}
