package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/controller/proxy"
	rules "berth.dev/berth/core/serving"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
	objects "berth.dev/berth/kube/serving"
)

// How replicas are asked what they report: so often, so long for one, so many of a service at once, and so much of an answer.
const (
	loadAgain    = 5 * time.Second
	loadPatience = 2 * time.Second
	loadAtOnce   = 8
	loadSize     = 4 << 20
)

// load is what replicas have reported last.
type load struct {
	read *rules.Load
	why  string // one of them is not read; "" is that all are
}

// readLoad reads what the ready replicas report, if that decides about their number, at most every loadAgain.
func (p *pass) readLoad(ctx context.Context) *rules.Load {
	metric := p.written.Service.Scale.Metric
	if !metric.OfReplicas() || p.written.Service.Stopped || p.report == nil {
		p.mem.load = load{}
		return nil
	}
	now := p.now()
	if last := p.mem.load.read; last != nil && now.Sub(last.At) < loadAgain {
		p.later(last.At.Add(loadAgain).Sub(now))
		return last
	}
	p.later(loadAgain)
	var pods []*corev1.Pod
	for _, pod := range p.pods {
		if condition(pod, corev1.PodReady).Status == corev1.ConditionTrue {
			pods = append(pods, pod)
		}
	}
	figures, faults := make([]rules.Figure, len(pods)), make([]error, len(pods))
	var asking sync.WaitGroup
	turn := make(chan struct{}, loadAtOnce)
	for i, pod := range pods {
		asking.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			figures[i], faults[i] = p.report(ctx, metric, pod)
		})
	}
	asking.Wait()
	p.mem.load = load{read: &rules.Load{At: now}}
	for i, err := range faults {
		if err == nil {
			p.mem.load.read.Figures = append(p.mem.load.read.Figures, figures[i])
			continue
		}
		if p.mem.load.read.Missing++; p.mem.load.why == "" {
			p.mem.load.why = fmt.Sprintf("the %s of pod %s is not known: %v", metric, pods[i].Name, err)
		}
	}
	return p.mem.load.read
}

// reporter returns what asks a replica for what it reports: the exporter of its node for its GPUs, and its server for its queue.
func reporter(mgr manager.Manager, kube kubernetes.Interface) (func(context.Context, rules.Metric, *corev1.Pod) (rules.Figure, error), error) {
	web, root, err := proxy.Through(mgr.GetHTTPClient(), mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	gauges := &proxy.Gauges{Client: web, Root: root, Pods: mgr.GetAPIReader(), Now: time.Now, Longest: loadPatience, Token: exporter.NewMetricsTokens(kube, time.Now).Get}
	return func(ctx context.Context, metric rules.Metric, pod *corev1.Pod) (rules.Figure, error) {
		if metric == rules.ByUtilization {
			_, readings, served, err := gauges.Read(ctx, pod.Spec.NodeName)
			if err != nil {
				return rules.Figure{}, errors.New(proxy.Short(err, loadPatience))
			}
			return busy(pod, readings, served)
		}
		return queue(ctx, web, root, pod)
	}, nil
}

// busy is how busy the GPUs of a pod are, in percent, as the exporter of its node says.
func busy(pod *corev1.Pod, readings []exporter.Reading, served bool) (f rules.Figure, err error) {
	if !served {
		return f, fmt.Errorf("no DCGM exporter runs on node %s; install one, such as Berth's node agent, or use scaleMetric %s", pod.Spec.NodeName, rules.ByConcurrency)
	}
	mine := exporter.Of(readings, pod.Namespace, pod.Name, devices.HeldDevices(pod))
	if len(mine) == 0 {
		return f, fmt.Errorf("the DCGM exporter of node %s does not report its GPUs", pod.Spec.NodeName)
	}
	for _, r := range mine {
		f.Value += 100 * r.Utilization / float64(len(mine))
	}
	return f, nil
}

// queue is how many requests wait in the server of a pod, as its metrics say.
func queue(ctx context.Context, web *http.Client, root string, pod *corev1.Pod) (rules.Figure, error) {
	ctx, cancel := context.WithTimeout(ctx, loadPatience)
	defer cancel()
	port, path := objects.MetricsAt(pod.Annotations)
	text, status, err := proxy.Fetch(ctx, web, root+pod.Namespace+"/pods/"+pod.Name+":"+port+"/proxy"+path, loadSize, nil)
	at := "port " + port + ", path " + path
	switch {
	case err != nil:
		return rules.Figure{}, fmt.Errorf("its metrics (%s) cannot be read: %s", at, proxy.Short(err, loadPatience))
	case status != http.StatusOK:
		return rules.Figure{}, fmt.Errorf("its metrics (%s) cannot be read: the server responds with status %d", at, status)
	}
	f, ok := objects.QueueOf(text)
	if !ok {
		return f, fmt.Errorf("its metrics (%s) have none of %s; use scaleMetric %s", at, objects.QueueMetrics(), rules.ByConcurrency)
	}
	return f, nil
}
