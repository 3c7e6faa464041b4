package remote

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/model"
)

// Prometheus is one beside the store. Safe for concurrent use.
type Prometheus struct {
	Name string // for people
	ask  Ask
	o    Options

	mu      sync.Mutex
	targets map[target]*known
	names   map[string]bool // of metrics that these jobs have
	mapped  map[string]*own // labels, by those that the Prometheus has, as JSON
	down    error           // why it is not asked; nil is that it is

	kept kept
}

// target is a job with an instance, as a Prometheus names what it reads.
type target struct{ job, instance string }

// known is a target that is an exporter.
type known struct {
	instance string            // that the series get
	labels   map[string]string // that the Prometheus puts on all its series
}

// Options says how the store names what it has.
type Options struct {
	Job  string   // of exporters
	Own  []string // all its jobs: what a Prometheus has of those it has from the store
	Drop []string // metrics of exporters that are left out, as the store has them from elsewhere
}

// New is a Prometheus that has not been looked at. name is for people.
func New(name string, ask Ask, o Options) *Prometheus {
	return &Prometheus{Name: name, ask: ask, o: o, targets: map[target]*known{}, mapped: map[string]*own{}}
}

// SetDown notes that it does not answer, and why; nil is that it does. Lenient questions for its metrics then get a warning, and others nothing of it.
func (p *Prometheus) SetDown(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.kept.clear()
	}
	p.down = err
}

// Devices is what an exporter has: by UUID of a GPU, how many metrics.
type Devices map[string]int

// count is how many metrics a Prometheus has of each device of a target.
const count = `count by (job, instance, UUID) (count by (job, instance, UUID, __name__) ({UUID!="", job!="", job!~"%s", exported_job!~"%[1]s"}))`

// Look asks which exporters the Prometheus reads: those of which it has all devices with as many metrics as wanted, by the instance that their series get. Its series
// of them are found from then on, also when it has ended to read them.
func (p *Prometheus) Look(ctx context.Context, now time.Time, wanted map[string]Devices) (reads map[string]bool, err error) {
	list, err := p.at(ctx, fmt.Sprintf(count, pattern(p.o.Own)), now)
	if err != nil {
		return nil, err
	}
	has := map[target]Devices{}
	for i := range list {
		ls := list[i].labels()
		t := target{ls.Get("job"), ls.Get("instance")}
		if has[t] == nil {
			has[t] = Devices{}
		}
		has[t][ls.Get("UUID")] = int(list[i].Value.V)
	}
	found := map[target]string{}
	reads = map[string]bool{}
	for instance, devices := range wanted {
		if t, ok := best(has, devices); ok {
			found[t], reads[instance] = instance, true
		}
	}
	return reads, p.learn(ctx, now, found)
}

// best is the target that has all of some devices: of several the one with the most metrics.
func best(has map[target]Devices, devices Devices) (target, bool) {
	var fits []target
	most := map[target]int{}
	for t, d := range has {
		all := len(devices) > 0
		for uuid, n := range devices {
			all = all && d[uuid] >= n
			most[t] += d[uuid]
		}
		if all {
			fits = append(fits, t)
		}
	}
	if len(fits) == 0 {
		return target{}, false
	}
	return slices.MinFunc(fits, func(a, b target) int {
		return cmp.Or(most[b]-most[a], strings.Compare(a.job, b.job), strings.Compare(a.instance, b.instance))
	}), true
}

// learn keeps which targets are exporters, what labels they have, and which metrics their jobs have.
func (p *Prometheus) learn(ctx context.Context, now time.Time, found map[target]string) error {
	jobs := map[string]bool{}
	for t := range found {
		jobs[t.job] = true
	}
	p.mu.Lock()
	for t := range p.targets {
		jobs[t.job] = true
	}
	p.mu.Unlock()
	if len(jobs) == 0 {
		return nil
	}
	of := `job=~"` + pattern(slices.Collect(maps.Keys(jobs))) + `"`
	up, err := p.at(ctx, `up{`+of+`}`, now)
	if err != nil {
		return err
	}
	list, err := p.at(ctx, `group by (__name__) ({`+of+`})`, now)
	if err != nil {
		return err
	}
	put := map[target]map[string]string{}
	for i := range up {
		of := up[i].labels().Map()
		delete(of, model.MetricNameLabel)
		put[target{of["job"], of["instance"]}] = of
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for t, instance := range found {
		k := &known{instance: instance, labels: put[t]}
		if k.labels == nil {
			k.labels = map[string]string{"job": t.job, "instance": t.instance}
		}
		if was := p.targets[t]; was == nil || was.instance != k.instance || !maps.Equal(was.labels, k.labels) {
			p.targets[t] = k
			clear(p.mapped)
			p.kept.clear()
		}
	}
	if p.names == nil {
		p.names = map[string]bool{}
	}
	for i := range list {
		if name := list[i].labels().Get(model.MetricNameLabel); !slices.Contains(p.o.Drop, name) {
			p.names[name] = true
		}
	}
	return nil
}

// pattern is a regular expression for some texts, as it is written between quotes.
func pattern(list []string) string {
	var out []string
	for _, text := range slices.Sorted(slices.Values(list)) {
		out = append(out, regexp.QuoteMeta(text))
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.Join(out, "|"))
}
