package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/idle"
	"berth.dev/berth/internal/finding"
	of "berth.dev/berth/kube/idle"
	"berth.dev/berth/kube/price"
	"berth.dev/berth/kube/request"
)

// oldPrice is the age at which a price is looked at again: clouds change theirs a few times a year.
const oldPrice = 180 * 24 * time.Hour

// Ledger is what the ledger of a cluster says of itself.
type Ledger struct {
	Losses []cost.Loss
	Silent time.Duration // since it was written for the last time; 0 is that this is not known
	Began  time.Time     // nothing is known of the time before; zero is that there is no ledger
	// Held is the GPU-hours that pods held of each node since UnheldSince; nil is that this is not known.
	Held map[string]float64
	// Copied says that the API server has GPUUsageDays, and LastCopy is the last day of which there is one.
	Copied   bool
	LastCopy time.Time
}

// Notebook is a Notebook of Kubeflow, and what is written on it and its namespace.
type Notebook struct {
	Namespace, Name string
	Own, Space      map[string]string // annotations of the object, and of its namespace
}

// agedPrices finds prices of nodes that were last looked at long ago, and nodes whose prices are in several currencies.
func (e *examined) agedPrices() []finding.Finding {
	if !e.PriceBooks {
		return nil
	}
	old, in := map[string][]string{}, map[string]int{} // nodes by source, and how many by currency
	for i := range e.view.Nodes {
		n := &e.view.Nodes[i]
		if n.Physical == 0 {
			continue
		}
		q := cost.PriceOf(price.Node(e.byName[n.Name], n.Product, n.Physical), e.Prices, e.Now)
		if q.Source == cost.Unpriced {
			continue
		}
		in[q.Currency]++
		if since := e.lookedAt(&q); !since.IsZero() && e.Now.Sub(since) > oldPrice {
			key := fmt.Sprintf("%s (%d days)", q.Source, int(e.Now.Sub(since)/(24*time.Hour)))
			old[key] = append(old[key], n.Name)
		}
	}
	var out []finding.Finding
	for _, source := range sortedKeys(old) {
		out = append(out, warn("price-age", fmt.Sprintf("the price of %s is older than %d days: %s, of %s", count(len(old[source]), "node"), int(oldPrice/(24*time.Hour)), source, few(old[source])),
			"compare it with a bill, and set it with `berth price set NODE PRICE` or in a PriceBook; `berth price rerate` corrects what was charged"))
	}
	if len(in) > 1 {
		out = append(out, warn("currencies", "prices of nodes are in "+strings.Join(sortedKeys(in), " and ")+": nothing is converted, so sums and shares are of each alone",
			"write all prices in one currency: `berth price list` shows where each is from"))
	}
	return out
}

// lookedAt is when a price was last looked at: the date of a list of prices, or when its PriceBook was changed.
// Zero is that this is not known, or that it does not matter: what was bought does not change its price.
func (e *examined) lookedAt(q *cost.Quote) time.Time {
	if date, known := cost.ListDate(q.Source); known {
		return date
	}
	for i := range e.Prices {
		if r := &e.Prices[i]; r.Source() == q.Source && r.Remark == "" {
			changed := e.BooksChanged[r.Book]
			if r.From.After(changed) {
				return r.From
			}
			return changed
		}
	}
	return time.Time{}
}

// ledger finds time that the ledger of costs does not have.
func (e *examined) ledger() []finding.Finding {
	var out []finding.Finding
	if e.Ledger.Silent > 5*time.Minute {
		out = append(out, warn("ledger", fmt.Sprintf("nothing was written into the ledger of costs for %v: what is held since then is not charged yet", e.Ledger.Silent.Round(time.Minute)),
			"see the log of `berth meter` and the disk of its volume: docs/alerts/GPULedgerGap.md"))
	}
	if n := len(e.Ledger.Losses); n > 0 {
		l := &e.Ledger.Losses[0]
		out = append(out, warn("ledger", fmt.Sprintf("the ledger of costs has %s in the last %d days, as its file was damaged: %s to %s, %s", count(n, "gap"), LedgerDays,
			l.From.UTC().Format("2006-01-02 15:04"), l.To.UTC().Format("2006-01-02 15:04 UTC"), l.What), "`berth cost` lists them; see docs/cost.md for what is charged then"))
	}
	return out
}

// LedgerDays is how many days of the ledger are asked for.
const LedgerDays = 7

// culling finds notebooks that hold GPUs and that nothing stops when they are not used.
func (e *examined) culling() []finding.Finding {
	if len(e.Notebooks) == 0 || e.cullsAll() {
		return nil
	}
	held := map[string]bool{}
	for _, p := range e.Pods {
		if name := p.Labels[api.LabelNotebook]; name != "" && p.Spec.NodeName != "" && request.AsksForGPUs(p) {
			held[p.Namespace+"/"+name] = true
		}
	}
	var open []string
	for _, n := range e.Notebooks {
		own, space := of.NotebookWords(n.Own), of.NotebookWords(n.Space)
		said := own.After + own.MaxSession + space.After + space.MaxSession
		if name := n.Namespace + "/" + n.Name; said == "" && held[name] {
			open = append(open, name)
		}
	}
	if len(open) == 0 {
		return nil
	}
	slices.Sort(open)
	return []finding.Finding{warn("culling", fmt.Sprintf("%s %s GPUs, and nothing stops %s when not used: %s", count(len(open), "notebook"), verb(len(open), "holds", "hold"), verb(len(open), "it", "them"), few(open)),
		"kubectl annotate namespace NAMESPACE berth.dev/notebook-idle-after=2h: docs/tasks/stop-idle-notebooks.md")}
}

// cullsAll reports whether a controller of notebooks stops all that are not used, or whether a Queue has them give way.
func (e *examined) cullsAll() bool {
	for _, q := range e.Queues {
		if q.Spec.IdleNotebooks == v1alpha1.IdleGiveWay {
			return true
		}
	}
	for _, d := range e.Deployments {
		for i := range d.Spec.Template.Spec.Containers {
			if cullsBy(&d.Spec.Template.Spec.Containers[i]) {
				return true
			}
		}
	}
	return false
}

// cullsBy reports whether a container is a controller that stops all unused notebooks: by Kubeflow's variables, or by the flag of Berth's.
func cullsBy(c *v1.Container) bool {
	after := ""
	for i, arg := range slices.Concat(c.Command, c.Args) {
		if name, value, set := strings.Cut(arg, "="); name == "--idle-after" {
			if all := slices.Concat(c.Command, c.Args); !set && i+1 < len(all) {
				value = all[i+1]
			}
			after = value
		}
	}
	if after != "" {
		_, problems := idle.Off().With(idle.Words{After: after})
		return len(problems) == 0 && !strings.EqualFold(after, "never")
	}
	return slices.ContainsFunc(c.Env, func(v v1.EnvVar) bool {
		return v.Name == "ENABLE_CULLING" && (v.Value == "true" || v.ValueFrom != nil)
	})
}

// moving finds images of profiles that are another image tomorrow.
func (e *examined) moving() []finding.Finding {
	if len(e.MovingImages) == 0 {
		return nil
	}
	return []finding.Finding{warn("profile-images", fmt.Sprintf("%s of notebook profiles can change under %s: %s", count(len(e.MovingImages), "image"), verb(len(e.MovingImages), "its users", "their users"), few(e.MovingImages)),
		"give each a fixed tag, such as 2026-11-01, or a digest, and import the file again: `berth profiles lint FILE` has the lines")}
}
