package agent

import (
	"context"
	"strings"

	"berth.dev/berth/agent/allocation"
	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
)

// serveMetrics serves what dcgm-exporter serves.
func (a *agent) serveMetrics(g *group, source allocation.PodSource) error {
	o := &a.o
	if o.Listen == "" {
		return nil
	}
	options := exporter.CollectorOptions{Options: exporter.Options{Hostname: o.NodeName, Divide: !o.Duplicate, OldLabels: o.OldLabels}, MinAge: o.Interval, Log: o.Log}
	if o.OldHostname {
		options.HostnameLabel = "Hostname"
	}
	if o.MetricsFile != "" {
		fields, told, err := readFields(o.MetricsFile)
		if err != nil {
			return err
		}
		for _, t := range told {
			o.Log.Warn("metrics", "file", o.MetricsFile, "warning", t)
		}
		options.Fields = fields
	}
	kubelet := exporter.NewKubelet(o.podResources(), o.Resources)
	g.last(func() { _ = kubelet.Close() })
	names := podNames{source}
	collector := exporter.NewCollector(exporter.Sources{
		Snapshot: func() nvml.Snapshot { return a.now().Snapshot },
		Samples:  a.client.Samples,
		Holders:  a.holders,
		Kubelet:  kubelet.Holders,
		PodUID:   names.uid, Container: names.container,
		Healthy:  func(uuid string) bool { return a.now().Healthy[uuid] },
		Counters: a.counters,
		Bare:     a.bare,
	}, options)
	a.keeper.xid = collector.Xids.Note
	g.run(func(ctx context.Context) error {
		return exporter.Serve(ctx, exporter.ServeOptions{Address: o.Listen, Scrape: collector.Scrape, Health: a.health, Log: o.Log})
	})
	return nil
}

// now is what is known of the node.
func (a *agent) now() Status {
	if s := a.status.Load(); s != nil {
		return *s
	}
	return Status{Unread: notRead}
}

// health is why the agent is not well.
func (a *agent) health() error { return unwell(a.now(), a.bare) }

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

func (n podNames) uid(namespace, name string) string {
	list, err := n.source.Pods(context.Background(), false)
	if err != nil {
		return ""
	}
	for _, p := range list {
		if p.Namespace == namespace && p.Name == name {
			return string(p.UID)
		}
	}
	return ""
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
