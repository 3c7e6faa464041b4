package remote

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// known returns the targets, and the labels that they put on series, among them job and instance.
func (p *Prometheus) known() (targets map[target]*known, put map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.targets), putBy(p.targets)
}

func putBy(targets map[target]*known) map[string]bool {
	put := map[string]bool{}
	for _, k := range targets {
		for name := range k.labels {
			put[name] = true
		}
	}
	return put
}

// selector is what a Prometheus is asked for in place of matchers. Those of labels that may be others there are left out, and apply when the series
// have got their labels. False is that it has no such series.
func (p *Prometheus) selector(targets map[target]*known, put map[string]bool, matchers []*labels.Matcher) (text string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var parts []string
	for _, m := range matchers {
		switch {
		case m.Name == model.MetricNameLabel && !p.hasName(m), m.Name == "job" && !m.Matches(p.o.Job):
			return "", false
		case put[m.Name], strings.HasPrefix(m.Name, "exported_"):
		case slices.Contains(holderLabels, m.Name): // as the pod of an exporter may be in its place
		default:
			parts = append(parts, m.String())
		}
	}
	jobs := map[string]bool{}
	for t := range targets {
		jobs[t.job] = true
	}
	if len(jobs) == 0 {
		return "", false
	}
	parts = append(parts, `job=~"`+pattern(slices.Collect(maps.Keys(jobs)))+`"`)
	return "{" + strings.Join(parts, ",") + "}", true
}

func (p *Prometheus) isDown() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down
}

func (p *Prometheus) hasName(m *labels.Matcher) bool {
	for name := range p.names {
		if m.Matches(name) {
			return true
		}
	}
	return false
}

// holderLabels say who holds a GPU. If the reading has none, a Prometheus puts those of the exporter's own pod there.
var holderLabels = []string{"namespace", "pod", "container"}

// own are labels that a series would have in the store; ok is that it is of an exporter.
type own struct {
	labels.Labels
	text string // those that the Prometheus has, as JSON
	ok   bool
}

// mostMapped is of how many series it is kept which labels they get.
const mostMapped = 100_000

// all are the series of an answer that are of exporters, in their order, with the labels that they would have in the store. Most labels are known, as they are asked for
// again and again.
func (p *Prometheus) all(list []got) []one {
	out := make([]one, 0, len(list))
	p.mu.Lock()
	defer p.mu.Unlock()
	put := putBy(p.targets)
	for i := range list {
		is := p.mapped[string(list[i].labels)]
		if is == nil {
			is = &own{text: string(list[i].labels)}
			var ls labels.Labels
			if json.Unmarshal(list[i].labels, &ls) == nil {
				is.Labels, is.ok = p.labels(p.targets, put, ls)
			}
			if len(p.mapped) >= mostMapped {
				clear(p.mapped)
				p.kept.clear() // which goes by them
			}
			p.mapped[is.text] = is
		}
		if is.ok {
			out = append(out, one{is, list[i].points})
		}
	}
	return out
}

// labels are those that a series would have in the store. False is that it is not of an exporter.
func (p *Prometheus) labels(targets map[target]*known, put map[string]bool, ls labels.Labels) (labels.Labels, bool) {
	k := targets[target{ls.Get("job"), ls.Get("instance")}]
	if k == nil || slices.Contains(p.o.Drop, ls.Get(model.MetricNameLabel)) {
		return labels.EmptyLabels(), false
	}
	b := labels.NewBuilder(ls)
	read := ls.Get("exported_pod") != "" || ls.Get("pod") != "" && ls.Get("pod") != k.labels["pod"] // the reading names a pod
	for name := range put {
		was := ls.Get("exported_" + name)
		switch {
		case was != "":
			b.Set(name, was).Del("exported_" + name)
		case ls.Get(name) == k.labels[name] && !(read && slices.Contains(holderLabels, name)):
			b.Del(name)
		}
	}
	return b.Set("job", p.o.Job).Set("instance", k.instance).Labels(), true
}
